"""C headers as data: the functions, enumerations and structures of the driver.

What it is   cuda_h: the functions of cuda.h as C text, a reader, and enums and structures that are made on first use.
Read next    cuda_h.py
"""
