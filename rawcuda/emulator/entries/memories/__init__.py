"""The entry points for memory: allocations, pools, managed and virtual memory, and copies.

Order        memory_entries, unwritten, copy_entries, virtual_entries, ipc, managed_entries, batches, pools
"""
