"""The CUDA runtime: libcudart in Python, for programs that nvcc builds with -cudart=shared or -cudart=none.

What it is   the functions of libcudart.so.11.0, .12 and .13, each of which calls functions of the driver that the
             emulator has. prototypes.py lists all functions; runtime_table.py reads this list; serving.py makes C
             functions of them. The other modules have the functions that are more than a call of the driver.
What not     NVIDIA's own runtime, which a program contains if it is built with -cudart=static, the default of nvcc. It
             checks that the driver is NVIDIA's, by means that are not documented.
Source       CUDA Runtime API; cuda_runtime_api.h and crt/host_runtime.h of CUDA 11.8, 12.0, 12.9 and 13.0
Order        runtime_errors, runtime_structures, state, runtime_memory, runtime_arrays, runtime_streams,
             runtime_devices, prototypes, code, runtime_launches, runtime_copies, runtime_graphs, runtime_table, serving
Read next    prototypes.py, runtime_table.py, state.py, then runtime_memory.py as the simplest of the others
"""
