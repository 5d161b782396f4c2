"""Memory of every kind: device, stream-ordered, pinned, managed, page-locked, pools, and virtual memory.

What it is   managed: advice about managed memory; registered: host memory that is page-locked in place; memory: Memory;
             ordering: one stream waits for another's work; pool: MemoryPool; virtual: VirtualMemory, whose addresses
             are reserved before memory is mapped at them.
Order        managed, registered, memory, ordering, pool, virtual
Read next    memory.py, pool.py
"""
