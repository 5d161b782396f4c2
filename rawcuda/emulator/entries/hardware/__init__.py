"""The entry points that describe the machine: devices, contexts and green contexts."""
