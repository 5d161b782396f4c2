"""Features of a device besides memory, streams and kernels.

What it is   access between devices (peers.py), limits (limits.py), a listing of the attributes (device_facts.py), green
             contexts (green.py), the reset (resetting.py), and what profilers show (ranges.py, profiling.py). The
             methods of Device import these modules on first use.
Order        peers, limits, device_facts, green, ranges, profiling, resetting, device
Read next    peers.py
"""
