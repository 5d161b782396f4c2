"""Libraries whose arrays come by a copy, and those that take ours as Arrow arrays: pandas, polars, h5py, zarr..."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
VALUES = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def from_pandas(folder):
    return pytest.importorskip("pandas").DataFrame(numpy.array(VALUES))


def from_polars(folder):
    return pytest.importorskip("polars").DataFrame(numpy.array(VALUES))


def from_xarray(folder):
    return pytest.importorskip("xarray").DataArray(numpy.array(VALUES))


def from_awkward(folder):
    return pytest.importorskip("awkward").Array(VALUES)


def from_h5py(folder):
    file = pytest.importorskip("h5py").File(folder / "x.h5", "w")
    return file.create_dataset("x", data=numpy.array(VALUES), chunks=(1, 3), compression="gzip")


def from_zarr(folder):
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(store=str(folder / "x.zarr"), shape=(2, 3), chunks=(1, 3), dtype="float64")
    made[:] = numpy.array(VALUES)
    return made


MAKERS = [from_pandas, from_polars, from_xarray, from_awkward, from_h5py, from_zarr]


@pytest.mark.parametrize("make", MAKERS)
def test_it_is_uploaded_and_copied(device, tmp_path, make):
    theirs = make(tmp_path)
    there = device.upload(theirs)
    assert there.tolist() == VALUES and there.dtype == "float64"
    host = numpy.zeros((2, 3))
    rawcuda.copy(host, theirs)
    assert host.tolist() == VALUES
    there.fill(0)
    assert numpy.asarray(theirs).tolist() == VALUES  # it was a copy
    if make is not from_xarray:  # which has an interface of its own
        with pytest.raises((TypeError, BufferError)):
            rawcuda.view(theirs)


# -- columns of pandas and polars


def ends(call, match="missing|null"):
    """Check that elements which are missing end the search for a protocol."""
    with pytest.raises(rawcuda.ProtocolError, match=match) as caught:
        call()
    assert caught.value.protects


def test_8_3_8_6_columns_of_polars(device):
    pl = pytest.importorskip("polars")
    import datetime

    column = pl.Series([1, 2, 3], dtype=pl.Int16)
    view = rawcuda.view(column)
    assert view.tolist() == [1, 2, 3] and view.dtype == "int16" and view.protocol == "arrow" and view.readonly
    assert view.ptr == column.to_numpy().ctypes.data  # the same memory
    apart = pl.concat([pl.Series([1.5]), pl.Series([2.5, 3.5])], rechunk=False)
    with pytest.raises(rawcuda.ProtocolError, match="chunks 2"):
        rawcuda.view(apart)
    assert device.upload(apart).tolist() == [1.5, 2.5, 3.5] and rawcuda.view(apart.rechunk()).shape == (3,)
    time = datetime.datetime(2020, 1, 1)
    assert rawcuda.view(pl.Series([time])).dtype == device.upload(pl.Series([time])).dtype == "<M8[us]"
    assert rawcuda.view(pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2))).tolist() == [[1, 2], [3, 4]]
    assert device.upload(pl.Series([True, False])).tolist() == [True, False]
    assert rawcuda.view(pl.Series([], dtype=pl.Float32)).shape == (0,)
    assert str(rawcuda.view(pl.Series([1.0, float("nan")])).tolist()) == "[1.0, nan]"
    assert device.upload(pl.DataFrame({"a": [1, 2], "b": [3, 4]})).tolist() == [[1, 3], [2, 4]]
    target = rawcuda.view(numpy.zeros(3, "int16"))
    target[...] = column
    assert target.tolist() == [1, 2, 3]
    for missing in (
        pl.Series([1, None]),
        pl.Series([True, None]),
        pl.Series([time, None]),
        pl.Series([[1, None]]),
        pl.Series([{"a": 1, "b": None}]),
        pl.Series([None]),
        pl.DataFrame({"a": [1, None]}),
    ):
        for call in (rawcuda.view, device.upload, lambda x: rawcuda.copy(numpy.zeros(2), x)):
            ends(lambda call=call, missing=missing: call(missing))
    for refused in (pl.Series([[1], [2, 3]]), pl.Series([1], dtype=pl.Decimal(5, 2)), pl.Series([{"a": "x"}])):
        for call in (rawcuda.view, device.upload):
            with pytest.raises((TypeError, BufferError)):
                call(refused)


def test_8_3_8_6_columns_of_pandas(device):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    has_streams = hasattr(pd.Series, "__arrow_c_stream__")  # since pandas 3
    for column in (
        pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.Series([1, 2, 3]),
    ):
        assert device.upload(column).tolist() == [1, 2, 3]
        target = rawcuda.view(numpy.zeros(3, "int64"))
        target[...] = column
        assert target.tolist() == [1, 2, 3]
        if has_streams:
            view = rawcuda.view(column)
            assert view.tolist() == [1, 2, 3] and view.protocol == "arrow" and view.readonly
    missing = [
        pd.Series([1, None], dtype="int64[pyarrow]"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([pd.Timestamp("2020", tz="UTC"), pd.NaT]),
        pd.Series([1, None]).astype("category"),
        pd.DataFrame({"a": pd.array([1, None])}),
        pd.array([1, None]),
        pd.array([1.5, None]),
        pd.Index([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="int64[pyarrow]").array,
    ]
    for each in missing:
        for call in (device.upload, lambda x: rawcuda.copy(numpy.zeros(2), x)):
            ends(lambda call=call, each=each: call(each))
        with pytest.raises((TypeError, BufferError)):
            rawcuda.view(each)
    # NaN and NaT of NumPy's own dtypes are elements: as Arrow arrays they are null, as arrays of NumPy they stay
    for column in (
        pd.Series([1.0, None]),
        pd.Series(["2020", None], dtype="M8[ns]"),
        pd.Series([1, None], dtype="m8[s]"),
    ):
        there = device.upload(column)
        assert there.dtype == column.dtype
        assert numpy.array_equal(numpy.asarray(there.download()), column.to_numpy(), equal_nan=True)
        with pytest.raises((TypeError, BufferError)):
            rawcuda.view(column)
    assert str(device.upload(pd.DataFrame({"a": [1.0, None]})).tolist()) == "[[1.0], [nan]]"
    assert device.upload(pd.Series([True, False])).tolist() == [True, False]
    assert device.upload(pd.Series([5, 7]).astype("category")).tolist() == [5, 7]
    if has_streams:
        for call in (rawcuda.view, device.upload):  # a period is no number
            with pytest.raises(rawcuda.ProtocolError, match="extension type 'pandas.period'"):
                call(pd.Series(pd.period_range("2020", periods=2)))


def test_5_17_pandas_without_pyarrow_is_copied_by_its_array(device, monkeypatch):
    pd = pytest.importorskip("pandas")

    def no_pyarrow(self, requested_schema=None):
        raise ImportError("`Import pyarrow` failed")

    monkeypatch.setattr(pd.Series, "__arrow_c_stream__", no_pyarrow, raising=False)
    assert device.upload(pd.Series([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(ImportError, match="pyarrow"):
        rawcuda.view(pd.Series([1.0, 2.0]))


def test_8_7_nat_leaves_as_what_each_library_calls_missing():
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    values = numpy.array(["NaT", "2024-01-01"], "M8[us]")
    assert pl.Series(rawcuda.view(values)).is_null().to_list() == [True, False]
    if hasattr(pd.Series, "from_arrow"):
        assert pd.Series.from_arrow(rawcuda.view(values)).isna().tolist() == [True, False]


# -- Arrow


def to_pyarrow(view):
    return pytest.importorskip("pyarrow").array(view)


def to_polars(view):
    return pytest.importorskip("polars").Series(view)


def to_pandas(view):
    pandas = pytest.importorskip("pandas")
    if not hasattr(pandas.Series, "from_arrow"):
        pytest.skip("this pandas does not take Arrow arrays")
    return pandas.Series.from_arrow(view)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "<M8[ms]", "<m8[ns]"])
@pytest.mark.parametrize("take", [to_pyarrow, to_polars, to_pandas])
def test_it_takes_our_views_as_arrow_arrays(take, dtype):
    values = numpy.arange(10).astype(dtype)
    view = rawcuda.view(values)
    theirs = take(view)
    assert numpy.asarray(theirs).astype(dtype).tolist() == values.tolist()


def test_an_arrow_array_uses_our_memory_and_is_released_once():
    pa = pytest.importorskip("pyarrow")
    kept = module("arrays.arrow_export")._kept
    before = len(kept)

    class Owner(bytearray):
        freed = 0

        def __del__(self):
            Owner.freed += 1

    view = rawcuda.view(Owner(16)).reinterpret("int32")
    theirs = pa.array(view)
    assert theirs.buffers()[1].address == view.ptr and theirs.to_pylist() == [0] * 4
    part = theirs[1:]
    del view, theirs
    gc.collect()
    assert not Owner.freed and part.to_pylist() == [0] * 3
    del part
    gc.collect()
    assert Owner.freed == 1 and len(kept) == before
    capsules = rawcuda.view(Owner(16)).__arrow_c_array__()  # nobody takes them
    assert len(kept) == before + 2
    del capsules
    gc.collect()
    assert Owner.freed == 2 and len(kept) == before
    schema, array = rawcuda.view(Owner(16)).__arrow_c_array__(requested_schema=None)
    taken = pa.Array._import_from_c_capsule(schema, array)
    with pytest.raises(pa.lib.ArrowInvalid, match="released"):
        pa.Array._import_from_c_capsule(schema, array)
    del schema, array, taken
    gc.collect()
    assert Owner.freed == 3 and len(kept) == before


def test_our_own_arrow_arrays_come_back():
    view = rawcuda.view(numpy.arange(4, dtype="int16"))
    again = rawcuda.view(view, protocol="arrow")
    assert again.ptr == view.ptr and again.dtype is view.dtype and again.readonly
    del view
    gc.collect()
    assert again.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "array",
    [
        numpy.zeros((2, 2)),
        numpy.zeros(4)[::2],
        numpy.zeros(4)[::-1],
        numpy.zeros(3, bool),
        numpy.zeros(3, "complex64"),
        numpy.zeros(()),
        numpy.zeros(3, "<M8[D]"),
        numpy.zeros(3, [("a", "i4")]),
        numpy.zeros(3, "U2"),
    ],
    ids=lambda array: f"{array.dtype} {array.shape} {array.strides}",
)
def test_what_is_no_arrow_array_does_not_offer_it(array):
    view = rawcuda.view(array)
    assert not hasattr(view, "__arrow_c_array__")
    with pytest.raises(rawcuda.ProtocolError, match="does not offer"):
        rawcuda.view(view, protocol="arrow")


def test_device_memory_is_no_arrow_array(device):
    assert not hasattr(device.empty(3, "float32"), "__arrow_c_array__")
    assert not hasattr(device.allocate(8), "__arrow_c_array__")
    assert hasattr(device.empty(3, "float32").download(), "__arrow_c_array__")


def test_an_arrow_array_outlives_the_program():
    pytest.importorskip("pyarrow")
    text = "import pyarrow as pa, numpy; from tests.subject import rawcuda; x = pa.array(rawcuda.view(numpy.arange(4)))"
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")


def test_threads_take_and_release_arrow_arrays():
    import threading

    pa = pytest.importorskip("pyarrow")
    kept = module("arrays.arrow_export")._kept
    before, view = len(kept), rawcuda.view(numpy.arange(8))

    def work():
        for _ in range(200):
            assert pa.array(view)[7].as_py() == 7

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    gc.collect()
    assert len(kept) == before
