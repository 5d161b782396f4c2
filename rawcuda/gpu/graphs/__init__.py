"""The nodes and edges of graphs, and executable graphs.

What it is   node_parameters: what each kind of node needs. nodes: Node. conditions: the values by which conditional
             nodes choose. updates: changes of nodes. executable: graphs that can be launched. recording: stream
             capture. graph: Graph.
Order        conditions, node_parameters, updates, nodes, executable, recording, graph
Read next    nodes.py
"""
