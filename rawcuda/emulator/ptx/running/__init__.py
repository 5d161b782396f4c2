"""The modules that the generated source calls while a kernel runs.

lookups.py has launches and blocks; thread.py has local memory and calls; scheduler.py runs the threads of a block;
races.py and later_writes.py find races; undefined.py marks undefined values; builtins.py has printf and malloc;
rounding.py, half.py and integers.py are exact arithmetic; report.py turns exceptions into reports.

Order        sampling, cluster, builtins, integers, called, undefined, races, later_writes, lookups, report, clusters,
             thread, rounding, half, units, scheduler, grid, recorder
"""
