"""Functions: the creation of streams and events without flags, and the end of a capture.

What not     the other functions of streams and events, which are those of the driver; prototypes.py lists them.
Source       CUDA Runtime API, "Stream Management", "Event Management"
Read next    runtime_launches.py
"""

from __future__ import annotations

import ctypes

from .state import Runtime, runtime

__all__: list[str] = []


@runtime("cudaStreamCreate")
def stream_create(state: Runtime, address: int) -> None:
    """Create a stream."""
    state.do("cuStreamCreate", address, 0)


@runtime("cudaEventCreate")
def event_create(state: Runtime, address: int) -> None:
    """Create an event."""
    state.do("cuEventCreate", address, 0)


@runtime("cudaStreamEndCapture")
def end_capture(state: Runtime, stream: int, address: int) -> None:
    """End a capture, and write its graph; NULL is allowed if the graph existed before, as NVIDIA's samples show."""
    capture = state.machine.stream(stream).capture
    known = capture is not None and capture.into is not None
    state.do("cuStreamEndCapture", stream, ctypes.c_uint64() if known and not address else address)
