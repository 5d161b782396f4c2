"""Functions: the creation of streams and events without flags.

What not     the other functions of streams and events, which are those of the driver; prototypes.py lists them.
Source       CUDA Runtime API, "Stream Management", "Event Management"
Read next    launches.py
"""

from __future__ import annotations

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
