"""C headers as data: the functions, enumerations and structures of the driver.

What it is   cuda_h: every name of cuda.h, made on first use; the C text that it is made from; a reader of such text.
Read next    cuda_h.py
"""
