"""The commands `check` and `bench`: one row for each thing that a driver does.

What it is   check.py and bench.py are the commands, which print the rows. rows.py declares what a row of `check` is,
             and runs one; groups/ has the rows. workers.py runs them in other processes, so that a row that crashes or
             hangs does not stop the others. speed.py has the rows of `bench`, and kernels.py the device code.
What not     the other commands: tools/commands/.
Read next    rows.py, then groups/memory.py as the simplest group
"""
