"""Element types, and the layout of elements in memory.

What it is   dtypes: the table of element types with all their names; layout: the arithmetic of shapes and strides;
             scalars: Python numbers to bytes and back; npy: .npy files.
What not     nothing here accesses the memory of an array, or knows a protocol.
Order        dtypes, ctypes_types, layout, scalars, npy
Read next    dtypes.py, layout.py
"""
