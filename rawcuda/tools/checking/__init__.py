"""What `check` and `bench` run: one row for each thing that a driver does.

What it is   rows.py declares what a row is, and runs one. kernels.py holds their device code. The other rooms hold the
             rows, a room for each group; speed.py holds those of `bench`. workers.py runs all rows in other processes, so that a row that crashes or
             hangs does not stop the others.
What not     the commands, which print the rows: tools/commands/check.py and tools/commands/bench.py.
Read next    rows.py, then memory.py as the simplest group
"""
