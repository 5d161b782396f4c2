"""Code on a device, and its launches.

What it is   image and signature: readers of code. declared_parameters: what a program and the driver say of parameters.
             parameters: what a parameter accepts. packing: the function that packs a type of argument, with kinds, the
             kinds of types, and argument_errors, the errors for all others. configuration: grid, block and limits.
             launch: a launch, and its function, written for a signature. kernel: a kernel, and how it is launched.
             options, launch_attributes and occupancy: options of launches by name, the settable attributes of kernels,
             and how many blocks run at the same time. module, libraries and driver_linking: code on a device.
A launch     kernel, configuration, launch, packing, kinds, parameters; then call_pushed in core/context.py, retain in
             core/points.py, and the tokens in ownership.py.
Order        signature, image, declared_parameters, parameters, kinds, argument_errors, packing, configuration, options,
             launch_attributes, occupancy, launch, kernel, module, driver_linking, libraries
Read next    module.py, kernel.py, launch.py
"""
