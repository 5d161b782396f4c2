"""Objects on a device: contexts, streams, events, memory and graphs; copies/ and kernels/.

What it is   context: the primary context of a device; stream, memory, graph: objects in it; ordering and cuda_side:
             what arrays need of a device; device: the class that creates all of these.
"""
