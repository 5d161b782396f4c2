"""The `__cuda_array_interface__` of CuPy's arrays, made here from its published rules, over memory of the device.

CuPy itself needs a GPU: tests/interop/test_device_systems.py tests it there. Its dicts have the keys shape, typestr and
descr (of the NumPy dtype), stream, version, strides (None if the array is in C order) and data (address 0 if there are
no elements, never read-only). The stream is the current one, where 0 is replaced by 1, or by 2 for the per-thread
stream. If CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION is 2, the dict has no stream.
"""

from __future__ import annotations

import pytest

from tests.subject import rawcuda

numpy = pytest.importorskip("numpy")
LAYOUTS = {
    "contiguous": lambda a: a,
    "strided": lambda a: a[::2, 1:],
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: numpy.broadcast_to(a[:1], a.shape),
    "offset": lambda a: a[1:],
    "one row": lambda a: a[1:2],
    "0-d": lambda a: a[1, 1],
    "empty": lambda a: a[:0],
    "empty and strided": lambda a: a[:, 2:2],
}
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class Published:
    """An array with the layout of a NumPy array that is part of `whole`; its elements are at `there` on the device."""

    def __init__(self, array, whole, there, *, stream=1, version=3):
        self.array, self.offset, self.there = array, array.__array_interface__["data"][0], there
        self.offset -= whole.ctypes.data
        self.stream, self.version = stream, version

    @property
    def __cuda_array_interface__(self):
        said = {"shape": self.array.shape, "typestr": self.array.dtype.str, "descr": self.array.dtype.descr}
        if self.version == 3:
            said["stream"] = self.stream
        said["version"] = self.version
        said["strides"] = None if self.array.flags.c_contiguous else self.array.strides
        said["data"] = (self.there.ptr + self.offset if self.array.size else 0), False
        return said


def part(layout, whole):
    """Return a part of an array as an array, also where NumPy would give a number."""
    return numpy.asarray(LAYOUTS[layout](whole)) if layout != "0-d" else whole[1:2, 1].reshape(())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", [2, 3])
def test_every_layout(device, layout, version):
    whole = numpy.arange(12, dtype="f4").reshape(3, 4)
    there = device.upload(whole)
    array = part(layout, whole)
    for _ in range(2):  # the first of its type, and one whose form is known
        made = rawcuda.view(Published(array, whole, there, version=version))
        assert made.shape == array.shape and made.dtype == "float32" and made.protocol == "cuda_array_interface"
        assert made.download().tolist() == array.tolist()
        if array.size:
            assert made.device == ("cuda", 0) and not made.readonly
            assert made.strides == array.strides and made.ptr == there.ptr + array.ctypes.data - whole.ctypes.data
    if array.size and layout != "broadcast":
        rawcuda.copy(Published(array, whole, there, version=version), numpy.full(array.shape, 7, "f4"))
        array = numpy.array(whole)
        part(layout, array)[...] = 7
        assert there.download().tolist() == array.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(device, dtype):
    whole = (numpy.arange(12) % 2).astype(dtype).reshape(3, 4)
    there = device.upload(whole)
    made = rawcuda.view(Published(whole.T, whole, there))
    assert made.dtype == whole.dtype and made.download().tolist() == whole.T.tolist()
    assert device.upload(Published(whole[::2], whole, there)).tolist() == whole[::2].tolist()


def test_structures_and_types_without_a_typestr(device):
    fields = numpy.zeros(4, [("a", "i4"), ("b", "f8")])
    fields["a"], fields["b"] = range(4), 0.5
    there = device.upload(fields)
    made = rawcuda.view(Published(fields, fields, there))
    assert made.dtype == fields.dtype and made["a"].download().tolist() == [0, 1, 2, 3]
    halves = numpy.zeros(4, "V2")  # as NumPy writes the bfloat16 of ml_dtypes
    there = device.upload(halves)
    assert rawcuda.view(Published(halves, halves, there)).reinterpret("bfloat16").dtype == "bfloat16"


def test_the_stream_is_waited_for(device):
    whole = numpy.arange(4, dtype="f4")
    with device.stream() as own, device.stream() as work:
        there = device.upload(whole)
        for stream in (1, 2, own.handle):
            given = Published(whole, whole, there, stream=stream)
            there.fill(stream if stream < 3 else 3, stream=rawcuda.Stream.from_handle(stream))
            assert rawcuda.view(given, stream=work).download(stream=work).tolist() == [min(stream, 3)] * 4


def test_arrays_of_two_streams_take_turns(device):
    """Objects of one class, whose dicts differ in one key each: nothing of one is remembered for another."""
    whole = numpy.arange(12, dtype="i4").reshape(3, 4)
    there = device.upload(whole)
    with device.stream() as own:
        for _ in range(3):
            for layout in LAYOUTS:
                for stream, version in ((1, 3), (own.handle, 3), (1, 2)):
                    array = part(layout, whole)
                    made = rawcuda.view(Published(array, whole, there, stream=stream, version=version))
                    assert made.download().tolist() == array.tolist(), (layout, stream, version)


def test_explain_reads_it(device):
    whole = numpy.arange(4, dtype="f4")
    said = str(rawcuda.explain(Published(whole, whole, device.upload(whole))))
    assert "the legacy default stream" in said and "= float32 (4,)" in said
