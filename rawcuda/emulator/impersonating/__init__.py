"""How the emulator passes for libcuda.so.1: a shared object that Python writes and loads.

What it is   elf.py writes the object, and intel.py and arm.py have its machine code. table.py lays out the words
             through which the code and Python work together. attaching.py answers the calls; loading.py starts it all.
Read next    table.py
"""
