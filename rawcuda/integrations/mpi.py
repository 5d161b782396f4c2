"""Views for MPI: device memory is passed directly if the MPI can use it, and otherwise through page-locked memory.

What it is   `buffer(view, comm)`, a context manager that returns an object for mpi4py's Send, Recv and similar calls.
How          MPI 4.1 lists in the info key mpi_memory_alloc_kinds which memory it can use. If this contains neither
             "cuda" nor "cuda:device", an MPI call would read device addresses on the host and crash. Then the elements
             are copied to page-locked memory at the beginning, and back at the end if the call may have received data.
Source       MPI 4.1, "Memory Allocation Kinds"; mpi4py, "Tutorial": GPU-aware MPI
Read next    dask.py
"""

from __future__ import annotations

import _thread

from ..arrays.strided import StridedView, view
from ..errors import a_kind, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Buffer", "buffer", "uses_device_memory"]

_KEY = "mpi_memory_alloc_kinds"
_WAYS = ("send", "receive", "both")


def uses_device_memory(comm: Any) -> bool:
    """Tell whether the MPI of a communicator says that it can use memory of a CUDA device.

    raises  TypeError   not a communicator
            ValueError  a communicator that was freed
    """
    _check(comm)
    info = comm.Get_info()
    try:
        listed = info.Get(_KEY) or ""
    finally:
        info.Free()
    kinds = [word.strip().split(":") for word in listed.split(",")]  # cuda, cuda:device, cuda:host, cuda:managed
    return any(kind == "cuda" and (not only or "device" in only) for kind, *only in kinds)


def buffer(exporter: Any, comm: Any, way: str = "both", *, stream: Any = None) -> Buffer:
    """Return a context manager that makes an array usable for MPI.

        with buffer(view, comm, "send") as data:
            comm.Send(data, dest=1)

    exporter  a view, or any array that view() accepts, in C or Fortran order and without gaps between the elements
    way       "send": the MPI call reads it; "receive": it writes it; "both"
    stream    the stream on which the array was written, and will be read; the with statement waits for it. None, 1
              and 2: all work of the array's device; -1: no wait, which is refused if the elements must be copied
    raises    TypeError      not a communicator
              ValueError     a communicator that was freed, an unknown way, gaps between the elements
              ProtocolError  a read-only array that is to be written
    """
    if way not in _WAYS:
        raise ValueError(f"way={way!r}: give one of {', '.join(map(repr, _WAYS))}")
    direct = uses_device_memory(comm)
    if isinstance(exporter, StridedView):
        made = exporter
    else:
        made = view(exporter, stream=stream)
    if not (made.is_c_contiguous or made.is_f_contiguous):
        raise ValueError(
            f"an array of shape {made.shape} with strides {made.strides} has gaps: MPI needs one run of bytes, so pass "
            "a copy()"
        )
    if made.readonly and way != "send":
        raise refusal(made.protocol, "readonly", True, 'MPI would write to it: give way="send", or a writable array')
    return Buffer(made, way, stream, direct)


class Buffer:
    """An array for one or several MPI calls; `staged` tells whether it goes through page-locked memory.

    It can be used in several with blocks, one after another.
    """

    __slots__ = ("view", "way", "stream", "staged", "_memory", "_used")

    view: StridedView
    way: str
    stream: Any
    staged: bool
    if TYPE_CHECKING:
        _memory: Any

    def __init__(self, made: StridedView, way: str, stream: Any, direct: bool) -> None:
        self.view, self.way, self.stream = made, way, stream
        self.staged = not made.is_host_accessible and not direct and made.nbytes > 0
        self._memory = None
        self._used = _thread.allocate_lock()  # held in a with block

    def __enter__(self) -> Any:
        """Return the array, or a view of page-locked memory for it, after the work of the stream is done.

        raises  ValueError  another with block uses this object
        """
        if not self._used.acquire(blocking=False):
            raise ValueError("this buffer is in use in another with block: make a buffer() for each")
        try:
            return self._prepared()
        except BaseException:
            self._used.release()
            raise

    def _prepared(self) -> Any:
        made = self._flat()
        if not self.staged:
            if made.device[0] != "cpu" or self.stream is not None:  # (NumPy calls page-locked memory "cpu", too)
                self._synchronize()
            if made.is_host_accessible or made.nbytes == 0:
                return made
            return self.view
        from ..gpu.for_arrays import Device

        memory = self._memory = Device(made.device[1] or 0).allocate(made.nbytes, kind="pinned")
        try:
            memory.copy_from(made, stream=self.stream)  # to receive, too: a message may be shorter than the array
            self._synchronize()
        except BaseException:
            memory.close()
            raise
        if made.dtype.itemsize and made.nbytes:
            return memory.view(made.dtype)
        return memory.view()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        memory, self._memory = self._memory, None
        try:
            if memory is not None and self.way != "send" and kind is None:
                self._flat().copy_from(memory.view(self.view.dtype), stream=self.stream)
                self._synchronize()
        finally:
            if memory is not None:
                memory.close()
            self._used.release()

    def _flat(self) -> Any:
        """Return the elements in one dimension, in the order in which they lie in memory."""
        if self.view.is_c_contiguous:
            made = self.view
        else:
            made = self.view.T
        return made.reshape(made.size)

    def _synchronize(self) -> None:
        from ..gpu.core.stream_arguments import NO_SYNC, PER_THREAD
        from ..gpu.for_arrays import Device, device_of, handle_of, locate, wait_on_host
        from ..gpu.memory.ordering import synchronize_contexts
        from ..gpu.streams.stream import Stream

        given, handle = self.stream, handle_of(self.stream)
        if handle == NO_SYNC or self.view.device[0] == "cpu" and not _has_driver():
            return
        wait_on_host(self.view)  # for the work that is known, on any stream
        if handle > PER_THREAD:
            (given if isinstance(given, Stream) else Stream.from_handle(given)).synchronize()
            return
        home = device_of(self.view)
        if home is not None:
            Device(home.ordinal).synchronize()
            return
        synchronize_contexts()
        if locate(self.view.ptr) is not None:  # page-locked memory of another library: any device may use it
            Device(0).synchronize()


def _has_driver() -> bool:
    """Tell whether a CUDA driver can be used: without one, nothing writes to host memory later."""
    from .. import driver
    from ..errors import CudaError, DriverNotFound

    try:
        driver.current()
    except (CudaError, DriverNotFound):
        return False
    return True


def _check(comm: Any) -> None:
    if not hasattr(comm, "Get_info") or not hasattr(comm, "Get_rank"):
        raise TypeError(f"comm must be a communicator of mpi4py, not {a_kind(comm)}")
    if not comm:  # mpi4py: a null communicator, which Free() leaves
        raise ValueError(
            "this communicator was freed, or is COMM_NULL: give one that is in use, such as MPI.COMM_WORLD"
        )
