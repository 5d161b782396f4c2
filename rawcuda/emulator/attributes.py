"""Device attributes: a plausible device of compute capability 9.0.

What it is   one row an attribute: number, value, name. Limits are those of that architecture; what the emulator lacks says 0,
             so that a program which asks goes another way. Numbers that would only describe speed are made up.
What not     a model of any product: it has four multiprocessors, so that a grid sized by the device stays small.
Source       cuda.h, enum CUdevice_attribute; CUDA Programming Guide, "Technical specifications per compute capability"
Read next    devices.py, occupancy.py
"""
from __future__ import annotations

__all__ = ["ATTRIBUTES", "FUNCTION", "NAMES"]

MULTIPROCESSORS = 4
_TABLE = """
  1 1024        MAX_THREADS_PER_BLOCK
  2 1024        MAX_BLOCK_DIM_X
  3 1024        MAX_BLOCK_DIM_Y
  4 64          MAX_BLOCK_DIM_Z
  5 2147483647  MAX_GRID_DIM_X
  6 65535       MAX_GRID_DIM_Y
  7 65535       MAX_GRID_DIM_Z
  8 49152       MAX_SHARED_MEMORY_PER_BLOCK
  9 65536       TOTAL_CONSTANT_MEMORY
 10 32          WARP_SIZE
 11 2147483647  MAX_PITCH
 12 65536       MAX_REGISTERS_PER_BLOCK
 13 1000000     CLOCK_RATE
 14 512         TEXTURE_ALIGNMENT
 15 1           GPU_OVERLAP
 16 4           MULTIPROCESSOR_COUNT
 17 0           KERNEL_EXEC_TIMEOUT
 18 0           INTEGRATED
 19 1           CAN_MAP_HOST_MEMORY
 20 0           COMPUTE_MODE
 30 512         SURFACE_ALIGNMENT
 31 1           CONCURRENT_KERNELS
 32 0           ECC_ENABLED
 33 0           PCI_BUS_ID
 34 0           PCI_DEVICE_ID
 35 0           TCC_DRIVER
 36 1000000     MEMORY_CLOCK_RATE
 37 512         GLOBAL_MEMORY_BUS_WIDTH
 38 8388608     L2_CACHE_SIZE
 39 2048        MAX_THREADS_PER_MULTIPROCESSOR
 40 2           ASYNC_ENGINE_COUNT
 41 1           UNIFIED_ADDRESSING
 50 0           PCI_DOMAIN_ID
 51 32          TEXTURE_PITCH_ALIGNMENT
 75 9           COMPUTE_CAPABILITY_MAJOR
 76 0           COMPUTE_CAPABILITY_MINOR
 78 1           STREAM_PRIORITIES_SUPPORTED
 79 1           GLOBAL_L1_CACHE_SUPPORTED
 80 1           LOCAL_L1_CACHE_SUPPORTED
 81 233472      MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
 82 65536       MAX_REGISTERS_PER_MULTIPROCESSOR
 83 1           MANAGED_MEMORY
 84 0           MULTI_GPU_BOARD
 85 0           MULTI_GPU_BOARD_GROUP_ID
 86 0           HOST_NATIVE_ATOMIC_SUPPORTED
 87 2           SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
 88 0           PAGEABLE_MEMORY_ACCESS
 89 1           CONCURRENT_MANAGED_ACCESS
 90 1           COMPUTE_PREEMPTION_SUPPORTED
 91 1           CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
 92 0           CAN_USE_STREAM_MEM_OPS_V1
 93 0           CAN_USE_64_BIT_STREAM_MEM_OPS_V1
 94 0           CAN_USE_STREAM_WAIT_VALUE_NOR_V1
 95 1           COOPERATIVE_LAUNCH
 96 0           COOPERATIVE_MULTI_DEVICE_LAUNCH
 97 232448      MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
 98 0           CAN_FLUSH_REMOTE_WRITES
 99 1           HOST_REGISTER_SUPPORTED
100 0           PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
101 0           DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
102 0           VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
106 32          MAX_BLOCKS_PER_MULTIPROCESSOR
108 0           MAX_PERSISTING_L2_CACHE_SIZE
109 0           MAX_ACCESS_POLICY_WINDOW_SIZE
111 1024        RESERVED_SHARED_MEMORY_PER_BLOCK
113 1           READ_ONLY_HOST_REGISTER_SUPPORTED
115 1           MEMORY_POOLS_SUPPORTED
120 1           CLUSTER_LAUNCH
122 0           CAN_USE_64_BIT_STREAM_MEM_OPS
123 0           CAN_USE_STREAM_WAIT_VALUE_NOR
126 1           MEM_SYNC_DOMAIN_COUNT
131 -1          NUMA_ID
134 -1          HOST_NUMA_ID
"""
_LAST = 147                                      # what this release's header knows and the table does not list is 0

ATTRIBUTES: dict[int, int] = dict.fromkeys(range(1, _LAST + 1), 0)
NAMES: dict[int, str] = {}
for _line in _TABLE.strip().splitlines():
    _number, _value, _name = _line.split()
    ATTRIBUTES[int(_number)] = int(_value)
    NAMES[int(_number)] = _name
FUNCTION = range(16)                             # CUfunction_attribute
