"""Fills in a capture: of every kind of memory, element and layout; the graph does what the fill would have done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.subject import rawcuda

numpy = pytest.importorskip("numpy")

PARTS = {
    "a run": ((7,), ...),
    "every second element": ((8,), numpy.s_[::2]),
    "steps in both dimensions": ((4, 6), numpy.s_[::2, ::2]),
    "whole rows": ((4, 6), numpy.s_[1:3]),
    "parts of rows": ((4, 6), numpy.s_[:, 1:4]),
    "backwards": ((3, 4, 5), numpy.s_[::2, ::3, ::-2]),
    "no dimension": ((), ...),
}
VALUES = {"float64": 1.5, "int64": 1, "complex64": 1j, "complex128": 1 + 2j, "float32": 2.5, "uint8": 3}


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
@pytest.mark.parametrize("captured", [False, True], ids=["at once", "captured"])
@pytest.mark.parametrize("part", PARTS)
def test_every_fill(device: Any, part: str, captured: bool, kind: str) -> None:
    shape, index = PARTS[part]
    for dtype, value in VALUES.items():
        wanted = numpy.zeros(shape, dtype)
        with device.allocate(wanted.nbytes, kind=kind) as memory, device.stream() as stream:
            array = memory.view(dtype).reshape(shape)
            array.copy_from(wanted)
            wanted[index] = value
            if captured:
                with stream.capture() as graph:
                    array[index].fill(value, stream=stream)
                assert not numpy.array(array.tolist()).any()  # nothing has run yet
                with graph.instantiate() as executable:
                    executable.launch(stream)
                    stream.synchronize()
                graph.close()
            else:
                array[index].fill(value, stream=stream)
                stream.synchronize()
            assert numpy.array_equal(numpy.array(array.tolist(), dtype).reshape(shape), wanted), dtype


def test_a_fill_of_too_many_calls_is_refused(device: Any) -> None:
    array, stream = device.empty((40, 40), "complex128"), device.stream()
    with pytest.raises(
        rawcuda.InvalidUse, match=r"at most 64 calls.*400 separate elements of 16 bytes.*graph\.fill\(\)"
    ):
        with stream.capture():
            array[::2, ::2].fill(1 + 2j, stream=stream)
    array[::2, ::2].fill(1 + 2j, stream=stream)
    stream.synchronize()
    assert array[38, 38].item() == 1 + 2j
    graph = device.graph()
    graph.fill(array[1::2, 1::2], 3j)
    with graph.instantiate() as executable:
        executable.launch(stream)
        stream.synchronize()
    graph.close()
    assert array[39, 39].item() == 3j and array[0, 0].item() == 1 + 2j
