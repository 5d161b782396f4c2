"""The steps of one warp of a kernel: what each instruction did, as text, as HTML and as data.

What it is   `step`, and the `Steps` that it returns. Both only ask the emulator for a record and show it.
What not     the stepping itself: see emulator/ptx/running/recorder.py
Read next    ../emulator/ptx/running/recorder.py
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite

from ..arguments import as_int
from ..driver import is_emulator
from ..errors import CudaError, Unsupported, a_kind, shown, worded
from ..gpu.kernels.configuration import extents
from ..gpu.kernels.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..emulator.ptx.running.recorder import Access, Recorder, Step

__all__ = ["Steps", "step"]

_LANES = 32
_SHOWN = 4  # different values, or accesses, of a step that the text shows
_EXACT = 1 << 53  # integers from here on are strings in as_dict(): JavaScript has only floats
_MONO = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:85%"


def step(
    kernel: object,
    *arguments: object,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    shared_bytes: int = 0,
    warp: int = 0,
    block_index: Sequence[int] = (0, 0, 0),
    limit: int = 10_000,
    **options: Any,
) -> Steps:
    """Run a kernel on the emulator to its end, and return what one warp of it did, instruction by instruction.

        print(step(module["scale"], array, 2.0, 32, grid=1, block=32))

    arguments     those of Kernel.launch(), as are grid, block, shared_bytes and the other options; results are stored
    warp          the number of the warp in its block: threads 32 * warp to 32 * warp + 31
    block_index   the index of the block in the grid, x first
    limit         how many steps are kept; the kernel runs to its end in any case
    raises        Unsupported  the kernel is not on the emulator
                  ValueError   the launch has no such warp or block
                  TypeError    not a Kernel, or wrong arguments, as for a launch
    A kernel that fails raises nothing here: the report is Steps.error, and the steps end at the failure. But its
    context is then unusable, as after a launch.
    """
    if not isinstance(kernel, Kernel):
        if type(kernel).__name__ == "Launch":
            more = ": give its kernel, and the grid and block by name"
        else:
            more = ""
        raise TypeError(f"step() takes a Kernel, such as module['name'], not {a_kind(kernel)}{more}")
    driver = kernel._primary.driver
    if not is_emulator(driver):
        raise Unsupported(
            f"step({kernel.name}): a GPU does not show its instructions. Step on the emulator: use('emulator') before "
            "the first call, or RAWCUDA_DRIVER=emulator"
        )
    warp, limit = as_int("warp", warp), as_int("limit", limit)
    if limit < 1:
        raise ValueError(f"limit={worded(limit)}: give the number of steps to keep, 1 or more")
    if grid is not None and block is not None:
        _check_place(warp, block_index, extents("grid", grid), extents("block", block))
    place: Any = (*[as_int("block_index", each) for each in _three(block_index)], 0, 0)[:3]
    library: Any = driver.libcuda
    with library.record(place, warp, limit) as record:
        kernel.launch(*arguments, grid=grid, block=block, shared_bytes=shared_bytes, **options)
        try:
            kernel.device.synchronize()
        except CudaError:
            if record.error is None:
                raise
    record.kernel = kernel.name  # of a template, the name in C++
    return Steps(record)


def _three(given: object) -> Sequence[Any]:
    if isinstance(given, int):
        return (given,)
    if not isinstance(given, (tuple, list)) or not 1 <= len(given) <= 3:
        raise TypeError(f"block_index={worded(given)}: give up to three numbers, x first, such as (0, 0, 0)")
    return given


def _check_place(warp: int, index: object, grid: Sequence[int], block: Sequence[int]) -> None:
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // _LANES)
    if not 0 <= warp < warps:
        raise ValueError(f"warp={worded(warp)}: a block of {threads} threads has {warps} warps: give 0 to {warps - 1}")
    place = (*[as_int("block_index", each) for each in _three(index)], 0, 0)[:3]
    if any(not 0 <= at < size for at, size in zip(place, grid)):
        raise ValueError(f"block_index={worded(place)}: the grid is {tuple(grid)} blocks: give indices below these")


class Steps(Sequence):  # type: ignore[type-arg]  # of Step: Python 3.9 evaluates the base
    """The steps of one warp, in order; print() shows them, and a notebook shows a table.

    kernel, block, warp   the name of the kernel, the index of the block in the grid, and the warp's number in the block
    error                 the report if the kernel failed, else None; the last step is then the one that failed, if it
                          was an instruction of this warp
    is_complete           whether all steps were kept: there are more than `limit` otherwise
    """

    def __init__(self, record: Recorder) -> None:
        self.kernel, self.block, self.warp, self.limit = record.kernel, record.block, record.warp, record.limit
        if record.error is None:
            self.error = None
        else:
            self.error = str(record.error)
        self._steps = list(record.steps())
        self.is_complete = not record.is_full or len(self._steps) < self.limit

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, index: Any) -> Any:
        return self._steps[index]

    def __repr__(self) -> str:
        if self.error:
            failed = ", failed"
        else:
            failed = ""
        return f"<{len(self)} steps of {self.kernel}, warp {self.warp} of block {self.block}{failed}>"

    def _ends(self) -> list[str]:
        """Return the lines after the steps."""
        made = []
        if not self._steps and not self.error:
            made.append("no instruction was executed")
        if not self.is_complete:
            made.append(f"the first {self.limit} steps; the kernel ran to its end: limit= keeps more")
        if self.error:
            made.append(f"failed: {self.error}")
        return made

    def __str__(self) -> str:
        head = f"{self.kernel}(), warp {self.warp} of block {self.block}: {len(self)} steps"
        lines, source = [head], None
        for each in self._steps:
            if each.source is not None and each.source != source:
                lines.append(f"{each.source} | {each.source_text}")
            source = each.source
            lines.append(f"{each.line:5} {lane_text(each)} {'  ' * each.depth}{each.text}")
            lines += [f"{'':39}{'  ' * each.depth}{text}" for text in _effects(each)]
        return shown("\n".join([*lines, *self._ends()]))

    def as_dict(self) -> dict[str, Any]:
        """Return the steps as dictionaries, lists, numbers and strings, for json.dumps().

        Integers of more than 53 bits are hexadecimal strings, and infinite and undefined floats are "inf", "-inf" and
        "nan". A step has the keys of its attributes; its registers are those that changed: all others are as in the
        step of the same function and depth before it. The value of an access of a vector is a list.
        """
        held: dict[int, dict[str, Any]] = {}  # the registers of a call, by its record
        last: dict[tuple[str, int], dict[str, Any]] = {}
        made = []
        for each in self._steps:
            now, before = held.setdefault(id(each._log), {}), last.get((each.function, each.depth), {})
            changed = dict(each.update(now))
            if before is not now:  # another call
                changed = {**dict.fromkeys(before, (None,) * _LANES), **now}
            last[each.function, each.depth] = now
            made.append(_plain_step(each, changed))
        return {
            "kernel": self.kernel,
            "block": list(self.block),
            "warp": self.warp,
            "error": self.error,
            "complete": self.is_complete,
            "steps": made,
        }

    def _repr_html_(self) -> str:
        """Return a table for a notebook: it needs no script, and has the colours of the page around it."""
        rows, source = [], None
        cell = 'style="text-align:left;padding:0 .6em;vertical-align:top;white-space:pre"'
        for each in self._steps[:_ROWS]:
            if each.source is not None and each.source != source:
                said = escape(shown(f"{each.source} | {each.source_text}"))
                rows.append(f'<tr><td colspan="4" {cell}><b>{said}</b></td></tr>')
            source = each.source
            effects = "<br>".join(escape(text) for text in _effects(each))
            rows.append(
                f"<tr><td {cell}>{each.line}</td><td {cell}>{_lane_boxes(each)}</td>"
                f"<td {cell}>{'  ' * each.depth}{escape(each.text)}</td><td {cell}>{effects}</td></tr>"
            )
        ends = self._ends()
        if len(self) > _ROWS:
            ends.append(f"{len(self) - _ROWS} more steps are not shown: print() shows all")
        head = escape(f"{self.kernel}(), warp {self.warp} of block {self.block}: {len(self)} steps")
        below = "".join(f'<div style="white-space:pre-wrap">{escape(shown(text))}</div>' for text in ends)
        return (
            f'<div style="{_MONO}"><div>{head}</div><div style="overflow:auto;max-height:36em">'
            f'<table style="{_MONO};border-collapse:collapse">{"".join(rows)}</table></div>{below}</div>'
        )


_ROWS = 1000  # of a table in a notebook


def lane_text(each: Step) -> str:
    """Return the lanes of a step as 32 characters: # executed it, - came with a false predicate, . is elsewhere."""
    return "".join("#" if acts else "-" if here else "." for acts, here in zip(each.active, each.reached))


def _lane_boxes(each: Step) -> str:
    """Return the lanes as small boxes, whose colours are visible on light and on dark pages."""
    boxes = []
    for acts, here in zip(each.active, each.reached):
        if acts:
            fill = "#3b82f6"
        else:
            fill = "transparent"
        if here:
            line = "#3b82f6"
        else:
            line = "#8888"
        boxes.append(
            f'<span style="display:inline-block;width:.4em;height:.8em;background:{fill};outline:1px solid {line};'
            'margin-right:2px"></span>'
        )
    return f'<span title="{lane_text(each)}">{"".join(boxes)}</span>'


# -- what a step did, in words


def _effects(each: Step) -> list[str]:
    made = []
    for name, held in each._values.items():
        values = [value for value, acts in zip(held, each.active) if acts and value is not None]
        if values:
            made.append(f"{name} = {_run(values)}")
    groups: dict[tuple[str, str, int], list[Access]] = {}
    for access in each.memory:
        groups.setdefault((access.kind, access.space, access.nbytes), []).append(access)
    for (kind, space, nbytes), found in groups.items():
        if space == "param":
            made.append(f"{kind} param +{found[0].address}, {nbytes} bytes")
            continue
        where = _run([access.address for access in found], "{:#x}")
        what = _run([access.values[0] if len(access.values) == 1 else access.values for access in found])
        if kind == "write":
            arrow = "<-"
        else:
            arrow = "->"
        made.append(f"{kind} {space} {where}, {nbytes} bytes {arrow} {what}")
    return made


def _run(values: list[Any], form: str = "") -> str:
    """Return the values of the lanes: one if they are all the same, a range if they step evenly, or the first ones."""
    texts = [form.format(value) if form else _number(value) for value in values]
    if all(text == texts[0] for text in texts):
        return texts[0]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if whole:
        pace = values[1] - values[0]
    else:
        pace = 0
    if len(values) > _SHOWN and whole and all(b - a == pace for a, b in zip(values, values[1:])):
        return f"{texts[0]}, {texts[1]}, ... {texts[-1]}"
    if len(texts) > _SHOWN + 1:
        return f"{', '.join(texts[:_SHOWN])}, ... {texts[-1]}"
    return ", ".join(texts)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, int) and value >= 1 << 32:
        return f"{value:#x}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    if value is None:
        return "?"
    return str(value)


# -- as data


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if isfinite(value):
            return value
        return str(value)
    if isinstance(value, int) and not -_EXACT < value < _EXACT:
        return hex(value)
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value


def _plain_step(each: Step, changed: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {
        "number": each.number,
        "function": each.function,
        "depth": each.depth,
        "line": each.line,
        "text": each.text,
        "source": each.source,
        "source_text": each.source_text,
        "active": list(each.active),
        "reached": list(each.reached),
        "registers": {name: _plain(values) for name, values in changed.items()},
        "written": list(each.written),
        "memory": [
            {
                "kind": access.kind,
                "space": access.space,
                "lane": access.lane,
                "address": _plain(access.address),
                "nbytes": access.nbytes,
                "value": _plain(access.values[0] if len(access.values) == 1 else access.values),
            }
            for access in each.memory
        ],
    }
