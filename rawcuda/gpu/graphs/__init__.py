"""The nodes and edges of graphs, and executable graphs.

What it is   parameters: what each kind of node needs. nodes: Node. edges: lists and changes of edges. conditions: the
             values by which conditional nodes choose. updates: changes of nodes. executable: graphs that can be
             launched. recording: stream capture.
Read next    nodes.py
"""
