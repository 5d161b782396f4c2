"""The entry points that describe the machine: devices, contexts and green contexts.

Order        capabilities, device_entries, green_entries, contexts
"""
