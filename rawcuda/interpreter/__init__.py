"""The few doors into CPython itself.

What it is   cpython: the C API by a private binding, and reading memory; callback: C functions made of Python functions that
             keep a pending exception; buffer_type: a class whose objects export the buffer protocol, for Python 3.9 to 3.11.
What not     nothing here knows CUDA or an array protocol.
Read next    cpython.py
"""
