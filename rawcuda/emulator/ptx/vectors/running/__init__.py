"""The objects that the NumPy source uses: groups of threads, their memory and their warps."""
