"""What fits this package to other software: each room is imported by its user, and imports the other software.

What it is   dask: how views and memory travel between Dask's workers; mpi: how they are passed to MPI.
Read next    dask.py, mpi.py
"""
