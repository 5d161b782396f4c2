"""The compiler: from CUDA C to PTX, a cubin or LTO-IR.

What it is   NVIDIA's compilers, called from Python: the library NVRTC and, where there is no other, the program nvcc;
             their messages, turned into exceptions and warnings; and a cache on disk.
What not     no compiler is part of this package. Nothing here uses the driver, so a machine without a GPU can compile.
Read next    program.py
"""
