"""The text of a report, with what it says as attributes, and the newest thousand of them.

What it is   `Report`, which every error of a kernel and every finding of a checker is, and the lists of them, `Reports`
             and `Findings`.
Read next    ../ptx/running/report.py, which makes them
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Findings", "Report", "Reports"]


class Report(str):
    """The text of a report. A client may read the attributes, which the base class of a client's error may have, too.

    checker          "memcheck", "initcheck", "racecheck" or "synccheck"; "" if none of them found it
    kernel           the name of the kernel in the code
    file, line       the line of the source; without line information "<ptx>" and the line of the PTX
    text             this line itself, if it is known
    block, thread    their indices
    address          the address of the access
    allocation       the words for the memory there, or near it: its size, its address, and who allocated it
    launch           "file:line" of the call that launched the kernel
    origin           for a client: the exception that it made for this report
    """

    checker = kernel = file = text = allocation = launch = ""
    line = 0
    block: tuple[int, ...] | None = None
    thread: tuple[int, ...] | None = None
    address: int | None = None
    origin: Any = None

    def __new__(cls, words: str, **facts: Any) -> Report:
        made = super().__new__(cls, words)
        vars(made).update(facts)
        return made


class Reports(list):  # type: ignore[type-arg]
    """The newest thousand reports, oldest first."""

    def append(self, text: str) -> None:
        """Add a report."""
        super().append(text)
        del self[:-1000]


class Findings(Reports):
    """The newest thousand findings in kernels, and other errors of work; each finding is also a report."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def append(self, text: str) -> None:
        """Add a finding that stopped no kernel."""
        super().append(text)
        self._reports.append(text)
