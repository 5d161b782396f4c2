"""Streams and events, and their features besides kernels and copies.

What it is   stream: Stream and Event; stream_values: waiting for values in memory, and writing them; stream_attributes:
             the attributes of a stream; settings: those that launches share with it; waiting: waits in asyncio or with
             a time limit. The methods of Stream import these modules on first use.
Order        settings, stream_values, stream_attributes, waiting, stream
Read next    stream.py
"""
