"""What lives on a device: contexts, streams, events, memory, graphs; copies/ and kernels/.

What it is   context: the primary context of a device; stream, memory, graph: what lives in it; ordering and cuda_side: what
             arrays need of a device; device: where all of it is made.
Read next    context.py, device.py
"""
