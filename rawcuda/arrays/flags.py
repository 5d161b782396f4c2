"""The flags of a view, under NumPy's names.

What it is   `Flags`, the value of StridedView.flags.
Source       NumPy, `ndarray.flags`
Read next    strided.py
"""

from __future__ import annotations

from ..arguments import SetOnce
from ..errors import worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .strided import StridedView

__all__ = ["Flags"]

_KEYS = {
    "C_CONTIGUOUS": "c_contiguous",
    "C": "c_contiguous",
    "F_CONTIGUOUS": "f_contiguous",
    "F": "f_contiguous",
    "OWNDATA": "owndata",
    "O": "owndata",
    "WRITEABLE": "writeable",
    "W": "writeable",
    "ALIGNED": "aligned",
    "A": "aligned",
    "FORC": "forc",
    "FNC": "fnc",
    "CONTIGUOUS": "c_contiguous",
    "FORTRAN": "f_contiguous",
}


class Flags(SetOnce):
    """The flags of a view; each flag is an attribute, and also a key such as "C_CONTIGUOUS".

    owndata   whether the memory belongs to this package, and not to another library
    aligned   whether the address of each element is a multiple of its size (of a complex number: of its parts)
    """

    __slots__ = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
    _instead = "view(array, writable=False) makes a view that is read-only"

    def __init__(self, view: StridedView) -> None:
        self.c_contiguous, self.f_contiguous = view.is_c_contiguous, view.is_f_contiguous
        self.owndata, self.writeable = view.protocol == "memory", not view.readonly
        dtype = view.dtype
        size = max(1, dtype.itemsize // (dtype.lanes * (2 if dtype.kind == "complex" else 1)))
        if dtype.kind == "opaque":
            unit = 1
        else:
            unit = size & -size
        self.aligned = not view.size or not any([place % unit for place in (view.ptr, *view.strides)])

    @property
    def forc(self) -> bool:
        """Tell whether the elements lie in row-major or column-major order without gaps."""
        return self.c_contiguous or self.f_contiguous

    @property
    def fnc(self) -> bool:
        """Tell whether the elements lie in column-major order without gaps, and not in row-major order."""
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, key: str) -> bool:
        if not isinstance(key, str) or key not in _KEYS:
            raise KeyError(f"{worded(key)} is not a flag: {', '.join([name for name in _KEYS if len(name) > 1])}")
        return bool(getattr(self, _KEYS[key]))

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED")
        return "\n".join([f"  {name} : {self[name]}" for name in names])
