"""Start and stop of a profiler: the part of a program that it records.

What it is   `profile`, a context manager around cuProfilerStart and cuProfilerStop.
What not     a profiler: profile() has an effect only if a profiler runs the program and waits for cuProfilerStart, as
             with `nsys profile --capture-range=cudaProfilerApi`.
Source       CUDA Driver API, "Profiler Control"
Read next    ranges.py, for names in a profile
"""

from __future__ import annotations

from ... import driver
from ...errors import CudaError
from ..core.context import AnyContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


__all__ = ["profile"]


class profile:
    """The part of a program that a profiler records: `with profile(): ...`.

    start() and stop() do the same without a block. Parts cannot be nested: the first end stops the recording.

    calls   cuProfilerStart, cuProfilerStop
    """

    __slots__ = ()

    @staticmethod
    def start() -> None:
        """Start the recording of the profiler."""
        with AnyContext():
            driver.current().cuProfilerStart()

    @staticmethod
    def stop() -> None:
        """Stop the recording of the profiler."""
        with AnyContext():
            driver.current().cuProfilerStop()

    def __repr__(self) -> str:
        return "<profile: `with` it, or start() and stop()>"

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except CudaError:  # the context is lost: the exception of the block is more useful
            if kind is None:
                raise
