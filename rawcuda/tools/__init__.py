"""What people run and look at: commands, explanations, pictures, traces.

What it is   commands/: the command line; explaining/: what an object offers by each protocol; pictures/: drawings of layouts and
             traces; trace_forms: what a trace is written as.
What not     no other folder imports these; the façade does, when they are asked for.
Read next    commands/console.py
"""
