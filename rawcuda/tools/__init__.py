"""Tools for people: commands, explanations, pictures, traces.

What it is   commands/: the command line; explaining/: what an object offers by each protocol; pictures/: drawings of
             layouts and traces; traces.py: trace(); trace_forms.py: the forms in which a trace is written.
What not     no other folder imports these; the façade does, on first use.
Read next    traces.py, commands/console.py
"""
