"""Which executor runs a launch.

A kernel runs as arrays if the launch is large enough to profit, if NumPy is installed, and if the kernel does nothing
that only the scalar executor can do. NumPy is imported for the first such launch.

Read next    graph.py, then writing.py
"""

from __future__ import annotations

from .graph import Unsuited, program_of
from .writing import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..running.machine import Launch
    from ..translating.translate import Translated
    from ..translating.unit import Unit
    from .running import Compiled, Run

__all__ = ["Arrays"]


class Arrays:
    """A kernel's second form, made when it is first needed."""

    def __init__(self, unit: Unit, translated: Translated, scalar_names: dict[str, Any], name: str) -> None:
        self._unit, self._translated, self._names, self._name = unit, translated, scalar_names, name
        self._compiled: Compiled | None = None
        self.reason = ""  # why this kernel never runs as arrays
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
            except ImportError:
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
        from .memory import Trouble
        from .running import Run

        run: Run = Run(compiled, launch, self._unit.watch, self._unit.granule)
        run.look, run.patient = look, executor == "numpy"
        size = run.chunk_blocks()
        first = 0
        as_arrays = True
        while first < total:
            blocks = min(size, total - first)
            if as_arrays:
                try:
                    run.run_chunk(first, blocks)
                except Trouble as reason:
                    self.last = str(reason)
                    if reason.lasting:
                        as_arrays = False
                        if "slow" in self.last:
                            self.slow = max(self.slow, threads)
                    scalar(first, blocks)
                else:
                    step(blocks)
            else:
                scalar(first, blocks)
            first += blocks
        return True

    last = ""
