"""What the NumPy source works with: groups of threads, their memory and their warps."""
