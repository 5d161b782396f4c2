"""C headers as data: what the driver's functions, enumerations and structures are.

What it is   cuda_h: the functions of cuda.h as C text, a reader, and enums and structures that are made on first use.
Read next    cuda_h.py
"""
