"""The value of a view: comparisons and conversions of a view without dimensions, and the refusal of arithmetic.

What it is   `Numeric`, a base class of StridedView. Only a view without dimensions has a value, which is copied from
             the device if necessary.
What not     It does not compute: the error for `view + 1` names libraries that do.
Source       NumPy, `ndarray`, "Special methods"; The Python Language Reference, "Emulating numeric types"
Read next    strided.py
"""

from __future__ import annotations

from ..errors import a_kind
from ..protocols.description import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["Numeric"]

_COMPUTE = "compute with numpy.asarray(view), cupy.asarray(view) or torch.as_tensor(view)"
_ON_A_DEVICE = "compute with numpy.asarray(view.download()), or on the device with cupy.asarray(view) or torch"


class Numeric:
    """The value of a view without dimensions."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: tuple[int, ...]
        dtype: Any

        def item(self, *index: int) -> Any: ...

    def __bool__(self) -> bool:
        return bool(self._numeric(self.item(), "bool()"))  # as in NumPy, it does not depend on the length

    def __contains__(self, value: object) -> bool:
        raise TypeError(f"a view does not search its elements: {_remedy(self)}, or look into tolist()")

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in ("int", "uint"):
            raise TypeError(
                f"only a view of integers without dimensions is an index, not one of {self.dtype}, shape {self.shape}"
            )
        return self._number("an index")  # type: ignore[no-any-return]

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self._number("round()"), ndigits)

    def __format__(self, spec: str) -> str:
        if spec or not self.shape:
            return format(self._value("format()"), spec)
        return str(self)

    def _value(self, use: str) -> Any:
        """Return the value of a view without dimensions; raises TypeError for others."""
        if self.shape:
            raise TypeError(
                f"{use} needs a view without dimensions, not one of shape {self.shape}: index it, or call item() or "
                "tolist()"
            )
        return self.item()

    def _number(self, use: str) -> Any:
        return self._numeric(self._value(use), use)

    def _numeric(self, value: Any, use: str) -> Any:
        if isinstance(value, bytes):
            raise TypeError(f"{use} needs a number: an element of dtype {self.dtype} is only a run of bytes")
        return value

    def _compared(self, other: object, sign: str) -> Any:
        if self.shape or isinstance(other, Numeric) and other.shape:
            shaped: Any = other
            if self.shape:
                shaped = self
            raise TypeError(
                f"view {sign} {'None' if other is None else type(other).__name__}: views are not compared element by "
                f"element, and this one has shape {shaped.shape}: "
                + ("use `is None`" if other is None else f"{_remedy(self)}, or compare tolist()")
            )
        value = self.item()
        if other is None or isinstance(other, (bytes, Numeric)):
            return value
        return self._numeric(value, f"view {sign} x")

    def __eq__(self, other: object) -> bool:
        value = self._compared(other, "==")
        return bool(value == (other.item() if isinstance(other, Numeric) else other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, "<") < _plain(other)  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> bool:
        return self._compared(other, "<=") <= _plain(other)  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, ">") > _plain(other)  # type: ignore[no-any-return]

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, ">=") >= _plain(other)  # type: ignore[no-any-return]

    __hash__: Any = None  # because it is compared by a value that can change


def _remedy(view: Any) -> str:
    """Return what to write instead, for the error about an operation."""
    return _COMPUTE if view.is_host_accessible else _ON_A_DEVICE


def _plain(other: Any) -> Any:
    if isinstance(other, Numeric):
        return other.item()
    return other


# -- arithmetic

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod()",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
_ARRAYS = "__array__", "__array_ufunc__", "__dlpack__"  # an operand with one of these attributes is an array
_SIGNS = {"neg": "-", "pos": "+", "abs": "abs()", "invert": "~"}


def _refusing(name: str, sign: str, *, reflected: bool) -> Callable[..., Any]:
    def refuse(self: Numeric, *others: Any) -> Any:
        # Another library's array may compute with a view as its operand: leave the operation to it, refuse all others.
        for other in others[:1]:
            if reflected and not isinstance(other, Description) and any([hasattr(other, name) for name in _ARRAYS]):
                return NotImplemented
        kinds = " and ".join(["StridedView", *[type(other).__name__ for other in others[:1]]])
        raise TypeError(f"{sign} of {kinds}: {a_kind(self)} computes nothing: {_remedy(self)}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


for _word, _sign in _OPERATORS.items():
    setattr(Numeric, f"__{_word}__", _refusing(f"__{_word}__", _sign, reflected=True))
    setattr(Numeric, f"__r{_word}__", _refusing(f"__r{_word}__", _sign, reflected=False))
    if _word != "divmod":  # otherwise, `view += array` would bind the name to another array
        setattr(Numeric, f"__i{_word}__", _refusing(f"__i{_word}__", _sign + "=", reflected=False))
for _word, _sign in _SIGNS.items():
    setattr(Numeric, f"__{_word}__", _refusing(f"__{_word}__", _sign, reflected=False))
