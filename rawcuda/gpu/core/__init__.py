"""What every object on a device is made of: driver calls, the context, handles, and points in a stream.

What it is   calls: driver calls with prepared arguments; context: the primary context of a device; points: points in
             streams, and what waits for them; handles: creating and releasing each kind of handle; stream_arguments:
             the stream that a user passes; host_functions: Python functions in stream order; locations: where memory
             may lie, and who may access it; reservation: reserved addresses and what is mapped at them; leases: what
             keeps bytes after close().
Words        hold: keep the context retained (`users`); retain: keep objects alive until a stream has passed a Point;
             lease: keep bytes after their Memory's close(); drop: put a release into `dropped`, where drain() finds it;
             queue: a stream's handle as an argument of prepared calls; home: the context of a stream.
Order        calls, context, points, handles, stream_arguments, host_functions, locations, reservation, leases
Read next    context.py
"""
