"""Memory beyond a plain allocation: pools, managed memory, page-locked host memory, virtual memory.

What it is   locations: where memory may lie, and who may access it; pool: MemoryPool.
Read next    locations.py, pool.py
"""
