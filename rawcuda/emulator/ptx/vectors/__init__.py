"""The second executor: a node of the program at a time, for all threads of many blocks, with NumPy.

What it is   graph.py divides a kernel into nodes and inlines its calls. values.py, moves.py, accesses.py and writing.py
             write a Python function for each node. numeric.py and floats.py compute, and memory.py, shared.py, local.py
             and warps.py access memory and other threads, for these functions. running.py runs chunks of blocks, and
             choosing.py decides which launches run here.
What not     a second judge of errors: whatever is wrong is undone, and the scalar executor runs the same blocks.
Read next    graph.py
"""
