"""Memory beyond a plain allocation: pools, managed memory, page-locked host memory, virtual memory.

What it is   locations: where memory may lie, and who may access it; managed: advice about managed memory; registered:
             host memory that is page-locked in place; pool: MemoryPool; reservation, virtual: VirtualMemory, whose
             addresses are reserved before memory is mapped at them.
Read next    locations.py, pool.py
"""
