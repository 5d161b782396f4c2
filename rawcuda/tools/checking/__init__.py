"""The commands `check` and `bench`: one row for each feature of a driver.

What it is   check.py and bench.py are the commands, which print the rows. rows.py declares what a row of `check` is,
             and runs one; groups/ contains the rows. workers.py runs them in other processes, so that a row that
             crashes or hangs does not stop the others. report.py makes the file that `check` writes. speed.py has the
             rows of `bench`, and check_kernels.py the device code.
What not     the other commands: tools/commands/.
Order        check_kernels, rows, speed, groups, every_row, workers, report, check, bench
Read next    rows.py, then tools/checking/groups/check_memory.py as the simplest group
"""
