"""Which executor runs a launch.

A kernel runs as arrays if the launch is large enough to profit, if NumPy is installed, and if the kernel does nothing
that only the scalar executor can do. NumPy is imported, and a kernel is translated for arrays, only after the scalar
executor has taken as long as these steps take.

Read next    ptx/vectors/writing/value_graph.py, then writing/writing.py
"""

from __future__ import annotations

import sys
from time import perf_counter

from ...machine.recovery import is_outside
from .writing.value_graph import Unsuited, program_of
from .writing.writing import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ...machine.space import Space
    from ..running.lookups import Launch
    from ..translating.translate import Translated
    from ..translating.unit import Unit
    from .running.allocations import Trouble
    from .running.running import Compiled, Run

__all__ = ["Arrays"]

SECONDS_OF_IMPORT = 0.1  # of NumPy
SECONDS_OF_TRANSLATION = 0.003
SECONDS_OF_INSTRUCTION = 6e-5
SLOW, SLOW_TOGETHER = 40e-9, 120e-9  # seconds of a thread-instruction in the scalar executor, alone and with barriers
MOST_SLOWER = 3
MOST_RACES = 2  # suspected races that were none


class Arrays:
    """A kernel for arrays, which is made when it is first needed."""

    def __init__(self, unit: Unit, translated: Translated, scalar_names: dict[str, Any], name: str) -> None:
        self._unit, self._translated, self._names, self._name = unit, translated, scalar_names, name
        self._compiled: Compiled | None = None
        self.reason = ""  # why this kernel never runs as arrays
        self.last = ""  # why the last launch did not run as arrays, or not all of it
        self._told: set[int] = set()
        self._races = 0
        self.work = 0  # thread-instructions of the last launch
        self._spent = 0.0  # seconds in the scalar executor
        self._slower = 0  # consecutive launches that were slower as arrays
        self._dear = SECONDS_OF_TRANSLATION + SECONDS_OF_INSTRUCTION * sum(
            len(block.instructions)
            for name in unit.below([translated.prepared.function.name])
            for block in (unit.prepared[name].blocks if name in unit.prepared else ())
        )
        self.slow = 0  # launches of up to so many threads were slower as arrays

    def compiled(self, executor: str = "auto") -> Compiled | None:
        """Return the kernel as arrays, or None if it cannot run so."""
        if self._compiled is None and not self.reason:
            try:
                program = program_of(self._unit, self._translated.prepared)
                writer = Writer(self._unit, program, self._translated.shared)
                writer.write()
                from .running.running import Compiled

                self._compiled = Compiled(writer, program, self._names, f"<arrays of {self._name}>")
            except Unsuited as reason:
                self.reason = str(reason)
            except ImportError:  # also for NumPy before 2.0
                self.reason = "NumPy 2.0 or later is not installed"
            except Exception as caught:
                if executor != "auto" or is_outside(caught):
                    raise
                self.reason = f"{type(caught).__name__}: {caught}"
        return self._compiled

    def run(
        self, launch: Launch, executor: str, look: Callable[[], None], step: Callable[[int], None],
        scalar: Callable[[int, int], None], probe: Callable[[int, int, Space], None],
    ) -> bool:  # fmt: skip
        """Run a launch if arrays are likely to be faster; tell whether it was run.

        shape   step: gets the number of blocks that are done; scalar: runs blocks, given the first one and their
                number; probe: runs a thread of a block in other memory, to find out whether it ends
        """
        total = launch.gx * launch.gy * launch.gz
        threads = total * launch.threads
        self.last = ""
        if self.reason or executor == "auto" and threads <= self.slow:
            return False
        first, compiled = 0, None
        if executor == "auto" and self._compiled is None:
            first = self._waited(launch, total, scalar)
        if first < total:
            compiled = self.compiled(executor)
        if compiled is None:
            if first < total:
                scalar(first, total - first)
            return True
        from .running.running import Run

        run: Run = Run(compiled, launch, self._unit.watch, self._unit.granules[self._name])
        run.look, run.patient = look, executor == "numpy"
        run.told, run.same_values = self._told, self._races > 0
        run.probe = probe
        if self._translated.blocking:
            run.slow = SLOW_TOGETHER
        else:
            run.slow = SLOW
        size = run.chunk_blocks()
        as_arrays = True
        while first < total:
            launch.look_at_clock()
            blocks = min(size, total - first)
            if not as_arrays:
                scalar(first, blocks)
            else:
                try:
                    run.run_chunk(first, blocks)
                    step(blocks)
                except Exception as caught:
                    reason = self._judged(caught, executor).with_traceback(None)  # which keeps frames alive
                    self.last = str(reason)
                    scalar(first, blocks)  # raises what is wrong
                    as_arrays = self._learned(run, reason, threads, launch)
            first += blocks
        self.work = run.work
        if run.seconds > run.slow * run.work:
            self._slower = self._slower + 1
        else:
            self._slower = 0
        if executor == "auto" and self._slower == MOST_SLOWER:
            self.slow, self._slower = max(self.slow, threads), 0
        return True

    def _waited(self, launch: Launch, total: int, scalar: Callable[[int, int], None]) -> int:
        """Run blocks with the scalar executor until that has taken as long as preparing arrays; return their number.

        So a kernel that is rarely launched never takes much longer than with the scalar executor alone.
        """
        space = launch.space
        if "numpy" in sys.modules:
            wanted = 0.0
        else:
            wanted = SECONDS_OF_IMPORT
        first, blocks = 0, 1
        while first < total and (self._spent < self._dear or space.spent < wanted):
            blocks = min(blocks, total - first)
            started = perf_counter()
            scalar(first, blocks)
            seconds = perf_counter() - started
            self._spent += seconds
            space.spent += seconds
            first += blocks
            blocks *= 2
        return first

    def _judged(self, caught: Exception, executor: str) -> Trouble:
        """Return the trouble that ended a chunk; in the mode "auto", an error in this package counts as trouble."""
        from .running.allocations import Trouble

        if isinstance(caught, Trouble):
            return caught
        if executor != "auto" or is_outside(caught):
            raise caught
        self.reason = f"{type(caught).__name__}: {caught}"
        return Trouble(self.reason, True)

    def _learned(self, run: Run, reason: Trouble, threads: int, launch: Launch) -> bool:
        """Learn from a trouble that was no error of the kernel; tell whether the next blocks may run as arrays."""
        site = reason.site
        if site is not None:  # an undefined value that was dropped is not reported, and may reach something later
            lines = run.compiled.sites
            if site < len(lines):
                line = lines[site if site >= 0 else -1 - site]
            else:
                line = None
            if line is None or (launch.code_name, -line) in launch.space.told:
                self._told.add(site)
        elif "race" in str(reason):
            self._races += 1
            run.same_values = True
            if self._races > MOST_RACES:
                self.reason = "threads access shared memory in an order that only the scalar executor judges"
                return False
        elif "slow" in str(reason):
            self.slow = max(self.slow, threads)
        return not reason.lasting
