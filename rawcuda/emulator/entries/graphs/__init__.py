"""Graphs in the emulator.

What it is   operations: what a node does. definitions: nodes and edges. parameters: nodes that are made and changed
             with structures of C. executables: instantiation, launch, update. conditions and reservations: conditional
             nodes and memory of graphs. objects: user objects. dot: the text of a graph. capture: streams whose work
             becomes nodes.
Order        reservations, operations, definitions, dot, condition_entries, parameter_entries, executables, objects,
             capture
Read next    operations.py
"""
