"""The writer of NumPy source: the graph of a kernel's blocks, and the source for each of them.

Order        value_graph, write_values, moves, write_small, accesses, writing
"""
