"""Graphs that are built by hand: their nodes, and how these change.

What it is   parameters: what each kind of node needs. nodes: Node, and the questions and changes of a graph's nodes and
             edges. conditions: nodes that choose among graphs. updates: changes of executable graphs.
Read next    nodes.py
"""
