"""Fills and copies in a capture: the graph does what they would have done, or an error says why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.subject import module, rawcuda

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


KINDS = ("device", "managed", "pinned", "host")
CUTS = {
    "a run": numpy.s_[:],
    "a step": numpy.s_[::2],
    "backwards": numpy.s_[::-1],
    "a row": numpy.s_[1:2],
}


def made(device: Any, kind: str, values: Any) -> Any:
    if kind == "host":
        return rawcuda.view(values.copy())
    memory = device.allocate(values.nbytes, kind=kind)
    return memory.view(str(values.dtype)).reshape(values.shape).copy_from(values)


@pytest.mark.parametrize("to, of", [(to, of) for to in KINDS for of in KINDS if (to, of) != ("host", "host")])
@pytest.mark.parametrize("batched", [False, True], ids=["copy", "copy_batch"])
def test_every_copy(device: Any, to: str, of: str, batched: bool) -> None:
    """A copy that cannot be captured leaves the capture intact."""
    for target in CUTS.values():
        for source in CUTS.values():
            there, here = numpy.zeros((6, 4), "int32"), numpy.arange(24, dtype="int32").reshape(6, 4)
            if there[target].shape != here[source].shape:
                source = target
            dst, src = made(device, to, there), made(device, of, here)
            mark = device.upload(numpy.zeros(1, "int32"))
            device.synchronize()
            refused = False
            with device.stream() as stream, device.stream() as other:
                with stream.capture() as graph:
                    try:
                        if batched:
                            rawcuda.copy_batch([(dst[target], src[source])], stream=stream)
                        else:
                            rawcuda.copy(dst[target], src[source], stream=stream)
                    except rawcuda.InvalidUse as error:
                        assert str(error).startswith("the stream is being captured, and "), error
                        refused = True
                    mark.fill(5, stream=stream)
                assert not numpy.array(dst.tolist()).any() and mark.tolist() == [0]  # nothing has run yet
                graph.launch(other)
                other.synchronize()
            graph.close()
            if not refused:
                there[target] = here[source]
            else:
                assert "host" in (to, of) or to == of == "pinned"
            assert dst.tolist() == there.tolist() and mark.tolist() == [5]


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_a_copy_of_overlapping_sides(device: Any, kind: str) -> None:
    array = made(device, kind, numpy.arange(8, dtype="int32"))
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph:
            with pytest.raises(
                rawcuda.InvalidUse, match="the stream is being captured, and .* another array first|use device memory"
            ):
                rawcuda.copy(array, array[::-1], stream=stream)
            array.fill(3, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        assert array.tolist() == [3] * 8
        graph.close()


def test_what_a_capture_uses_is_kept_where_the_driver_does_not_tell_its_number(device, monkeypatch):
    """An event that was recorded on the stream would never be reached, and what it keeps never released."""
    errors, points = module("errors"), module("gpu.core.points")

    def failing(*arguments):
        raise errors.OutOfMemory("no memory", code=2, name="CUDA_ERROR_OUT_OF_MEMORY", call="cuStreamGetCaptureInfo")

    thing, word = object(), device.zeros(4, "uint8")
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph:
            word.fill(3, stream=stream)
            with monkeypatch.context() as patch:
                patch.setitem(vars(device._primary.calls), "cuStreamGetCaptureInfo", failing)
                points.retain(device, stream.handle, thing, stream._release)
        assert thing in [each for kept in graph._kept.values() for each in kept]
        assert all(thing not in point.things for point in points.retained)
        graph.launch(stream)
        stream.synchronize()
        assert word.tolist() == [3] * 4
        graph.close()
