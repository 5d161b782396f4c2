"""The objects that the NumPy source uses: groups of threads, their memory and their warps.

Order        allocations, vector_memory, shared, local, warps, running
"""
