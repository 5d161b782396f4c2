"""From syntax to Python source.

table/ has the table of opcodes and the checks of instructions against it. flow.py, registers.py and unit.py analyze
functions. translate.py writes the source, with an emitter from emitting/ for each family of instructions.

Order        flow, table, registers, waits, unit, emitting, translate, tracking, recording
"""
