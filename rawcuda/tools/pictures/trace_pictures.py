"""Drawings of a trace: streams and their events as lanes, and the life cycles of DLPack capsules.

What not     the GPU's clock: the times are those of the calls. Another library's steps are visible only if this package
             takes part: that it renamed one of our capsules is noticed when the capsule is dropped.
Read next    ../trace_effects.py
"""

from __future__ import annotations

from textwrap import wrap

from ...tracing import Call, Step
from ..trace_effects import placed, stream_name
from .svg import EDGE, INK, QUIET, Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Union

    from ..trace_effects import Placed

    Events = Sequence[Union[Call, Step]]
    Work = list[tuple[Placed, float, float]]  # what, x, width

__all__ = ["trace_picture"]

_CALLS, _LIVES, _LIFE = 40, 8, 12  # the largest numbers of calls, of lives and of steps of a life that are drawn
_LANE, _BOX, _STEP = 48.0, 26.0, 200.0
_FILLS = {"kernel": "#bfe3c6", "copy": "#cfe0f5", "fill": "#e4e0f4", "graph": "#ffe9b0", "sync": "#fbdcd3"}


def trace_picture(events: Events) -> str:
    """Draw the streams and the capsules that a trace has recorded."""
    sheet = Sheet("a trace: streams, and the lifetimes of capsules")
    y = _lanes(sheet, events)
    y = _lives(sheet, events, y + 24 if y else 0)
    if not y:
        why = "kept no events; a list given to it keeps them"
        if events:
            why = "recorded no stream and no DLPack capsule"
        sheet.text(0, 12, f"Nothing to draw: the trace {why}.")
    return sheet.render()


def _title(sheet: Sheet, y: float, text: str, more: str) -> float:
    sheet.text(0, y + 14, text, size=15, bold=True)
    return _lines(sheet, 0, y + 33, more, 84) + 33


def _lines(sheet: Sheet, x: float, y: float, text: str, columns: int, colour: str = QUIET) -> float:
    """Write text in lines of some columns, and return the baseline of the last one."""
    for number, line in enumerate(wrap(text, columns)):
        sheet.text(x, y + 15 * number, line, colour=colour)
    return y + 15 * number


# -- streams


def _lanes(sheet: Sheet, events: Events) -> float:
    """Draw streams, and return the lower end of the drawing, or 0 if there are none."""
    every = [(call, work) for call in events if isinstance(call, Call) for work in [placed(call)] if work is not None]
    if not every:
        return 0
    y = _title(
        sheet,
        0,
        "Streams, and the work submitted to them",
        "In the order of the calls. A box begins when everything to its left in its lane is complete; "
        "a hollow dot waits for everything to the left of the filled dot with the same number.",
    )
    shown = every[:_CALLS]
    names = ["", *dict.fromkeys(work.stream for _, work in shown if work.stream)]
    heights = {
        name: y + _LANE * number + _BOX / 2 for number, name in enumerate(names)
    }  # middles of lanes; "" is the host's
    x = left = 20 + 6.4 * max(len(stream_name(name)) for name in names)
    told, arranged = 0.0, []
    for call, work in shown:
        if work.kind in ("record", "wait"):
            wide = 22.0
        else:
            wide = 14 + 6.4 * max(len(work.label), 4)
        if x - told > 60:
            told = x
            sheet.text(
                x, y - 10, f"{(call.began_ns - shown[0][0].began_ns) / 1e6:.2f} ms", size=9, colour=QUIET, mono=True
            )
        arranged.append((work, x, wide))
        x += wide + 12
    for name, middle in heights.items():
        sheet.text(left - 10, middle + 4, stream_name(name), anchor="end", bold=not name)
        sheet.path(f"M{left - 4},{middle} H{x}", line=EDGE, dash="" if name else "2 3")
    _draw_events(sheet, arranged, heights)  # first, so that arrows run below boxes
    _draw_boxes(sheet, arranged, heights)
    end = y + _LANE * len(names)
    if len(every) > _CALLS:
        sheet.text(left, end, f"and {len(every) - _CALLS} more calls, not drawn", colour=QUIET)
    return end


def _draw_events(sheet: Sheet, arranged: Work, heights: dict[str, float]) -> None:
    recorded: dict[str, tuple[int, float, float]] = {}  # event -> its number, and where it was recorded last
    count = 0
    for work, x, wide in arranged:
        to_x, to_y = x + wide / 2, heights["" if work.kind == "sync" else work.stream]
        number, from_x, from_y = recorded.get(work.event, (0, to_x, heights[work.stream]))
        if work.kind == "record":
            count += 1
            recorded[work.event] = count, to_x, to_y
            sheet.dot(to_x, to_y, count)
        elif work.kind in ("wait", "sync"):
            down = (to_y > from_y) - (to_y < from_y)
            middle = (from_y + to_y) / 2
            if work.kind == "sync" and (work.stream or number) or number:
                start, end = (
                    (from_y + 9 * down * bool(number)),
                    to_y - down * (10 if work.kind == "wait" else _BOX / 2 + 1),
                )
                sheet.path(
                    f"M{from_x:.1f},{start} C{from_x:.1f},{middle} {to_x},{middle} {to_x},{end}"
                    if down
                    else f"M{from_x + 9},{from_y} H{to_x - 10}",
                    arrow=True,
                    dash="" if number else "4 2",
                )
            if work.kind == "wait":
                sheet.dot(to_x, to_y, number or "–", hollow=True)


def _draw_boxes(sheet: Sheet, arranged: Work, heights: dict[str, float]) -> None:
    for work, x, wide in arranged:
        if work.kind not in ("record", "wait"):
            middle, bold = heights["" if work.kind == "sync" else work.stream], work.kind in ("kernel", "graph")
            sheet.rect(
                x,
                middle - _BOX / 2,
                wide,
                _BOX,
                _FILLS.get(work.kind, "#ffffff"),
                thick=1 + bold,
                dash="" if bold else "5 2",
                tip=work.label,
            )
            sheet.text(x + wide / 2, middle + 4, work.label, anchor="middle", bold=bold)


# -- capsules

# what happened -> where it begins and leads (0 producer, 1 capsule, 2 consumer), and in words; * stands for
# the name of the capsule
_STEPS = {
    "export": (0, 1, 'a new capsule, "*", leads to a new struct, which keeps the memory alive'),
    "read": (0, 1, 'a capsule, "*", is requested; it is kept as long as the view, and not renamed'),
    "consume": (
        1,
        2,
        'we take the tensor: the capsule is renamed "used_*", so that its destructor does not free the tensor',
    ),
    "capsule dropped": (1, 1, 'the capsule is deleted; its name is "used_*", so the consumer has taken the tensor'),
    "capsule freed": (1, 0, "the capsule is deleted unused: its destructor calls the deleter, which frees the tensor"),
    "deleter": (
        2,
        0,
        "the consumer calls the struct's deleter, once: the producer owns the struct and the memory again",
    ),
}
_ENDS = "deleter", "capsule freed"


def _lives(sheet: Sheet, events: Events, y: float) -> float:
    """Draw the life cycles of tensors below y, and return the lower end of the drawing, or y if there are none."""
    lives: list[list[tuple[str, Step]]] = []
    now: dict[int, list[tuple[str, Step]]] = {}
    for event in events:
        if isinstance(event, Step) and event.tensor:
            what = event.what.partition("(")[0]
            what, life = what if what in _STEPS else "read", now.get(event.tensor)
            has_ended = life is not None and life[-1][0] in _ENDS
            # An address may be reused, and the end of another library's capsule, which was only read, is not seen.
            if life is None or has_ended and what not in _ENDS or what == life[-1][0] == "read":
                life = now[event.tensor] = []
                lives.append(life)
            if (
                not life or life[-1][0] not in _ENDS
            ):  # the one call of a deleter is reported by the caller and by the callee
                life.append((what, event))
    if lives:
        y = (
            _title(
                sheet,
                y,
                "The lifetimes of DLPack capsules",
                "From left to right in the order of the events, evenly spaced; the times are below.",
            )
            - 18
        )
    for life in lives[:_LIVES]:
        y = _life(sheet, life, events[0].began_ns, y)
    if len(lives) > _LIVES:
        sheet.text(0, y, f"and {len(lives) - _LIVES} more, not drawn", colour=QUIET)
    return y


def _life(sheet: Sheet, whole: list[tuple[str, Step]], start: int, y: float) -> float:
    steps, left = whole[:_LIFE], len(whole[_LIFE:])
    first, last, count = steps[0][1], steps[-1][0], len(steps)
    sheet.text(0, y + 12, f"tensor {first.tensor:#x}", size=12, bold=True, mono=True)
    sheet.text(178, y + 12, first.details.partition(", ")[2], colour=QUIET)
    name = "dltensor"
    if any("_versioned" in step.details for _, step in steps):
        name = "dltensor_versioned"
    at = {what: 112 + _STEP * number for number, (what, _) in enumerate(steps)}
    rows = [y + 36 + 44.0 * row for row in range(3)]  # middles of the rows
    right = 112 + _STEP * (count - 1 if last in _ENDS else count - 0.3)
    for middle, role in zip(rows, ("producer", "capsule", "consumer")):
        sheet.text(80, middle + 4, role, anchor="end")
        sheet.path(f"M92,{middle} H{right + 20}", line=EDGE, dash="2 3")
    dropped = at.get("capsule dropped", at.get("capsule freed", right))
    taken = at.get(
        "consume", (112 + dropped) / 2 if "capsule dropped" in at or last == "deleter" else None
    )  # or, unseen, some time before
    _bar(sheet, 112, right, rows[0], "#ffe9b0", "memory and struct stay")
    _bar(sheet, 112, taken or dropped, rows[1], "#cfe6f5", f'"{name}"')
    if taken is not None:
        _bar(sheet, taken, dropped, rows[1], "taken", f'"used_{name}"')
        _bar(sheet, taken, right, rows[2], "#cdecd2", "owns the tensor, must call the deleter once")
    line = rows[2] + 30
    for number, (what, step) in enumerate(steps):
        begin, end, words = _STEPS[what]
        x = 112 + _STEP * number
        if begin != end:
            sheet.path(f"M{x},{rows[begin]} V{rows[end] - (13 if end > begin else -13)}", arrow=True)
        sheet.dot(x, rows[begin], number + 1)
        sheet.text(96, line, number + 1, anchor="end", bold=True)
        sheet.text(174, line, f"{(step.began_ns - start) / 1e6:.3f} ms", size=10, colour=QUIET, anchor="end", mono=True)
        line = _lines(sheet, 186, line, words.replace("*", name), 56, INK) + 17
    if last not in _ENDS:
        more = "… still alive at the end of the trace, or released where this package cannot see it"
        if left:
            more = f"and {left} more steps, not drawn"
        line = _lines(sheet, 186, line, more, 56) + 17
    return line + 26 - 17 * (last not in _ENDS)


def _bar(sheet: Sheet, x: float, end: float, middle: float, fill: str, label: str) -> None:
    sheet.rect(x, middle - 12, end - x, 24, fill, line=QUIET, tip=label)
    room = int((end - x - 26) / 6)
    if len(label) <= room:
        shown = label
    else:
        shown = label[: room - 1] + "…"
    (sheet.plate if fill == "taken" else sheet.middle)((x + end) / 2, middle + 4, shown)
