"""The profiler's switch: the part of a program that a profiler records.

What it is   `profile`, a context manager around cuProfilerStart and cuProfilerStop.
What not     a profiler: it has an effect only under one that was told to wait for it, such as
             `nsys profile --capture-range=cudaProfilerApi`.
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

    start() and stop() do the same without a block. Parts do not nest: the first end stops the recording.

    calls   cuProfilerStart, cuProfilerStop
    """

    __slots__ = ()

    @staticmethod
    def start() -> None:
        """Let the profiler record from here on."""
        with AnyContext():
            driver.current().cuProfilerStart()

    @staticmethod
    def stop() -> None:
        """Let the profiler record no more."""
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
        except CudaError:  # the context is lost: what the block raised tells more
            if kind is None:
                raise
