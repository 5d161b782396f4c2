"""The C side of the emulator: function pointers, the versions of functions, and what is not supported.

What it is   thunks: Python functions as C function pointers; abis: which exported symbol a name and a version stand
             for; gaps: what the emulator lacks, and why.
Order        thunks, abis, gaps
Read next    thunks.py
"""
