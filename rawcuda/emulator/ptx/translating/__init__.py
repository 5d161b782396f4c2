"""From syntax to Python source.

opcodes.py is the table of instructions, and forms.py checks instructions with it. flow.py, registers.py and unit.py
analyze functions. translate.py writes the source, with an emitter for each family of instructions: access, data,
convert, control.
"""
