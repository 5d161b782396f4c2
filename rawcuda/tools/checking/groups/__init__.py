"""The rows of `check`, one room for each group.

What it is   facts.py has the group "device"; each other room has the group of its name.
What not     what a row is: ../rows.py.
Read next    memory.py as the simplest group
"""
