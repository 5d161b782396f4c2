"""The names that the source of a node may use: the functions of this folder, and the types of NumPy.

Read next    running/running.py, which compiles the nodes with these names
"""

from __future__ import annotations

from . import directed, floats, halves, lanes, numeric, small_vectors
from .late_numpy import np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Array = Any

__all__ = ["names"]


def _to(kind: Any) -> Callable[[Array], Array]:
    def to(value: Array) -> Array:
        have = value.dtype
        if have == kind:
            return value
        if kind().itemsize == have.itemsize and have.kind in "iu" and kind not in (np.b1, np.f4, np.f8):
            return value.view(kind)
        return value.astype(kind)

    return to


def _strict(plain: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def strict(a: Array, b: Array) -> Array:
        made = plain(a, b)
        none = (a != a) | (b != b)
        if none.any():
            return np.where(none, made.dtype.type(np.nan), made)
        return made

    return strict


def names() -> dict[str, Any]:
    """Return the names that the source of a node may use."""
    kinds = {name: getattr(np, name) for name in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "b1")}
    found: dict[str, Any] = {**kinds, **{f"to_{name}": _to(kind) for name, kind in kinds.items()}}
    for module in (numeric, floats, directed, halves, lanes, small_vectors):
        found.update({name: getattr(module, name) for name in module.__all__})
    found.update(
        TRUE=np.TRUE, FALSE=np.FALSE, where=np.where, abs=np.abs, copysign=np.copysign, min=np.minimum, max=np.maximum,
        minimum_nan=_strict(floats.minimum), maximum_nan=_strict(floats.maximum),
    )  # fmt: skip
    return found
