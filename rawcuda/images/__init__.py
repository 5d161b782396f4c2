"""Images of device code, read without a driver.

What it is   containers: ELF files, fatbins and archives, and what lies in them. outline: the declarations of PTX.
             mangled: the types in the names of C++ kernels. zstd: the compression of newer fatbins.
What not     nothing here interprets machine code, or loads anything.
Order        zstd, containers, outline, mangled
Read next    containers.py
"""
