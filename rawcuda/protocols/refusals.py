"""The meaning of an exporter's exception: "not by this protocol", or an error that ends the search for a protocol.

The rule     A BufferError means "not by this protocol", and the next protocol is tried. Libraries refuse with other
             classes, too, so TypeError, ValueError, NotImplementedError, RuntimeError and ImportError (a package that
             the exporter needs for this protocol is missing) of an exporter's method mean the same. If no protocol
             gives the memory, the first exception is raised as it is, with a note that names the protocol; several
             BufferErrors are put together in one.
What ends it MemoryError; an exception that is not an Exception, such as an interrupt; every other class; our own
             errors, except refusals; and those of our refusals that protect the user, because the memory does not hold
             all that the elements mean: see `protecting` in errors.py.
Where        `means_another` is asked by every reader that tries more than one way: choosing.py, the readers of one type
             in dlpack_capsule.py and array_interface.py, arrow.py, and by copies before they call `__array__`.
Read next    choosing.py
"""

from __future__ import annotations

from ..errors import ProtocolError, RawCudaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Refusals = list[tuple[str, Exception]]

__all__ = ["InChunks", "add_note", "means_another", "none_fits"]

_ANSWERS = TypeError, ValueError, NotImplementedError, RuntimeError, ImportError


class InChunks(ProtocolError):
    """The refusal of memory in several pieces; `chunks` are their Descriptions, which a copy puts together."""

    protects = True  # there is no other protocol to try: a copy has all that it needs
    chunks: list[Any]


def means_another(error: BaseException) -> bool:
    """Tell whether an exception means that the memory may be had by another protocol."""
    if getattr(error, "protects", False) is True:
        return False
    if isinstance(error, BufferError):
        return True
    return isinstance(error, _ANSWERS) and not isinstance(error, (RawCudaError, MemoryError))


def none_fits(exporter: Any, protocol: str | None, refusals: Refusals) -> Exception:
    """Return the exception to raise if no protocol gives the memory.

    refusals  the protocols that were tried, and the exception of each, in order
    """
    what = type(exporter).__name__
    if refusals:
        name, first = refusals[0]
        if not isinstance(first, BufferError) or len({str(refused) for _, refused in refusals}) == 1:
            if not isinstance(first, ProtocolError):
                told = "; ".join([_told(*each) for each in refusals[1:]])
                add_note(first, f"{name}: {what} raised this" + f", and no other protocol fits. {told}" * bool(told))
            return first
        said = "; ".join([f"{name}: {refused}" for name, refused in refusals])
        error = ProtocolError(
            f"{what} cannot be viewed by any protocol that it offers. {said}", protocol=name, field=""
        )
        error.__cause__ = first
        return error
    if protocol is not None:
        return ProtocolError(
            f"{protocol}: {what} does not offer it; leave `protocol` out to try all", protocol=protocol, field=""
        )
    hint = ""
    if isinstance(exporter, (list, tuple)):
        hint = ": make an array of it with array.array or numpy.asarray"
    if isinstance(exporter, (int, float, complex)):
        hint = ": a number has no memory; view[...] = number and fill() take one, or make an array of it"
    if isinstance(exporter, str):
        hint = ": give bytes, such as those of its encode()"
    if hasattr(type(exporter), "__array__"):
        hint = ": its __array__ may be a copy, so give numpy.asarray(object), or copy from it with copy() or upload()"
    return TypeError(
        f"{what} is not an exporter: it has none of __dlpack__, __cuda_array_interface__, __array_interface__, the "
        f"Arrow C interfaces and the buffer protocol{hint}"
    )


def _told(protocol: str, error: Exception) -> str:
    """Return what an exception says, with the name of the protocol."""
    if isinstance(error, BufferError):
        if str(error).startswith(f"{protocol}: "):
            return str(error)
        return f"{protocol}: {error}"
    return f"{protocol}: {type(error).__name__}: {error}"


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, which is otherwise left as it is.

    Before Python 3.11, tracebacks do not show notes; there a cause with the same text is added, if it has none.
    """
    notes = getattr(error, "__notes__", ())
    if note in notes:  # the exporter raises the same object again
        return
    if hasattr(error, "add_note"):
        error.add_note(note)
        return
    error.__dict__["__notes__"] = [*notes, note]
    if error.__cause__ is None and error.__context__ is None:
        error.__cause__ = ProtocolError(note, protocol=note.partition(":")[0], field="")
