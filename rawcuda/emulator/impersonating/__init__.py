"""Impersonation: a shared object that Python writes and loads takes the place of libcuda.so.1.

What it is   elf.py writes the object, and intel.py and arm.py have its machine code. table.py defines the words in
             memory that the machine code and Python share. attaching.py answers the calls; loading.py loads the object.
Read next    table.py
"""
