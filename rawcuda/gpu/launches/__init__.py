"""Launches beyond grid and block: their options by name, the settable attributes of kernels, and occupancy.

What it is   the rooms behind the less usual arguments and methods of Kernel, which imports them when one is used.
Read next    options.py, attributes.py, occupancy.py
"""
