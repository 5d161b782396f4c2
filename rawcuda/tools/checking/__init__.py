"""What `check` and `bench` run: one row for each thing that a driver does.

What it is   rows.py declares what a row is, and runs one. kernels.py holds the device code. speed.py holds the rows of
             `bench`, and each of the other rooms a group of rows of `check`. workers.py runs the rows in other
             processes, so that a row that crashes or hangs does not stop the others.
What not     the commands, which print the rows: tools/commands/check.py and tools/commands/bench.py.
Read next    rows.py, then memory.py as the simplest group
"""
