"""The effect of a driver call on a stream, from its name and its arguments.

What it is   `placed`, which returns what a call does in which stream, and `stream_name`. The forms and the pictures of
             a trace use both.
Read next    trace_forms.py
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..tracing import Call

__all__ = ["Placed", "placed", "stream_name"]


class Placed:
    """The effect of a call on a stream.

    kind     "kernel" "copy" "fill" "memory" "record" "wait" "graph", or "sync": the host waits
    stream   its handle as text, "" for none
    event    the handle of the event that is recorded or waited for
    label    a short name
    """

    __slots__ = ("kind", "stream", "event", "label")

    def __init__(self, kind: str, stream: str, event: str, label: str) -> None:
        self.kind, self.stream, self.event, self.label = kind, stream, event, label


_KINDS = {
    "cuLaunchKernel": "kernel",
    "cuLaunchCooperativeKernel": "kernel",
    "cuMemcpy": "copy",
    "cuMemset": "fill",
    "cuMemAllocAsync": "memory",
    "cuMemAllocFromPoolAsync": "memory",
    "cuMemFreeAsync": "memory",
    "cuEventRecord": "record",
    "cuStreamWaitEvent": "wait",
    "cuGraphLaunch": "graph",
    "cuStreamSynchronize": "sync",
    "cuEventSynchronize": "sync",
    "cuCtxSynchronize": "sync",
}


def placed(call: Call) -> Placed | None:
    """Return the effect of a call on a stream, or None if it has none.

    A copy without a stream uses the legacy default stream.
    """
    kind = next((kind for start, kind in _KINDS.items() if call.name.startswith(start)), None)
    if kind is None or call.result != "CUDA_SUCCESS":
        return None
    said = call.arguments
    stream, event = ["".join(re.findall("0x[0-9a-f]+", said.get(name, ""))[:1]) for name in ("hStream", "hEvent")]
    if stream == "0x0" or not stream and kind in ("copy", "fill"):
        stream = "0x1"
    label = call.name[2:].partition("_")[0]
    if kind in ("copy", "fill"):
        direction = "".join(re.findall("[HDA]to[HDA]", label))
        label = f"{direction or kind} {said.get('ByteCount') or said.get('N') or ''}".rstrip()
    elif kind == "kernel":
        label = said.get("f", "kernel").replace("<Kernel ", "").rstrip(">")
    elif kind == "sync":
        if stream or event:
            label = "waits"
        else:
            label = "waits for all"
    return Placed(kind, stream, event, label[:40])


def stream_name(handle: str) -> str:
    """Return a name for a stream, given its handle as text; "" is the host."""
    return {"": "this program", "0x1": "legacy default stream", "0x2": "per-thread default stream"}.get(
        handle, f"stream {handle}"
    )
