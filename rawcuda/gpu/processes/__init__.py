"""Memory and events that several processes of one machine use.

What it is   server: the owner's side, which hands out what opens them, and knows who has them open; handles: what is
             sent to another process; opening: its side; events and memories: the driver calls on both sides.
Read next    server.py
"""
