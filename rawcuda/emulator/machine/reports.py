"""The text of a report, with what it says as attributes.

What it is   `Report`, which every error of a kernel and every finding of a checker is.
Read next    ../ptx/running/report.py, which makes them
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Report"]


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
