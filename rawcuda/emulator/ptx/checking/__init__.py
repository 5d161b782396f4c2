"""The checks of a kernel that cost more than an access itself: races in all memory, and delayed stores.

What it is   history.py decides whether two accesses are ordered; delays.py lets stores of a block arrive late. The code
             that translating/ writes calls both, if the settings turn them on.
Read next    history.py
"""
