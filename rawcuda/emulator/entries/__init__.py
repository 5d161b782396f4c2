"""The cu* entry points, one module for each family; importing a module adds its functions to the table of entries.

contexts.py and devices.py describe the machine. memory.py, pools.py and copies.py serve memory. streams.py, graphs.py and
launches.py submit work. modules.py loads PTX.
"""
