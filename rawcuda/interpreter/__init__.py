"""Access to CPython itself, which nothing in the standard library gives.

What it is   cpython: the C API by a private binding, and reading memory; callback: C functions made of Python
             functions that keep a pending exception; buffer_type: memoryviews of any memory that keep an object alive.
What not     Nothing here knows CUDA or an array protocol.
Read next    cpython.py
"""
