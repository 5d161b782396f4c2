"""What elements are and where they lie.

What it is   dtypes: one table of element types with all their names; layout: the arithmetic of shapes and strides;
             scalars: Python numbers to bytes and back; npy: .npy files.
What not     nothing here touches the memory of an array, or knows a protocol.
Read next    dtypes.py, layout.py
"""
