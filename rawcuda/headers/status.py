"""The results of driver calls that this package acts on, by their names in cuda.h without CUDA_ERROR_.

What it is   the one place where a result has a name as a plain number, so that nothing of cuda.h has to be read for it.
What not     all results: cuda_h has them; errors.py has the class and the remedy of each.
Source       cuda.h, enum CUresult; tests/null/test_cuda_h.py compares them
Read next    enumerations.py
"""

from __future__ import annotations

__all__ = [
    "GRAPH_EXEC_UPDATE_FAILURE",
    "HOST_MEMORY_NOT_REGISTERED",
    "INVALID_CLUSTER_SIZE",
    "INVALID_CONTEXT",
    "INVALID_DEVICE",
    "INVALID_HANDLE",
    "INVALID_IMAGE",
    "INVALID_PTX",
    "INVALID_VALUE",
    "JIT_COMPILATION_DISABLED",
    "JIT_COMPILER_NOT_FOUND",
    "NOT_FOUND",
    "NOT_PERMITTED",
    "NOT_READY",
    "NOT_SUPPORTED",
    "NO_BINARY_FOR_GPU",
    "NO_DEVICE",
    "PEER_ACCESS_ALREADY_ENABLED",
    "PEER_ACCESS_UNSUPPORTED",
    "STREAM_CAPTURE_UNSUPPORTED",
    "SUCCESS",
    "UNSUPPORTED_LIMIT",
    "UNSUPPORTED_PTX_VERSION",
]

SUCCESS = 0
INVALID_VALUE = 1
NO_DEVICE = 100
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
UNSUPPORTED_LIMIT = 215
PEER_ACCESS_UNSUPPORTED = 217
INVALID_PTX = 218
JIT_COMPILER_NOT_FOUND = 221
UNSUPPORTED_PTX_VERSION = 222
JIT_COMPILATION_DISABLED = 223
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
PEER_ACCESS_ALREADY_ENABLED = 704
HOST_MEMORY_NOT_REGISTERED = 713
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
STREAM_CAPTURE_UNSUPPORTED = 900
GRAPH_EXEC_UPDATE_FAILURE = 910
INVALID_CLUSTER_SIZE = 912
