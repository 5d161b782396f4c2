"""The second executor: it runs one node of the program at a time, for all threads of many blocks, with NumPy.

What it is   writing/ divides a kernel into nodes, inlines its calls, and writes a Python function for each node.
             numeric.py and floats.py compute for these functions. running/ runs chunks of blocks, with their memory and
             their warps, and executor_choice.py decides which launches run here.
What not     reports: if anything is wrong, the chunk is undone, and the scalar executor runs the same blocks.
Order        late_numpy, numeric, lanes, floats, directed, halves, small_vectors, naming, running, writing,
             executor_choice
Read next    ptx/vectors/writing/value_graph.py
"""
