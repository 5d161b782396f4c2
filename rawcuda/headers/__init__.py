"""C headers as data: the functions, enumerations and structures of the driver.

What it is   cuda_h: every name of cuda.h, made on first use; the C text that it is made from; a reader of such text.
Order        status, c_types, behaviour, functions, functions_graphs, functions_arrays, functions_system, enumerations,
             structures, reader, cuda_h, nvrtc_h, nvjitlink_h
Read next    cuda_h.py
"""
