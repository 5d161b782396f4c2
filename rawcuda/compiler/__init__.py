"""The compiler: from CUDA C to PTX, a cubin or LTO-IR.

What it is   calls of NVIDIA's compilers: the library NVRTC or, if it is not installed, the program nvcc; exceptions and
             warnings made from their messages; a cache on disk; links with nvJitLink; and declarations, a reader of
             the parameters that a source declares.
What not     no compiler is part of this package. Nothing here uses the driver, so a machine without a GPU can compile.
Order        declarations, request, nvrtc, nvcc, messages, cache, program, nvjitlink, linking
Read next    program.py
"""
