"""Launches beyond grid and block: their options by name, the settable attributes of kernels, and occupancy.

What it is   the modules for arguments and methods of Kernel that most programs do not use. Kernel imports them late.
Read next    options.py, attributes.py, occupancy.py
"""
