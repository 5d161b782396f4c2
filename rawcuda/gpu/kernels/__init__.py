"""Code on a device, and its launch.

What it is   image and signature: what a code file says of itself; arguments: what may be given for a parameter; kernel:
             modules and kernels; launch: a configured launch.
Read next    kernel.py, arguments.py, launch.py
"""
