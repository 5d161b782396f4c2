"""Integrations with other software. Users import each module themselves, and it imports the other software.

What it is   dask: how Dask sends views and memory between workers; mpi: how they are passed to MPI.
Order        plugins, dask, mpi
Read next    dask.py, mpi.py
"""
