"""The command line, one module per command.

What it is   demo, run, compile, inspect, emulate, vendor, doctor: each has `main(arguments) -> exit status`, and is
             imported when it is run. check and bench are in checking/, and manual.py is one folder up.
What not     an interface for other programs: they use the façade.
Read next    console.py, then demo.py
"""
