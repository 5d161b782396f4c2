"""Which executor runs a launch.

A kernel runs as arrays if the launch is large enough to profit, if NumPy is installed, and if the kernel does nothing
that only the scalar executor can do. NumPy is imported for the first such launch.

Read next    graph.py, then writing.py
"""

from __future__ import annotations

from ...recovery import is_outside
from .graph import Unsuited, program_of
from .writing import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..running.machine import Launch
    from ..translating.translate import Translated
    from ..translating.unit import Unit
    from .memory import Trouble
    from .running import Compiled, Run

__all__ = ["Arrays"]

MOST_RACES = 2  # that were none
class Arrays:
    """A kernel's second form, made when it is first needed."""

    def __init__(self, unit: Unit, translated: Translated, scalar_names: dict[str, Any], name: str) -> None:
        self._unit, self._translated, self._names, self._name = unit, translated, scalar_names, name
        self._compiled: Compiled | None = None
        self.reason = ""  # why this kernel never runs as arrays
        self.last = ""  # why the last launch did not run as arrays, or not all of it
        self._told: set[int] = set()
        self._races = 0
        self.slow = 0  # launches of as many threads were slower as arrays

    def compiled(self) -> Compiled | None:
        """Return the kernel as arrays, or None if it cannot run so."""
        if self._compiled is None and not self.reason:
            try:
                program = program_of(self._unit, self._translated.prepared)
                writer = Writer(self._unit, program, self._translated.shared)
                writer.write()
                from .running import Compiled

                self._compiled = Compiled(writer, program, self._names, f"<arrays of {self._name}>")
            except Unsuited as reason:
                self.reason = str(reason)
            except ImportError:  # also of a NumPy before 2.0
                self.reason = "NumPy is not installed"
        return self._compiled

    def run(
        self, launch: Launch, executor: str, look: Callable[[], None], step: Callable[[int], None],
        scalar: Callable[[int, int], None],
    ) -> bool:  # fmt: skip
        """Run a launch, if it is worth it; tell whether it was run.

        shape   step: is told how many blocks are done; scalar: runs some blocks, from the first on
        """
        total = launch.gx * launch.gy * launch.gz
        threads = total * launch.threads
        if executor == "auto" and threads <= self.slow:
            return False
        compiled = self.compiled()
        if compiled is None:
            return False
        from .running import Run

        self.last = ""
        run: Run = Run(compiled, launch, self._unit.watch, self._unit.granule)
        run.look, run.patient = look, executor == "numpy"
        run.told, run.same_values = self._told, self._races > 0
        self.run_now = run
        size = run.chunk_blocks()
        first = 0
        as_arrays = True
        while first < total:
            blocks = min(size, total - first)
            if not as_arrays:
                scalar(first, blocks)
            else:
                try:
                    run.run_chunk(first, blocks)
                    step(blocks)
                except Exception as caught:
                    reason = self._judged(caught, executor)
                    self.last = str(reason)
                    scalar(first, blocks)  # raises what is wrong
                    as_arrays = self._learned(run, reason, threads)
            first += blocks
        return True

    def _judged(self, caught: Exception, executor: str) -> Trouble:
        """Return the trouble that ended a chunk; an error of this executor itself is one, unless it is tested."""
        from .memory import Trouble

        if isinstance(caught, Trouble):
            return caught
        if executor != "auto" or is_outside(caught):
            raise caught
        self.reason = f"{type(caught).__name__}: {caught}"
        return Trouble(self.reason, True)

    def _learned(self, run: Run, reason: Trouble, threads: int) -> bool:
        """Record what was no error; tell whether the next blocks may run as arrays."""
        if reason.site is not None:
            self._told.add(reason.site)
        elif "race" in str(reason):
            self._races += 1
            run.same_values = True
            if self._races > MOST_RACES:
                self.reason = "threads access shared memory in an order that only the scalar executor judges"
                return False
        elif "slow" in str(reason):
            self.slow = max(self.slow, threads)
        return not reason.lasting
