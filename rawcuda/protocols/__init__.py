"""Readers that turn any exporter into a Description; each protocol has a module.

What it is   dlpack_capsule (with tensor), dlpack_c_exchange, cuda_array_interface, array_interface, buffer, arrow: each
             reads what an object says about its memory; choosing decides which one is used; cuda_stream reads a stream.
What not     none of them loads a driver or accesses the described memory; gpu/for_arrays.py does what needs a driver.
Order        refusals, device_memory, description, pep3118, buffer, array_interface, cuda_array_interface, cuda_stream,
             tensor, dlpack_capsule, dlpack_c_exchange, arrow, choosing
Read next    buffer.py, array_interface.py, cuda_array_interface.py, dlpack_capsule.py
"""
