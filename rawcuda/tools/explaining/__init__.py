"""Explanations of what an object says about its memory, protocol by protocol.

What it is   `explain` reads everything that an object offers, shows each answer beside the struct's bytes, compares
             the answers, and says what view() makes of them.
What not     it consumes no capsule, and keeps no reference to the object.
Order        quirks, offers
Read next    offers.py, quirks.py
"""

from __future__ import annotations

import struct

from ... import _HOMES as HOMES
from ... import __name__ as _PACKAGE
from ...dlpack import is_capsule
from ...elements import layout
from ...errors import shown, worded
from ...interpreter.peeking import peek
from ..terminal import folded
from .offers import ASKED, Finding, raised
from .quirks import module_of, quirks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...protocols.description import Description

    Found = dict[str, Finding]

__all__ = ["Explanation", "explain"]


def explain(obj: object) -> Explanation:
    """Explain which protocols an object offers, what each says, where they disagree, and what view() makes of it.

    obj      an array of any library, an object with a buffer, a DLPack capsule, which is not consumed, or a stream
    order    the object's exporters are called, and their exceptions shown; no driver is loaded, and nothing is kept
    returns  an object that prints as text, and shows a picture in a notebook
    """
    found: Found = {}
    for name, (_, ask) in ASKED.items():
        finding = Finding()
        try:
            is_offered = ask(obj, finding)
        except Exception as error:
            finding.refusal, is_offered = raised(error), True
        if is_offered:
            found[name] = finding
    made = next((finding.made for finding in found.values() if finding.made is not None), None)
    kind = type(obj)
    title = _title(kind)
    if module_of(kind) == "builtins":  # a foreign repr may do anything, such as copying an array from a device
        title = f"{kind.__qualname__}   {worded(obj)}"
    return Explanation(title, _sections(obj, found, made), made)


def _title(kind: type) -> str:
    """Return the full name of a class; for one of ours, that of the public class that it is or is derived from."""
    for each in kind.__mro__:
        if module_of(each) == f"{_PACKAGE}.{HOMES.get(each.__name__)}":
            return f"{_PACKAGE}.{each.__name__}"
    return f"{module_of(kind)}.{kind.__qualname__}"


class Explanation:
    """The result of explain(); str() returns the text.

    title     what the object is
    sections  (heading, lines), in the order of the text
    made      the result of view(): `ptr shape strides dtype`; or None
    """

    def __init__(self, title: str, sections: list[tuple[str, list[str]]], made: Description | None) -> None:
        self.title, self.sections, self.made = title, sections, made

    def __str__(self) -> str:
        lines = [self.title]
        for heading, each in self.sections:
            lines += ["", heading, *("  " + line for line in each)]
        return shown("\n".join(lines))

    __repr__ = __str__

    def _repr_svg_(self) -> str | None:
        if self.made is None:
            return None
        from ..pictures import layout_picture

        made = self.made
        return layout_picture(
            made.shape, made.strides, made.dtype.itemsize, str(made.dtype), address=made.ptr, note=self.title
        )

    def _repr_html_(self) -> str:
        from ..pictures import page

        return page.shown(str(self), self._repr_svg_())


def _wrapped(texts: list[str], mark: str = "- ") -> list[str]:
    made = [folded(" ".join(text.splitlines()), " " * len(mark), mark, 117) for text in texts]
    if made:
        return "\n".join(made).split("\n")
    return []


def _sections(obj: Any, found: Found, made: Description | None) -> list[tuple[str, list[str]]]:
    sections = [
        (
            "What it offers",
            [
                f"{attribute:<28}{'-' if name not in found else 'yes, but refused' if found[name].refusal else 'yes'}"
                for name, (attribute, _) in ASKED.items()
            ],
        )
    ] * (not is_capsule(obj))
    for name, finding in found.items():
        if finding.made is not None:
            end = [f"= {_said(finding.made)}" + ", because a legacy capsule does not tell" * _is_legacy(finding)]
        else:
            end = _wrapped([f"refused: {finding.refusal}"] * bool(finding.refusal), "")
        sections.append((ASKED[name][0], finding.lines + end))
    described = {name: finding for name, finding in found.items() if finding.made is not None}
    sections += [
        ("The layout", _layout(made) if made is not None else []),
        ("Where they disagree", _wrapped(_differences(described)) if len(described) > 1 else []),
        ("What view() makes of it", _wrapped([_used(obj, found, made)])),
        ("Known quirks that show here", _wrapped(quirks(found, obj))),
    ]
    return [(heading, lines) for heading, lines in sections if lines]


def _said(made: Description) -> str:
    if made._place.device is None:
        where = "a device that only the driver knows"
    else:
        where = " ".join(map(str, made._place.device))
    if made.dtype.reason:
        dtype = f"{made.dtype} ({made.dtype.reason})"
    else:
        dtype = str(made.dtype)
    return (
        f"{dtype} {made.shape}, byte strides {made.strides}, on {where}, at {made.ptr:#x}, "
        f"{'read-only' if made._place.readonly else 'writable'}"
    )


def _is_legacy(finding: Finding) -> bool:
    return finding.facts.get("versioned") is False


def _is_far(made: Description) -> bool:
    """Tell whether the CPU may be unable to read the memory."""
    return made._place.device is None or made._place.device[0] in ("cuda", "cuda_managed")


def _layout(made: Description) -> list[str]:
    from ..pictures import worded_layout

    lines = worded_layout(made.shape, made.strides, made.dtype.itemsize)
    if _is_far(made) or not layout.size(made.shape) or not made.dtype.itemsize:
        return lines
    raw = peek(made.ptr, min(made.dtype.itemsize, 16))
    if raw is None:
        return lines + [
            f"NO MEMORY CAN BE READ at {made.ptr:#x}: any use of it will crash, and the exporter is at fault"
        ]
    value = None
    if made.dtype.format in tuple("?bBhHiIqQefd"):
        value = struct.unpack("=" + made.dtype.format, raw)[0]
    return lines + [f"the first element: {raw.hex(' ')}" + (f" = {value!r}" if value is not None else "")]


def _differences(described: Found) -> list[str]:
    """Compare each protocol's description with the first one, except fields that one of them cannot express."""
    (first, reference), *others = [(name, _comparable(finding)) for name, finding in described.items()]
    return [
        f"{field}: {first} says {one}, {name} says {other}"
        for name, told in others
        for field, one, other in zip(("address", "shape", "strides", "dtype", "device", "read-only"), reference, told)
        if one != other and None not in (one, other)
    ] or ["none: all describe the same memory in the same way"]


def _comparable(finding: Finding) -> tuple[Any, ...]:
    made: Any = finding.made
    count = layout.size(made.shape)
    telling = tuple([stride if n > 1 and count else 0 for n, stride in zip(made.shape, made.strides)])
    return (
        hex(made.ptr) if count else None,
        made.shape,
        telling,
        str(made.dtype),
        made._place.device,
        None if _is_legacy(finding) or made._place.unsaid else made._place.readonly,
    )


def _used(obj: Any, found: Found, made: Description | None) -> str:
    """Return a text about what view() does with the object."""
    if is_capsule(obj) and made is not None:
        return (
            "it would consume the capsule: rename it to used_..., and call the deleter when the view is freed; "
            "explain() did not do this"
        )
    if any("no memory can be read" in finding.refusal for finding in found.values()):
        return "it would read through the bad pointer and crash the process, as every consumer would"
    if made is None and "arrow" in found and list(found["arrow"].facts) == ["__arrow_c_stream__"]:
        return (
            "it would fetch the chunks of the stream, view a single one, and refuse several, which copies put together"
        )
    if made is not None and _is_far(made):
        return "the memory is, or may be, a device's: it would ask the driver which, and wait for its stream"
    try:
        from ...arrays.strided import view

        return f"{view(obj)!r}"
    except Exception as error:
        return f"it raises {raised(error)}" + "; but view() accepts this object as stream=" * (
            "cuda_stream" in found and not found["cuda_stream"].refusal
        )
