"""Objects on a device: contexts, streams, events, memory, graphs, kernels and textures.

What it is   context: the primary context of a device; stream, memory, graph: objects in it; ordering and cuda_side:
             what arrays need of a device; device: the class that creates all of these. The folders contain what most
             programs need only in part, such as copies/, kernels/ and graphs/.
Read next    context.py
"""
