"""Code on a device, and its launches.

What it is   image and signature: reading code files. arguments: what a parameter accepts. packing: which function packs
             which type of argument. source: the function of a launch, written for a signature. launch: a launch.
             configuration: grid, block and limits. kernel and module: code on a device.
Read next    module.py, kernel.py, launch.py
"""
