"""Start and stop of a profiler: the part of a program that it records.

What it is   `profile`, a context manager around cuProfilerStart and cuProfilerStop.
What not     a profiler: profile() has an effect only if a profiler runs the program and waits for cuProfilerStart, as
             with `nsys profile --capture-range=cudaProfilerApi`.
Source       CUDA Driver API, "Profiler Control"
Read next    ranges.py, for names in a profile
"""

from __future__ import annotations

from ... import driver, names
from ...errors import CudaError
from ..context import AnyContext

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

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: names.TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except CudaError:  # the context is lost: the exception of the block is more useful
            if kind is None:
                raise
