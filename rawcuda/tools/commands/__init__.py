"""The command line, one module per command.

What it is   demo, run, compile, inspect, emulate_command, vendor, doctor: each has `main(arguments) -> exit status`,
             and is imported when it is run. command_table says which module a command has. check and bench are in
             checking/, and manual.py is one folder up.
What not     an interface for other programs: they use the public names.
Order        cutting, kernels, console, parts, demo, compile, inspect, doctor, command_table, vendor, command_operands,
             emulate_command, run, step
Read next    console.py, then demo.py
"""
