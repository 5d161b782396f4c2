"""Our DLPack C exchange table: its functions are called as C code calls them, and fail as specified."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import traceback

import pytest

from tests.null.producers import Tensor, _api, name_of
from tests.shared import run_threads
from tests.subject import module, rawcuda

callback, dlpack, errors = module("interpreter.callback"), module("dlpack"), module("errors")
view = rawcuda.view
pytestmark = [
    pytest.mark.usefixtures("exports_are_freed"),
    pytest.mark.skipif(not callback.available(), reason="no callback that may raise for this interpreter"),
]

_get = _api["PyCapsule_GetPointer"]
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_forget = _api["Py_DecRef"]
_forget.argtypes, _forget.restype = [ctypes.py_object], None
FROM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_void_p
)  # PYFUNCTYPE raises a pending exception after the call
TO = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, SET_ERROR)
DELETE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def table():
    return dlpack.DLPackExchangeAPI.from_address(
        _get(rawcuda.StridedView.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    )


def tensor_of(table, thing):
    out = ctypes.c_uint64()
    assert FROM(table.managed_tensor_from_py_object_no_sync)(thing, ctypes.addressof(out)) == 0
    return dlpack.DLManagedTensorVersioned.from_address(out.value), out.value


def test_4_1_4_3_it_is_on_the_type_and_always_the_same():
    capsule = rawcuda.StridedView.__dlpack_c_exchange_api__
    v = view(array.array("f", range(6)))
    assert (
        name_of(capsule) == b"dlpack_exchange_api"
        and capsule is v.__dlpack_c_exchange_api__ is type(v).__dlpack_c_exchange_api__
    )
    gc.collect()
    assert rawcuda.StridedView.__dlpack_c_exchange_api__ is capsule


def test_4_2_4_12_the_table(table):
    assert (table.header.version.major, table.header.version.minor, table.header.prev_api) == (1, 3, None)
    assert (
        table.managed_tensor_allocator
        and table.managed_tensor_from_py_object_no_sync
        and table.managed_tensor_to_py_object_no_sync
    )
    assert table.current_work_stream and not table.dltensor_from_py_object_no_sync  # the only function that may be null


def test_4_6_a_view_goes_out(table):
    v = view(array.array("f", range(6))).reshape(2, 3)
    before = sys.getrefcount(v)
    tensor, address = tensor_of(table, v[:, ::2])
    assert (tensor.version.major, tensor.version.minor, tensor.flags, tensor.dl_tensor.data, tensor.dl_tensor.ndim) == (
        1,
        3,
        0,
        v.ptr,
        2,
    )
    assert tuple((ctypes.c_int64 * 4).from_address(tensor.dl_tensor.shape)) == (2, 2, 3, 2)
    DELETE(tensor.deleter)(address)
    assert sys.getrefcount(v) == before
    tensor, address = tensor_of(table, view(b"abc"))
    assert tensor.flags == 1  # read-only is never lost
    DELETE(tensor.deleter)(address)


def test_4_7_a_tensor_comes_in(table):
    tensor, out = Tensor(flags=1), ctypes.c_uint64()
    assert TO(table.managed_tensor_to_py_object_no_sync)(tensor.address, ctypes.addressof(out)) == 0
    made = ctypes.cast(out.value, ctypes.py_object).value
    _forget(made)  # the new reference was ours
    references = sys.getrefcount(made)  # from 3.14 on, the call borrows the reference of the variable
    assert (
        references == (1 if sys.version_info >= (3, 14) else 2)
        and made.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        and made.readonly
        and tensor.freed == 0
    )
    del made
    assert tensor.freed == 1


@pytest.mark.parametrize(
    "wrong", [dict(dtype=(99, 1, 1)), dict(shape=(-1,)), dict(version=(2, 0)), dict(device=(10, 0))]
)
def test_4_7_a_refused_tensor_is_stolen_all_the_same(table, wrong):
    tensor, out = Tensor(**wrong), ctypes.c_uint64(77)
    with pytest.raises(errors.ProtocolError):
        TO(table.managed_tensor_to_py_object_no_sync)(tensor.address, ctypes.addressof(out))
    gc.collect()
    assert tensor.freed == 1 and out.value == 77


def test_1_9_what_cannot_be_described_is_a_buffer_error(table):
    out = ctypes.c_uint64(77)
    for thing in (
        view(array.array("f", range(6)))[::-1],
        view(bytearray(12)).reinterpret("|V12"),
        3,
        "x",
        array.array("f"),
        None,
        rawcuda.StridedView,
    ):
        with pytest.raises(BufferError) as caught:
            FROM(table.managed_tensor_from_py_object_no_sync)(thing, ctypes.addressof(out))
        assert isinstance(caught.value, errors.ProtocolError) and out.value == 77
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert "managed_tensor_from_py_object_no_sync" in names  # with the traceback of the failure


def test_0_4_the_error_path_under_threads_and_collections(table):
    """A function returns -1 and sets the exception, which the caller always gets; none is exchanged, lost or kept."""
    call, mine = FROM(table.managed_tensor_from_py_object_no_sync), view(array.array("f", range(6)))

    def work(number):
        out = ctypes.c_uint64()
        for i in range(300):
            name = type(f"T{number}_{i % 7}", (), {})
            try:
                call(name(), ctypes.addressof(out))
                raise AssertionError("no exception")
            except BufferError as error:
                assert name.__name__ in str(error) and error.__context__ is None, error
            assert call(mine, ctypes.addressof(out)) == 0
            DELETE(dlpack.DLManagedTensorVersioned.from_address(out.value).deleter)(out.value)

    run_threads(work, 20, 3, 3)


def test_0_4_errors_leave_nothing(table):
    call, out = FROM(table.managed_tensor_from_py_object_no_sync), ctypes.c_uint64()

    def rounds(count):
        for _ in range(count):
            try:
                call(out, ctypes.addressof(out))
            except BufferError:
                pass

    rounds(100)
    gc.collect()
    before = sys.getrefcount(out), sys.getrefcount(errors.ProtocolError), sys.getallocatedblocks()
    gc.disable()
    try:
        rounds(5000)
        after = sys.getrefcount(out), sys.getrefcount(errors.ProtocolError), sys.getallocatedblocks()
    finally:
        gc.enable()
    assert after[:2] == before[:2] and after[2] - before[2] < 50, (before, after)  # no reference cycles


@pytest.mark.parametrize("traced", ["settrace", "setprofile"])
def test_0_4_errors_while_traced(table, traced):
    was = sys.gettrace(), sys.getprofile()
    getattr(sys, traced)(lambda *_: None)
    try:
        with pytest.raises(BufferError):
            FROM(table.managed_tensor_from_py_object_no_sync)(3, ctypes.addressof(ctypes.c_uint64()))
    finally:
        sys.settrace(was[0])
        sys.setprofile(was[1])


def test_an_exception_that_is_no_error_passes_too():
    @callback.raising(ctypes.c_int, ctypes.c_int)
    def stops(number):
        if number:
            raise KeyboardInterrupt("now")
        return 5

    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)(ctypes.cast(stops, ctypes.c_void_p).value)
    assert call(0) == 5
    with pytest.raises(KeyboardInterrupt, match="now"):
        call(1)
    assert call(0) == 5


def test_4_8_the_allocator(table):
    said, out = [], ctypes.c_uint64()
    set_error = SET_ERROR(lambda context, kind, text: said.append((context, kind, text)))
    allocate = ALLOCATE(table.managed_tensor_allocator)

    def prototype(shape, dtype=(2, 32, 1), device=(1, 0)):
        tensor = Tensor(shape=shape, dtype=dtype, device=device)
        return tensor, ctypes.addressof(tensor.struct) + 32

    kept, address = prototype((2, 3))
    assert allocate(address, ctypes.addressof(out), 55, set_error) == 0 and not said
    tensor = dlpack.DLManagedTensorVersioned.from_address(out.value)
    assert tensor.dl_tensor.data % 64 == 0 and tensor.dl_tensor.ndim == 2 and tensor.flags == 0
    ctypes.memset(tensor.dl_tensor.data, 7, 24)
    DELETE(tensor.deleter)(out.value)
    for wrong in (
        dict(shape=(2,), dtype=(99, 8, 1)),
        dict(shape=(-2,)),
        dict(shape=(2**62, 8)),
        dict(shape=(2,), device=(10, 0)),
        dict(shape=(2,), dtype=(17, 4, 1)),
    ):
        kept, address = prototype(**wrong)
        assert allocate(address, ctypes.addressof(out), 55, set_error) == -1
        ((context, kind, text),) = said
        assert context == 55 and kind in (b"ProtocolError", b"ValueError") and text
        said.clear()
    for ndim in (-7, 65, 2**31 - 1):
        ctypes.c_int32.from_address(address + 16).value = ndim
        assert allocate(address, ctypes.addressof(out), 55, set_error) == -1
        assert str(ndim).encode() in said.pop()[2]
    assert kept.freed == 0  # a prototype is only read
    setting = ctypes.cast(ctypes.pythonapi.PyErr_SetString, SET_ERROR)  # its words are the kind of the error
    with pytest.raises(LookupError, match="^ProtocolError$"):
        allocate(address, ctypes.addressof(out), id(LookupError), setting)


@pytest.mark.parametrize("device, stream", [((1, 0), 0), ((3, 0), 0), ((2, 0), 1), ((2, 3), 1), ((13, 0), 1)])
def test_4_9_the_stream_at_work(table, device, stream):
    out = ctypes.c_uint64(99)
    assert STREAM(table.current_work_stream)(*device, ctypes.addressof(out)) == 0 and out.value == stream


def test_our_own_consumer_reads_our_own_table():
    v = view(array.array("f", range(6))).reshape(2, 3).T
    w = view(v, protocol="dlpack_c_exchange")
    assert w.tolist() == v.tolist()
    w = view(v, protocol="dlpack_c_exchange")
    assert (w.ptr, w.shape, w.strides, w.tolist(), w.protocol) == (
        v.ptr,
        v.shape,
        v.strides,
        v.tolist(),
        "dlpack_c_exchange",
    )


def test_an_interpreter_without_such_callbacks_offers_no_table(monkeypatch):
    monkeypatch.setattr(module("arrays.exchange_table"), "available", lambda: False)
    assert not hasattr(rawcuda.StridedView, "__dlpack_c_exchange_api__") and not hasattr(
        view(b""), "__dlpack_c_exchange_api__"
    )
