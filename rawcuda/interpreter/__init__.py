"""Access to CPython itself that the standard library does not offer.

What it is   cpython: the C API by a private binding, and reading memory; callback: C functions made from Python
             functions, which preserve a pending exception; covering: functions that always return; buffer_type:
             memoryviews of any memory that keep an object alive; peeking: addresses that may be wrong.
What not     Nothing here knows CUDA or an array protocol.
Order        cpython, covering, callback, buffer_type, peeking
Read next    cpython.py
"""
