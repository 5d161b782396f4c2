"""Known quirks of array libraries that show in an object's answers.

What it is   a table: a condition on the answers, and a text for when it holds. As of November 2026; a number after # is
             an issue or a pull request of that project.
What not     it does not query the object: offers.py has done that.
Read next    offers.py
"""

from __future__ import annotations

from ...elements import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable

    from .offers import Finding

__all__ = ["module_of", "quirks"]


def module_of(kind: type) -> str:
    """Return the name of the module of a class, which may have none, or something else there."""
    return str(getattr(kind, "__module__", "?"))


class _Said:
    """The answers, under short names for the table.

    d    the fields of the DLPack struct
    c i  the keys of the CUDA array interface; those of either array interface
    b s  the fields of the buffer; those of the stream
    lib  the library's name; obj is the object, and n its number of elements
    """

    def __init__(self, found: Mapping[str, Finding], obj: Any) -> None:
        said: Any = {name: finding.facts for name, finding in found.items()}
        self.d, self.c, self.b = said.get("dlpack"), said.get("cuda_array_interface"), said.get("buffer")
        self.s, self.i = said.get("cuda_stream"), self.c or said.get("array_interface")
        self.lib, self.obj = module_of(type(obj)).partition(".")[0], obj
        self.n: int = next((layout.size(finding.made.shape) for finding in found.values() if finding.made), -1)


_QUIRKS: tuple[tuple[Callable[[_Said], Any], str], ...] = (
    (
        lambda s: s.d["first"].startswith("TypeError"),
        "max_version is unknown to NumPy before 2.1, PyTorch before 2.9, Warp and DALI: call again without it, but "
        "always with the stream.",
    ),
    (
        lambda s: s.d["first"] == b"dltensor",
        "A legacy capsule, though max_version was given: JAX, TensorFlow, DALI. The name of the capsule decides "
        "(cuda-python #285).",
    ),
    (
        lambda s: s.d["versioned"] is False,
        "A legacy capsule cannot mark memory as read-only, as JAX's arrays are: NumPy and view() treat it as read-only "
        "(unless the object's own array interface says otherwise), PyTorch and CuPy write to it.",
    ),
    (lambda s: s.d["flags"] & 1, "READ_ONLY: PyTorch and CuPy ignore it and write to the memory."),
    (
        lambda s: s.d["flags"] & 1 and s.d["legacy"] == b"dltensor",
        "The legacy capsule loses READ_ONLY: pyarrow, cuda.core 1.2, nanobind 3.1.",
    ),
    (
        lambda s: s.d["flags"] & 1 and "Error" in s.d["legacy"],
        "No legacy capsule, because it would lose READ_ONLY (numpy #20742); JAX and Warp request one (jax #40789).",
    ),
    (
        lambda s: s.d["ndim"] and not s.d["strides"],
        "strides is null for C order, which DLPack 1.2 forbids: NumPy before 2.4, Warp, DALI, pyarrow.",
    ),
    (
        lambda s: s.d["byte_offset"],
        "byte_offset is not 0: Warp ignores it and reads the wrong elements, TensorFlow refuses it.",
    ),
    (
        lambda s: s.d["data"] % 256 and s.n > 0,
        "data is not aligned to 256 bytes, as dlpack.h requires: NumPy, PyTorch, pyarrow, tvm-ffi.",
    ),
    (
        lambda s: s.n == 0 and s.d["data"],
        "No elements, but a pointer: NumPy. It should be null; do not ask the driver about it.",
    ),
    (
        lambda s: (
            s.n > 0
            and any(
                n == 1 and step not in (0, c)
                for n, step, c in zip(s.d["shape_read"], s.d["strides_read"], layout.c_strides(s.d["shape_read"], 1))
            )
        ),
        "An extent of 1 has an unusual stride, which has no meaning: PyTorch (pytorch #83158).",
    ),
    (
        lambda s: min(s.d["strides_read"]) < 0,
        "A negative stride ends the process in PyTorch up to 2.13 (pytorch #188023); TensorFlow and JAX refuse it.",
    ),
    (
        lambda s: tuple(map(int, s.d["said_device"])) != (s.d["device.device_type"], s.d["device.device_id"]),
        "__dlpack_device__ contradicts the capsule, which is "
        "right: PyTorch's pinned memory (pytorch #136250), GPU arrays labelled CPU (nanobind #422).",
    ),
    (
        lambda s: s.d["device.device_type"] in (3, 13),
        "Pinned or managed memory: PyTorch refuses it (pytorch #96318), NumPy does not wait for the device.",
    ),
    (
        lambda s: s.d["name"].startswith(b"used_"),
        "The capsule was consumed: its consumer owns the tensor, and frees it. A second from_dlpack must fail, or "
        "the tensor would be freed twice.",
    ),
    (
        lambda s: s.lib == "numpy" and "data" not in s.d,
        "NumPy refuses arrays that DLPack cannot describe: structures, dates, text, strides that are not multiples of "
        "the itemsize; before 2.1 also read-only arrays.",
    ),
    (
        lambda s: s.lib == "torch" and s.obj.is_neg(),
        "The negative bit: Tensor.__dlpack__ ignores it, so the values have the wrong sign. Export resolve_neg().",
    ),
    (
        lambda s: s.c["stream"] == 0,
        "stream 0 is forbidden, because it could mean None, 1 or 2; cuda.core fails with an assert without a message.",
    ),
    (
        lambda s: s.c["version"] >= 3 and s.c.get("stream") is None,
        "No stream, so no wait is needed: PyCUDA says so even if work is pending. DALI 1.32 crashed on "
        "None (DALI #5423).",
    ),
    (
        lambda s: s.c["version"] < 3,
        "Versions before 3 do not name a stream, though work may be pending: PyTorch. cuda.core refuses version 2.",
    ),
    (
        lambda s: s.i["typestr"][1:] in ("V1", "V2"),
        "bfloat16 (V2) and float8 (V1) appear as opaque bytes, never as float16.",
    ),
    (
        lambda s: s.b["ndim"] and not s.b["strides"],
        "strides is null although strides were requested: ctypes, for C order.",
    ),
    (lambda s: s.s["pair"][1] == 0, "Handle 0 is the legacy default stream (Numba): pass it as 1."),
)


def quirks(found: Mapping[str, Finding], obj: Any) -> list[str]:
    """Return the text of each quirk that these answers show."""
    said, out = _Said(found, obj), []
    for condition, text in _QUIRKS:
        try:
            if condition(said):
                out.append(text)
        except Exception:  # the answer that the condition needs is missing or malformed
            continue
    return out
