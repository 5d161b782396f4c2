"""What a stream does beside kernels, copies and events.

What it is   host functions in stream order (host_functions.py), waiting for and writing values in memory (values.py),
             and the attributes of a stream (attributes.py). The methods of Stream import these rooms on first use.
Read next    host_functions.py
"""
