"""The command line, one module per command.

What it is   demo, run, inspect, vendor, doctor: each has `main(arguments) -> exit status`, and is imported when it is
             run.
What not     an interface for other programs: they use the façade.
Read next    console.py, then demo.py
"""
