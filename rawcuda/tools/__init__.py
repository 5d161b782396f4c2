"""What people run and look at: commands, explanations, pictures, traces.

What it is   commands/: the command line; explaining/: what an object offers by each protocol; pictures/: drawings of
             layouts and traces; traces.py: trace(); trace_forms.py: the forms in which a trace is written.
What not     no other folder imports these; the façade does, when they are asked for.
Read next    traces.py, commands/console.py
"""
