"""Features of a stream besides kernels, copies and events.

What it is   host functions in stream order (host_functions.py), waiting for and writing values in memory (values.py),
             the attributes of a stream (attributes.py) and the settings that launches share with it (settings.py), and
             waits in asyncio or with a time limit (waiting.py). The methods of Stream import these modules on first
             use.
Read next    host_functions.py
"""
