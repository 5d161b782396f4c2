"""The entry points that submit work and order it: streams, events, values in memory and launches.

Order        value_entries, attribute_entries, stream_entries, launch_entries
"""
