"""The entry points for memory: allocations, pools, managed and virtual memory, and copies."""
