"""The units of a multiprocessor other than its cores, for the scalar executor.

What it is   late_units.py has asynchronous copies and the barriers in shared memory on which they arrive; tensors.py
             has the copies of boxes that a tensor map describes; matrix_units.py has the products of the tensor cores;
             small_units.py has floats of 8 bits and less; video.py has the arithmetic of bytes and half words.
Order        late_units, video, small_units, matrix_units, exchanges, span_units, tensors, bulk, call_units
"""
