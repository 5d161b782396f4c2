"""Impersonation: a shared object that Python writes and loads takes the place of libcuda.so.1.

What it is   elf.py writes the object, and intel.py and arm.py have its machine code. symbol_table.py defines the words
             in memory that the machine code and Python share. attaching.py answers the calls; loading.py loads the
             object.
Order        arm, symbol_table, elf, compilers, intel, programs, nvml, linker, stand_in_libraries, journal, attaching,
             loading
Read next    symbol_table.py
"""
