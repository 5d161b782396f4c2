"""Code on a device, and its launch.

What it is   image and signature: what a code file says of itself. arguments: what a parameter accepts. packing: which
             function packs which type of argument. source: the call of a launch, written for a signature. launch: one
             launch. configuration: grid, block and limits. kernel and module: code on a device.
Read next    module.py, kernel.py, launch.py
"""
