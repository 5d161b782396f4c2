"""Any exporter to a Description; one module a protocol, named after it.

What it is   dlpack, dlpack_c_exchange, cuda_array_interface, array_interface, buffer: each reads what an object says
             of its memory; cuda_stream reads a stream.
What not     none of them loads a driver or touches the memory described: arrays/strided.py does what needs more.
Read next    buffer.py, array_interface.py, cuda_array_interface.py, dlpack.py
"""
