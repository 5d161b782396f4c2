"""The rows of `check`, one module for each group.

What it is   check_facts.py has the group "device"; each other module has the group of its name.
What not     what a row is: ../rows.py.
Order        check_memory, check_facts, check_copies, check_launches, check_order, check_failures, check_exchange,
             check_graphs
Read next    check_memory.py as the simplest group
"""
