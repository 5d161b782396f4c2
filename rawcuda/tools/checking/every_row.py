"""The rows of `check`, from all of its groups.

What it is   `every`, which returns the table that the groups fill when they are imported.
Read next    groups/check_memory.py as the simplest group
"""

from __future__ import annotations

from .groups import (  # noqa: F401
    check_copies,
    check_exchange,
    check_facts,
    check_failures,
    check_graphs,
    check_launches,
    check_memory,
    check_order,
)
from .rows import GROUPS, ROWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .rows import Row

__all__ = ["every"]


def every() -> list[Row]:
    """Return the table, in the order of the groups."""
    return sorted(ROWS, key=lambda each: GROUPS.index(each.group))
