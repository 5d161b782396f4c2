"""From syntax to Python source.

table/ is the table of instructions, with the checks that it makes possible. flow.py, registers.py and unit.py analyze
functions. translate.py writes the source, with an emitter from emitting/ for each family of instructions.
"""
