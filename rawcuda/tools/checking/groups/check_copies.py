"""The rows about copies and fills: between all kinds of memory, in every layout, with every size of element.

What it is   the group "copies".
What not     how fast they are: ../speed.py.
Read next    check_launches.py
"""

from __future__ import annotations

from array import array

from ....arrays.making import copy
from ....arrays.strided import view
from ....gpu.copies.batch import copy_batch
from ..rows import Given, expect, floats, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


@row("copies", "host to device and back")
def _pageable(given: Given) -> None:
    data, back = array("B", bytes(range(256)) * 257), array("B", bytes(256 * 257))
    there = given.device.upload(data)
    copy(back, there)
    expect("the bytes", back == data, True)


@row("copies", "page-locked, in stream order")
def _pinned(given: Given) -> None:
    with given.device.stream() as stream, given.device.allocate(4000, kind="pinned") as pinned:
        pinned.copy_from(floats(1000))
        there = given.device.empty(1000, "float32").fill(0)
        given.device.synchronize()
        copy(there, pinned.view("float32"), stream=stream)
        pinned_back = given.device.allocate(4000, kind="pinned").fill(0)
        copy(pinned_back.view("float32"), there, stream=stream)
        stream.synchronize()
        expect("the numbers", pinned_back.view("float32").tolist(), floats(1000).tolist())
        pinned_back.close()


@row("copies", "device to device")
def _device(given: Given) -> None:
    source = given.device.upload(floats(1000))
    target = given.device.empty(1000, "float32").fill(0)
    copy(target, source)
    expect("the numbers", target.tolist(), floats(1000).tolist())


def _layout(given: Given, change: Any) -> None:
    """Copy a changed view of 3 x 4 x 5 numbers on the device, and from the host, and compare with the host's view."""
    data = array("i", range(60))
    wanted = change(view(data).reshape(3, 4, 5)).tolist()
    there = given.device.upload(data).reshape(3, 4, 5)
    source = change(there)
    target = given.device.empty(source.shape, "int32").fill(0)
    copy(target, source)
    expect("on the device", target.tolist(), wanted)
    back = view(array("i", bytes(4 * target.size))).reshape(*source.shape)
    copy(back, source)
    expect("to the host", back.tolist(), wanted)
    source.fill(0)
    copy(source, change(view(data).reshape(3, 4, 5)))
    given.device.synchronize()
    expect("from the host", source.tolist(), wanted)


@row("copies", "rows with a pitch")
def _pitch(given: Given) -> None:
    _layout(given, lambda cube: cube[1, :, 1:4])


@row("copies", "boxes in three dimensions")
def _box(given: Given) -> None:
    _layout(given, lambda cube: cube[1:, 1:3, :4])


@row("copies", "transposed")
def _transposed(given: Given) -> None:
    _layout(given, lambda cube: cube.transpose(2, 0, 1))


@row("copies", "every second element, reversed")
def _reversed(given: Given) -> None:
    _layout(given, lambda cube: cube[::-1, ::2, ::-2])


@row("copies", "fills of every size of element")
def _fills(given: Given) -> None:
    for dtype, value in (
        ("uint8", 200),
        ("int16", -3),
        ("float32", 0.1),
        ("int64", -(2**40)),
        ("complex128", 1.5 - 2j),
    ):
        there = given.device.empty(130, dtype).fill(0)
        there[1:-1].fill(value)
        wanted = view(there.download())[5:6].fill(value).tolist()[0]  # as the dtype holds it
        expect(dtype, there.tolist(), [0, *[wanted] * 128, 0])


@row("copies", "fills of rows with a pitch")
def _fill_rows(given: Given) -> None:
    there = given.device.empty((6, 9), "int32").fill(1)
    there[1:5, 2:7].fill(5)
    expect("the sum", sum(map(sum, there.tolist())), 6 * 9 + 4 * 5 * 4)


@row("copies", "several in one call")
def _batch(given: Given) -> None:
    sources = [given.device.upload(array("i", [number] * 10)) for number in range(5)]
    targets = [given.device.empty(10, "int32").fill(-1) for _ in sources]
    given.device.synchronize()
    with given.device.stream() as stream:
        copy_batch(zip(targets, sources), stream=stream)
        stream.synchronize()
    expect("the numbers", [target.tolist() for target in targets], [[number] * 10 for number in range(5)])


@row("copies", "several in one call, from host memory")
def _pageable_batch(given: Given) -> None:
    for order in ("stream", "during_api_call"):
        sources = [array("i", [number] * 10) for number in range(5)]
        targets = [given.device.empty(10, "int32").fill(-1) for _ in sources]
        given.device.synchronize()
        with given.device.stream() as stream:
            copy_batch(zip(targets, sources), stream=stream, source_order=order)
            for source in sources:
                source[:] = array("i", [99] * 10)
            stream.synchronize()
        found = [target.tolist() for target in targets]
        expect(f"the numbers, with source_order={order!r}", found, [[number] * 10 for number in range(5)])


@row("copies", "pitches of every size")
def _pitches(given: Given) -> None:
    """The driver's own pitches are multiples of 512, and cuda.h permits it to refuse others between devices."""
    for from_pitch, to_pitch, width in ((37, 53, 31), (64, 33, 32), (1025, 4099, 1001), (3, 2, 1)):
        data = bytes(number % 251 for number in range(7 * from_pitch))
        source = given.device.upload(data).reshape(7, from_pitch)[:, :width]
        whole = given.device.empty((7, to_pitch), "uint8").fill(255)
        copy(whole[:, :width], source)
        wanted = [[*data[line * from_pitch :][:width], *[255] * (to_pitch - width)] for line in range(7)]
        expect(f"rows of {width} bytes, {from_pitch} bytes apart, to {to_pitch} apart", whole.tolist(), wanted)


@row("copies", "between two devices")
def _peer(given: Given) -> None:
    other = given.other()
    there = other.empty(1000, "float32").fill(0)
    copy(there, given.device.upload(floats(1000)))
    expect("the numbers", there.tolist(), floats(1000).tolist())
