"""Code on a device, and its launches.

What it is   image and signature: readers of code. arguments: what a parameter accepts. packing: the function that packs
             a type of argument. source: the function of a launch, generated for a signature. launch: a launch.
             configuration: grid, block and limits. kernel, module, libraries and linking: code on a device.
Read next    module.py, kernel.py, launch.py
"""
