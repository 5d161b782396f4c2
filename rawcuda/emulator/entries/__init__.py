"""The cu* entry points, one module for each family. Importing a module adds its functions to the table of entry points.

devices.py and contexts.py describe the machine; memory.py, pools.py and copies.py manage memory; modules.py loads PTX;
streams.py, launches.py and graphs/ submit work.
"""
