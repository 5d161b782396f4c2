"""Tables of answers that can be worked out again: every bounded cache of the package is one of these.

What it is   `Remembered`, a table that empties itself when it is full. An entry may answer only for what its key
             identifies completely; docs/remembered.md lists all tables, what identifies an entry of each, and what
             else the answer depends on.
What not     A registry of things that exist (contexts, exports, pending calls) is not a table of answers: it is a plain
             dict or list, and nothing may empty it.
Why so       Keys come from other libraries and from user code, so no table may grow without limit. And a test can
             empty all tables at any time, and compare what is remembered with what is worked out anew.
Read next    protocols/choosing.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    Key = TypeVar("Key")
    Answer = TypeVar("Answer")
else:  # importing typing takes milliseconds
    Key = Answer = object

    class Generic:
        """Take the place of typing.Generic."""

        __slots__ = ()

        def __class_getitem__(cls, parameters: object) -> type:
            return cls


__all__ = ["HEAP", "Remembered", "cannot_change"]


class Remembered(Generic[Key, Answer]):
    """A table with at most `most` answers; before one more is kept, all are dropped.

    answers  the dict, for look-ups; it is emptied, but never replaced. (A subclass of dict is looked up in twice the
             time: that would be 4 % of a view)
             Hot paths look up answers[key]: in CPython 3.13 without the GIL, get() locks the dict twice if another
             thread made the key or the answer, and so waits for itself.
    """

    __slots__ = ("answers", "most")

    def __init__(self, most: int) -> None:
        self.answers: dict[Key, Answer] = {}
        self.most = most

    def keep(self, key: Key, answer: Answer) -> Answer:
        """Add an answer, and return it; if another thread has just added one for this key, return that one."""
        if len(self.answers) >= self.most:
            self.answers.clear()
        return self.answers.setdefault(key, answer)

    def clear(self) -> None:
        """Forget all answers."""
        self.answers.clear()

    def __len__(self) -> int:
        return len(self.answers)


HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: every class that Python code makes
_HEAP_IMMUTABLE = HEAP | 1 << 8  # with Py_TPFLAGS_IMMUTABLETYPE (3.10)


def cannot_change(kind: type) -> bool:
    """Tell whether neither a type nor one of its bases can get, change or lose an attribute.

    What depends on the attributes of a type may be remembered only for these types.
    """
    return all([one.__flags__ & _HEAP_IMMUTABLE != HEAP for one in kind.__mro__])
