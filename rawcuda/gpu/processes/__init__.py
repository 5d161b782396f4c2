"""Memory and events that several processes of one machine use.

What it is   server: the owner's side, which hands out the data that other processes need, and knows which of them have
             opened it; handles: the objects that are sent to other processes; opening: the receiver's side; events and
             memories: the driver calls on both sides.
Order        server, shared_handles, opening, shared_events, shared_memory
Read next    server.py
"""
