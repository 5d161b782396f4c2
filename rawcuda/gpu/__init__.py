"""Objects on a device: contexts, streams, events, memory, graphs, kernels and textures.

What it is   core, processes, graphs, streams, memory, kernels, textures, devices and copies, in this order: each folder
             uses only those before it. for_arrays: what views of arrays need of a device.
Order        core, processes, graphs, streams, memory, kernels, textures, devices, copies, for_arrays
Read next    core/context.py
"""
