"""CUDA arrays, textures, surfaces, tensor maps and pitched memory: how kernels read images and tensors.

What it is   formats: elements and extents of arrays. transfers: copies from and to arrays. arrays and mipmapped: the
             memory that textures read. textures and surfaces: the objects that are passed to a kernel. tensor_map: the
             description of a tensor for bulk copies. pitched: memory with aligned rows.
Order        formats, transfers, opaque_arrays, mipmapped, texture, surfaces, tensor_map, pitched
Read next    formats.py
"""
