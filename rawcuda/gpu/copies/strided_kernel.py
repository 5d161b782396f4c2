"""The kernel that copies between any two layouts: its PTX and its launch.

What it is   a kernel for each number of dimensions and each element size, written on first use. A thread copies the
             elements whose numbers are its own number plus multiples of the number of threads. It divides an element's
             number into an index for each dimension, the last dimension fastest, and adds up strides. So no array is
             too large for the grid.
What not     it does not check its conditions: the sides do not overlap, and the device can access both of them.
Why so       Dimensions are unrolled, because a loop over them would need parameters at computed addresses. Indices have
             32 bits if there are few enough elements, because a 64-bit division costs a hundred instructions.
Source       PTX ISA 6.3: ld, st, div, mad
Read next    device_copy.py
"""

from __future__ import annotations

from ...arrays.host_copy import Walk
from ...elements import layout
from ..core.stream_arguments import home_of, queue_of
from ..devices.device import Device
from ..memory.ordering import end_work
from ..streams.stream import Stream, record_and_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.context import PrimaryContext
    from ..kernels.module import Module

    Ints = tuple[int, ...]

__all__ = ["launch_of", "ptx", "run", "units"]

_BLOCK = 256
_NARROW = 2**32 - 1  # the largest number of elements for 32-bit indices
_BLOCKS = 1 << 20  # the largest grid; beyond it, threads copy several elements each
_MOVES = {1: ("u8", "%h"), 2: ("u16", "%h"), 4: ("u32", "%w"), 8: ("u64", "%v"), 16: ("v2.u64", "{%v, %x}")}
_SIZES = (16, 8, 4, 2, 1)


def ptx(ndim: int, size: int, wide: bool) -> str:
    """Return the PTX of the kernel for `ndim` dimensions of elements of `size` bytes, with 64-bit indices if `wide`."""
    names = [f"extent{k}" for k in range(1, ndim)] + [f"to{k}" for k in range(ndim)] + [f"from{k}" for k in range(ndim)]
    parameters = ",\n".join(f"    .param .u64 {name}" for name in ("target", "source", "count", *names))
    index, i = ("u64", "d") if wide else ("u32", "r")
    move, value = _MOVES[size]
    body = [f"ld.param.u64 %{name}, [{name}];" for name in ("target", "source", "count", *names)]
    if not wide:
        body += [f"cvt.u32.u64 %n{k}, %extent{k};" for k in range(1, ndim)]
    body += [
        "mov.u32 %width, %ntid.x;",
        "mov.u32 %block, %ctaid.x;",
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %blocks, %nctaid.x;",
        "cvt.u64.u32 %at, %lane;",
        "mad.wide.u32 %at, %block, %width, %at;",
        "mul.wide.u32 %step, %width, %blocks;",
        "setp.ge.u64 %done, %at, %count;",
        "@%done bra END;",
        "NEXT:",
        f"cvt.{index}.u64 %{i}, %at;" if not wide else "mov.u64 %d, %at;",
        "mov.u64 %t, %target;",
        "mov.u64 %s, %source;",
    ]
    for k in range(ndim - 1, 0, -1):
        if wide:
            extent = f"%extent{k}"
        else:
            extent = f"%n{k}"
        body += [
            f"div.{index} %q{i}, %{i}, {extent};",
            f"mul.lo.{index} %m{i}, %q{i}, {extent};",
            f"sub.{index} %m{i}, %{i}, %m{i};",
        ]
        body += _advance(k, f"%m{i}", wide) + [f"mov.{index} %{i}, %q{i};"]
    body += _advance(0, f"%{i}", wide)
    body += [
        f"ld.global.{move} {value}, [%s];",
        f"st.global.{move} [%t], {value};",
        "add.u64 %at, %at, %step;",
        "setp.lt.u64 %done, %at, %count;",
        "@%done bra NEXT;",
        "END:",
        "ret;",
    ]
    registers = ", ".join("%" + name for name in ("target", "source", "count", *names))
    if wide or ndim < 2:
        narrow = ""
    else:
        narrow = "    .reg .u32 " + ", ".join(f"%n{k}" for k in range(1, ndim)) + ";\n"
    return (
        ".version 6.3\n.target sm_50\n.address_size 64\n\n"
        f".visible .entry strided_copy(\n{parameters}\n)\n{{\n    .reg .pred %done;\n    .reg .u16 %h;\n"
        "    .reg .u32 %w, %r, %qr, %mr, %width, %block, %lane, %blocks;\n"
        f"    .reg .u64 %v, %x, %d, %qd, %md, %at, %step, %t, %s, %index;\n    .reg .u64 {registers};\n{narrow}\n"
        + "".join(f"{line}\n" if line.endswith(":") else f"    {line}\n" for line in body)
        + "}\n"
    )


def _advance(k: int, number: str, wide: bool) -> list[str]:
    """Return the instructions that advance both addresses by an index along dimension k."""
    if wide:
        widen = []
    else:
        widen = [f"cvt.u64.u32 %index, {number};"]
    index = "%index"
    if wide:
        index = number
    return [*widen, f"mad.lo.u64 %t, {index}, %to{k}, %t;", f"mad.lo.u64 %s, {index}, %from{k}, %s;"]


def units(walk: Walk) -> tuple[int, Ints, Ints, Ints]:
    """Choose the element that the kernel copies: the largest of 1 to 16 bytes that run, strides and addresses allow.

    returns  (bytes, shape, target strides, source strides); a run between gaps is a dimension of its own if it is
             longer than an element
    """
    even = walk.nbytes | walk.target | walk.source
    for stride in walk.target_strides + walk.source_strides:
        even |= stride
    size = next(size for size in _SIZES if even % size == 0)
    if size == walk.nbytes:
        return size, walk.shape, walk.target_strides, walk.source_strides
    return size, (*walk.shape, walk.nbytes // size), (*walk.target_strides, size), (*walk.source_strides, size)


def _module(primary: PrimaryContext, ndim: int, size: int, wide: bool) -> Module:
    """Return the module with a kernel; it is loaded once per context, and closed with it."""
    key, kept = (__name__, ndim, size, wide), primary.kept
    found: Any = kept.get(key)
    if found is None:
        device = Device(primary.ordinal)
        primary.open()
        device._held = primary  # for load(); the user of the context is the module, until let_go() closes it
        loaded = device.load(ptx(ndim, size, wide))
        found = kept.setdefault(key, loaded)
        if found is not loaded:  # another thread has loaded it
            loaded.close()
    return found  # type: ignore[no-any-return]


def run(walk: Walk, device: Any, stream: Any) -> None:
    """Copy by a kernel, in the order of a stream, which may be of another device.

    device  the Device whose kernel it is, or its context
    order   returns immediately; the copy is done when the stream reaches it
    """
    primary: PrimaryContext = getattr(device, "_primary", device)
    home = home_of(stream, primary)
    if home is primary:
        _launch(walk, primary, stream)
        return
    aside: Any = primary
    with Stream(aside) as aside:
        record_and_wait(primary, stream, aside)
        try:
            _launch(walk, primary, aside)
            record_and_wait(home, aside, stream)
        except BaseException as error:  # callers wait for the stream that they have given, which does not wait yet
            end_work(error, primary, queue_of(aside))
            raise


def _launch(walk: Walk, primary: PrimaryContext, stream: Any) -> None:
    kernel, blocks, arguments = _prepare(walk, primary)
    kernel.launch(*arguments, grid=blocks, block=_BLOCK, stream=stream)


def _prepare(walk: Walk, primary: PrimaryContext) -> tuple[Any, int, tuple[int, ...]]:
    """Return the kernel that does a copy, its number of blocks, and its arguments."""
    size, shape, to, of = units(walk)
    if not shape:
        shape, to, of = (1,), (size,), (size,)
    count = layout.size(shape)
    wide = count > _NARROW
    kernel = _module(primary, len(shape), size, wide)["strided_copy"]
    blocks = min((count + _BLOCK - 1) // _BLOCK, _BLOCKS)
    return kernel, blocks, (walk.target, walk.source, count, *shape[1:], *to, *of)


def launch_of(walk: Walk, device: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the Launch that does a copy, and its arguments, for a node of a graph."""
    kernel, blocks, arguments = _prepare(walk, getattr(device, "_primary", device))
    return kernel.configure(grid=blocks, block=_BLOCK), arguments
