"""Drawings of a strided layout in memory; traces.py draws streams and capsules.

What it is   above, the array by its indices; below, its bytes by their addresses. An element has one colour in both,
             by its place in the index order, and is labelled with its index.
What not     no memory is read, and no driver is called: a picture shows where elements are, not their values.
Order        page, svg, graph_pictures, trace_pictures
Read next    svg.py, traces.py
"""

from __future__ import annotations

from itertools import product

from ...elements import layout
from .svg import EDGE, QUIET, Sheet, shade
from .trace_pictures import trace_picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...arrays.strided import StridedView

    Ints = tuple[int, ...]

__all__ = ["layout_picture", "trace_picture", "view_picture", "worded_layout"]

_WIDE, _HIGH = 860, 30.0  # the length of a line of memory, the height of a cell
_LONG = 4  # gaps of more elements than this are shortened
_CORNERS = (), (24,), (8, 12), (3, 4, 8), (2, 2, 3, 4)  # the part of a large array that is drawn


def worded_layout(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> list[str]:
    """Return a description of a layout: its order, gaps, shared elements and negative strides."""
    count = layout.size(shape)
    if not count:
        return ["no elements, so no bytes"]
    moving = {axis: stride for axis, (n, stride) in enumerate(zip(shape, strides)) if n > 1}
    low, high = layout.extent(shape, strides, itemsize)
    order = ", ".join(
        f"axis {axis} ({abs(moving[axis])} bytes)"
        for axis in sorted(moving, key=lambda axis: abs(moving[axis]))
        if moving[axis]
    )
    said = [
        "one element"
        if not moving
        else f"one axis, a step of {sum(moving.values())} bytes"
        if len(moving) == 1
        else "C order (the last index runs fastest), without gaps"
        if layout.is_c_contiguous(shape, strides, itemsize)
        else "Fortran order (the first index runs fastest), without gaps"
        if layout.is_f_contiguous(shape, strides, itemsize)
        else f"neither C nor Fortran order; from the fastest: {order or 'no axis moves'}"
    ]
    shares = layout.repeats(shape, strides, itemsize)
    if not shares and high - low > count * itemsize:
        said.append(
            f"{count * itemsize} bytes of elements in a range of {high - low}: {high - low - count * itemsize} are gaps"
        )
    if 0 in moving.values():
        said.append("a stride is 0: one element in memory has many indices")
    elif shares:
        said.append("elements overlap: some bytes belong to several of them")
    if any(stride < 0 for stride in moving.values()):
        said.append("a stride is negative: the first element is not at the lowest address")
    if any(stride % (itemsize or 1) for stride in moving.values()):
        said.append("a stride is not a multiple of the element size, which DLPack cannot express")
    return said


def _label(index: Ints) -> str:
    return ",".join(map(str, index)) or "·"


def layout_picture(
    shape: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    dtype: str = "",
    *,
    address: int | None = None,
    note: str = "",
) -> str:
    """Draw a layout as SVG.

    units    strides and itemsize are bytes
    address  of the first element, if it should be shown
    note     a second line below the title
    """
    what = f"{dtype or f'{itemsize}-byte elements'}  shape {tuple(shape)}  strides {tuple(strides)} bytes"
    sheet = Sheet(f"memory layout: {what}")
    sheet.text(0, 14, what, size=15, bold=True)
    y = 18.0
    for line in [note] * bool(note) + worded_layout(shape, strides, itemsize):
        y += 16
        sheet.text(0, y, line, colour=QUIET)
    if layout.size(shape):
        drawing = _Drawing(sheet, tuple(shape), tuple(strides), max(itemsize, 1))
        y = drawing.draw_memory(drawing.draw_indices(y + 30), "" if address is None else f", which is at {address:#x}")
        drawing.draw_legend(y + 12)
    return sheet.render()


def view_picture(view: StridedView) -> str:
    """Draw the layout of a view in memory."""
    return layout_picture(view.shape, view.strides, view.dtype.itemsize, str(view.dtype), note=repr(view)[1:-1])


class _Drawing:
    """An array on a sheet: which elements are drawn, and where in memory they lie."""

    def __init__(self, sheet: Sheet, shape: Ints, strides: Ints, itemsize: int) -> None:
        self.sheet, self.shape, self.strides, self.itemsize = sheet, shape, strides, itemsize
        limits = (1,) * (len(shape) - 4) + _CORNERS[min(len(shape), 4)]
        self.shown = tuple([min(n, most) for n, most in zip(shape, limits)])
        self.at: dict[int, list[Ints]] = {}  # offset -> the indices of the element there
        self.colour: dict[int, str] = {}
        count = max(layout.size(self.shown) - 1, 1)
        for number, index in enumerate(product(*map(range, self.shown))):
            offset = self._offset(index)
            self.at.setdefault(offset, []).append(index)
            self.colour.setdefault(offset, shade(number / count))
        self.cell = max(34.0, len(_label(tuple([n - 1 for n in self.shown]))) * 6.6 + 10)
        self.starts = sorted(self.at)
        nearest = min([later - one for one, later in zip(self.starts, self.starts[1:])], default=itemsize)
        self.layers = min(-(-itemsize // nearest), 4)  # elements that share some bytes are drawn below one another
        self._place: dict[int, tuple[int, float]] = {}  # offset -> its line, and x there
        self.gaps: list[tuple[int, float, float, int]] = []  # line, x, width, bytes
        self.lines: list[int] = []  # the start of each line
        self._arrange()

    def _offset(self, index: Ints) -> int:
        return sum(i * step for i, step in zip(index, self.strides))

    # -- as it is indexed

    def _heading(self, y: float, text: str, more: str) -> float:
        self.sheet.text(0, y, text, size=12.5, bold=True)
        if more:
            self.sheet.text(len(text) * 7.4 + 8, y, more, colour=QUIET)
        return y + 12

    def draw_indices(self, y: float) -> float:
        """Draw rows and columns, a block for each index of the dimensions before the last two; return where it ends."""
        y = self._heading(
            y,
            "By index",
            ""
            if self.shown == self.shape
            else f"the first {' × '.join(map(str, self.shown))} of {' × '.join(map(str, self.shape))}",
        )
        rows, columns = (1, 1, *self.shown)[-2:]
        wide, high, x = columns * self.cell, rows * _HIGH, 0.0
        for lead in product(*map(range, self.shown[:-2])):
            if x and x + wide > _WIDE:
                x, y = 0.0, y + high + 24
            if lead:
                self.sheet.text(x, y + 8, f"[{_label(lead)}, …]", size=10, colour=QUIET, mono=True)
            for row, column in product(range(rows), range(columns)):
                index: tuple[int, ...] = ()
                if self.shape:
                    index = (*lead, row, column)[-len(self.shape) :]
                self._cell(
                    x + column * self.cell, y + 14 * bool(lead) + row * _HIGH, self._offset(index), [index], "#ffffff"
                )
            self.sheet.rect(x, y + 14 * bool(lead), wide, high, line=QUIET)
            x += wide + 18
        return y + high + 14 * (len(self.shape) > 2) + 34

    def _cell(self, x: float, y: float, offset: int, indices: list[Ints], line: str = QUIET) -> None:
        middle, tip = (
            x + self.cell / 2,
            f"{offset} bytes from the first element: " + " ".join(f"[{_label(index)}]" for index in indices[:40]),
        )
        self.sheet.rect(x, y, self.cell, _HIGH, self.colour[offset], line=line, tip=tip)
        if len(indices) > 1:
            self.sheet.rect(x, y, self.cell, _HIGH, "shared", line=line)
            self.sheet.rect(x + 4, y + 4, self.cell - 8, _HIGH - 8, self.colour[offset], line="none", tip=tip)
            self.sheet.text(middle, y + 24, f"×{len(indices)}", size=9.5, anchor="middle", bold=True)
        self.sheet.text(
            middle,
            y + (19 if len(indices) == 1 else 14),
            _label(indices[0]),
            size=11 if len(indices) == 1 else 9.5,
            anchor="middle",
            mono=True,
        )

    # -- as it lies in memory

    def _period(self) -> int:
        """Return the bytes in a line: those after which the layout repeats, if they are neither few nor many."""
        scale, span = self.cell / self.itemsize, self.starts[-1] + self.itemsize - self.starts[0]
        if span * scale <= _WIDE:
            return span
        period = max(
            [abs(step) for step, n in zip(self.strides, self.shown) if n > 1 and 0 < abs(step) * scale <= _WIDE],
            default=self.itemsize,
        )
        if period * scale >= 200:
            return period
        return period * (int(_WIDE / (period * scale)) or 1)

    def _arrange(self) -> None:
        """Assign each element its line and its place in it; a line ends with its period, or before a long gap."""
        scale, period, x = self.cell / self.itemsize, self._period(), 0.0
        low = at = self.starts[0]  # the start of the line, and the next byte
        for start in self.starts:
            is_far = (start - at) * scale > _LONG * self.cell
            if not self.lines or start - low >= period:
                if is_far or not self.lines:
                    low = start
                else:
                    low = low + (start - low) // period * period
                self._gap(low - at, x)  # the rest of the previous line
                self.lines.append(low)
                at, x = low, 0.0
            if start > at:
                x = self._gap(start - at, x)
            else:
                x = x - (at - start) * scale
            self._place[start] = len(self.lines) - 1, x
            at, x = start + self.itemsize, x + self.cell

    def _gap(self, nbytes: int, x: float) -> float:
        wide = nbytes * self.cell / self.itemsize
        if wide > _LONG * self.cell:
            wide = 60 + 6.0 * len(str(nbytes))
        if nbytes > 0:
            self.gaps.append((len(self.lines) - 1, x, wide, nbytes))
        return x + wide

    def draw_memory(self, y: float, where: str) -> float:
        """Draw lines of bytes, starting at the lowest address; return the lower end of the drawing."""
        y = self._heading(y, "By address", f"numbers are bytes from the first element{where}")
        left = 14 + 6.6 * max(len(f"{start:+d}") for start in (self.starts[0], self.starts[-1]))
        first, arcs = self._place[0], self._steps()
        tops, is_whole, high = [], self.shown == self.shape, _HIGH * self.layers
        for line, start in enumerate(self.lines):
            y += 20 * len(arcs) * (line == first[0])
            tops.append(y)
            self.sheet.text(
                left - 8, y + 19, f"{start:+d}" if start else "0", size=10, anchor="end", colour=QUIET, mono=True
            )
            y += high + 20
        for line, x, wide, nbytes in self.gaps:
            self.sheet.rect(
                left + x,
                tops[line],
                wide,
                high,
                "gap" if is_whole else "none",
                line=EDGE,
                dash="" if is_whole else "3 3",
                tip=f"{nbytes} bytes",
            )
            if wide != nbytes * self.cell / self.itemsize:
                self.sheet.plate(left + x + wide / 2, tops[line] + high / 2 + 4, f"… {nbytes} B")
        for number, start in enumerate(self.starts):
            line, x = self._place[start]
            self._cell(left + x, tops[line] + _HIGH * (number % self.layers), start, self.at[start])
            if self.layers == 1:
                self.sheet.text(left + x, tops[line] + _HIGH + 11, start, size=8.5, colour=QUIET, mono=True)
        for number, (label, x) in enumerate(arcs):
            self._draw_arc(
                left + self.cell / 2 + first[1],
                left + self.cell / 2 + x,
                tops[first[0]],
                20 * number,
                label,
                [left + self.cell / 2 + further for _, further in arcs[number + 1 :]],
            )
        return y

    def _steps(self) -> list[tuple[str, float]]:
        """Return one step from the first element along each axis that stays in its line: label, x."""
        (line, x), steps = (
            self._place[0],
            [(axis, step) for axis, (n, step) in enumerate(zip(self.shown, self.strides)) if n > 1],
        )
        return sorted(
            [(f"axis {axis}: {step:+d}", self._place[step][1]) for axis, step in steps if self._place[step][0] == line],
            key=lambda arc: abs(arc[1] - x),
        )

    def _draw_arc(self, x: float, end: float, y: float, up: float, label: str, further: list[float]) -> None:
        base, high = y - 2, y - 28 - up
        if x == end:  # a step of 0 bytes
            x, end = x - 9, end + 9
        self.sheet.path(f"M{x:.1f},{base} C{x:.1f},{high} {end:.1f},{high} {end:.1f},{base}", arrow=True)
        if any(end < other < end + 7 * len(label) for other in further):  # another arrow ends there
            label = label.partition(": ")[2]
        self.sheet.text(
            end + 7 if end > x else end - 7,
            high + 14,
            label,
            size=10.5,
            anchor="start" if end > x else "end",
            mono=True,
        )

    def draw_legend(self, y: float) -> None:
        """Return a legend for the patterns in the drawing."""
        is_whole = self.shown == self.shape
        self.sheet.text(
            0,
            y + 8,
            "Colours run from the first index to the last."
            + " Hatched: bytes of no element." * bool(self.gaps and is_whole)
            + " Dashed: elements and gaps that are not drawn." * bool(self.gaps and not is_whole)
            + " Crossed: one element, several indices." * any(len(indices) > 1 for indices in self.at.values())
            + " Elements that share bytes are drawn below one another." * (self.layers > 1),
            colour=QUIET,
        )
