"""CUDA arrays, textures, surfaces, tensor maps and pitched memory: how kernels read images and tensors.

What it is   formats: what an element and an array may be; transfers: copies from and to arrays; arrays and mipmapped:
             the memory that textures read; textures and surfaces: the objects that a kernel gets; tensor_map: the
             description of a tensor for bulk copies; pitched: memory whose rows are aligned.
Read next    formats.py
"""
