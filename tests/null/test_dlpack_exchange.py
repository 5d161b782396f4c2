"""Reading DLPack's C exchange table: section 4 of docs/protocols.md. The tests are named after its rules."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import struct
import sys
import types

import pytest

from tests.null import producers
from tests.null.producers import _api
from tests.subject import module, rawcuda

exchange, errors, dlpack = module("protocols.dlpack_c_exchange"), module("errors"), module("dlpack")
view, ProtocolError = rawcuda.view, errors.ProtocolError

_new = _api["PyCapsule_New"]
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")
OTHER = ctypes.create_string_buffer(b"dltensor")
OWN = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Table:
    """A table in memory, and its functions; `calls` records each call."""

    def __init__(self, *, version=(1, 3), previous=0, device=(1, 0), own=True, borrow=True, stream=0):
        self.calls, self.freed, self.result = [], 0, 0
        self.device = device
        self.functions = [
            OWN(self._own) if own else None,
            OWN(self._borrow) if borrow else None,
            STREAM(self._stream) if stream is not None else None,
        ]
        self.handle, self.dtype = stream, (2, 32, 1)
        own, borrow, stream = (ctypes.cast(f, ctypes.c_void_p).value if f is not None else 0 for f in self.functions)
        raw = struct.pack("=IIQQQQQQ", *version, previous, 0, own, 0, borrow, stream)
        self.memory = ctypes.create_string_buffer(raw, len(raw))
        self.address = ctypes.addressof(self.memory)
        self.values = (ctypes.c_float * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 4)(2, 3, 3, 1)
        self.deleter = DELETER(self._delete)
        self.out = []

    def tensor(self):
        where = ctypes.addressof(self.shape)
        return struct.pack(
            "=QiiiBBHQQQ", ctypes.addressof(self.values), *self.device, 2, *self.dtype, where, where + 16, 0
        )

    def _own(self, thing, out):
        self.calls.append(("own", type(thing).__name__))
        raw = struct.pack("=IIQQQ", 1, 3, 0, ctypes.cast(self.deleter, ctypes.c_void_p).value, 1) + self.tensor()
        kept = ctypes.create_string_buffer(raw, len(raw))
        self.out.append(kept)
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(kept)
        return 0

    def _borrow(self, thing, out):
        self.calls.append(("borrow", type(thing).__name__))
        if not self.result:
            ctypes.memmove(out, self.tensor(), 48)
        return self.result

    def _stream(self, device, ordinal, out):
        self.calls.append(("stream", device, ordinal))
        ctypes.c_uint64.from_address(out).value = self.handle
        return 0

    def _delete(self, address):
        self.freed += 1

    def capsule(self, name=NAME):
        return _new(self.address, ctypes.addressof(name), None)


def kind_of(table, attribute="__dlpack_c_exchange_api__", offered=None):
    return type("Array", (), {attribute: table.capsule() if offered is None else offered, "table": table})


@pytest.mark.parametrize("attribute", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
@pytest.mark.parametrize("as_int", [False, True])
def test_4_1_4_6_where_the_table_is(attribute, as_int):
    table = Table()
    thing = kind_of(table, attribute, table.address if as_int else None)()
    v = view(thing, protocol="dlpack_c_exchange")
    assert (v.shape, v.strides, str(v.dtype), v.readonly, v.device, v.protocol) == (
        (2, 3),
        (12, 4),
        "float32",
        True,
        ("cpu", 0),
        "dlpack_c_exchange",
    )
    assert v.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and table.calls == [("own", "Array")] and table.freed == 0
    del v
    assert table.freed == 1  # we delete an owned tensor, once


def test_a_trace_tells_what_the_table_gave():
    events, thing = [], kind_of(Table())()
    with rawcuda.trace(events.append):
        view(thing, protocol="dlpack_c_exchange")
    (step,) = [event for event in events if event.protocol == "dlpack_c_exchange"]
    assert step.what == "Array's table" and "shape (2, 3)" in step.details


def test_4_2_older_tables_behind_newer_ones():
    first = Table()
    second = Table(version=(2, 0), previous=first.address)
    third = Table(version=(3, 7), previous=second.address)
    assert view(kind_of(third)(), protocol="dlpack_c_exchange").shape == (2, 3) and first.calls and not third.calls
    assert view(kind_of(Table(version=(1, 99)))(), protocol="dlpack_c_exchange").shape == (2, 3)
    for lonely in (Table(version=(2, 0)), Table(version=(0, 9))):
        with pytest.raises(ProtocolError, match="header.version.major") as caught:
            view(kind_of(lonely)(), protocol="dlpack_c_exchange")
        assert caught.value.protocol == "dlpack_c_exchange" and not lonely.calls
    circle = Table(version=(2, 0))
    struct.pack_into("=Q", circle.memory, 8, circle.address)
    with pytest.raises(ProtocolError):  # a table that refers to itself is handled, too
        view(kind_of(circle)(), protocol="dlpack_c_exchange")


def test_4_1_what_is_no_table():
    table = Table()
    for offered in (table.capsule(OTHER), "x", 1.5, 0, -1, 8, 2**63, object()):
        with pytest.raises(ProtocolError) as caught:
            view(kind_of(table, offered=offered)(), protocol="dlpack_c_exchange")
        assert caught.value.protocol == "dlpack_c_exchange"
    with pytest.raises(ProtocolError, match="does not offer"):
        view(object(), protocol="dlpack_c_exchange")


def test_4_4_a_subclass_goes_the_python_way():
    table = Table()
    kind = kind_of(table)

    class Sub(kind):
        pass

    with pytest.raises(ProtocolError, match="does not offer"):
        view(Sub(), protocol="dlpack_c_exchange")
    with pytest.raises(TypeError, match="not an exporter"):
        view(kind())  # by default, the table is used only for torch's own types
    assert not table.calls


def test_4_10_the_exporters_own_errors():
    """A function returns -1 and sets an exception. A Python callback cannot do that, so a C function fails here."""
    table = Table()
    fails = ctypes.cast(_api["PyObject_GetBuffer"], ctypes.c_void_p).value
    struct.pack_into("=Q", table.memory, 24, fails)
    for _ in range(10):
        with pytest.raises(TypeError, match="bytes-like object is required, not 'Array'"):
            view(kind_of(table)(), protocol="dlpack_c_exchange")
    assert table.freed == 0


@pytest.mark.parametrize(
    "at, function, field",
    [
        (24, OWN(lambda thing, out: -1), "managed_tensor_from_py_object_no_sync"),
        (24, OWN(lambda thing, out: 0), "managed_tensor_from_py_object_no_sync"),  # and no tensor
        (48, STREAM(lambda device, ordinal, out: -1), "current_work_stream"),
    ],
)
def test_failing_without_an_exception(at, function, field):
    table = Table(device=(2, 0))
    struct.pack_into("=Q", table.memory, at, ctypes.cast(function, ctypes.c_void_p).value)
    with pytest.raises(ProtocolError, match=f"{field} -1: failed without an exception"):
        view(kind_of(table)(), protocol="dlpack_c_exchange")


@pytest.mark.parametrize(
    "missing, field", [("own", "managed_tensor_from_py_object_no_sync"), ("stream", "current_work_stream")]
)
def test_4_12_null_functions(missing, field):
    table = Table(**{missing: None if missing == "stream" else False})
    with pytest.raises(ProtocolError) as caught:
        view(kind_of(table)(), protocol="dlpack_c_exchange")
    assert caught.value.field == field
    assert view(kind_of(Table(borrow=False))(), protocol="dlpack_c_exchange").shape == (
        2,
        3,
    )  # the only function that may be null


# -- torch, replaced by a module with only the parts that the reader uses


class Tensor:
    """The part of a torch tensor that the reader uses."""

    requires_grad = False
    storage = None

    def __init__(self, **changes):
        self.changes = changes
        self.layout = changes.get("layout", "torch.strided")
        self.requires_grad = changes.get("requires_grad", False)

    def is_conj(self):
        return self.changes.get("conj", False)

    def is_neg(self):
        return self.changes.get("neg", False)

    def untyped_storage(self):
        self.storage = self.storage or Storage()
        return self.storage


class Storage:
    """The part of a torch storage that the reader uses: the address of its bytes."""

    table = None

    def data_ptr(self):
        return ctypes.addressof(self.table.values)

    def nbytes(self):
        return 1 << 20


@pytest.fixture
def torch(monkeypatch):
    """Install a module `torch` whose Tensor has our table."""
    fake = types.ModuleType("torch")
    table = Table()
    fake.table = table
    fake.Tensor = type("Tensor", (Tensor,), {"__dlpack_c_exchange_api__": table.capsule(), "__module__": "torch"})
    fake.nn = types.SimpleNamespace(Parameter=type("Parameter", (fake.Tensor,), {"__module__": "torch.nn.parameter"}))
    fake.strided = "torch.strided"
    monkeypatch.setitem(sys.modules, "torch", fake)
    module("protocols.tensor").BY_TABLE.clear()
    Storage.table = table
    yield fake
    exchange._tables.clear()
    module("protocols.choosing").forget()


def test_4_5_a_borrowed_tensor_and_its_storage(torch):
    for _ in range(3):  # the first call learns the type, which is known then
        tensor = torch.Tensor()
        v = view(tensor)
        assert v.protocol == "dlpack_c_exchange" and v.tolist()[1] == [3.0, 4.0, 5.0] and not v.readonly
        assert v.owner is tensor.storage  # tensor.data = ... gives the tensor another storage
    assert torch.table.calls == [("borrow", "Tensor")] * 3 and torch.table.freed == 0


def test_4_4_torchs_own_types_only(torch):
    assert view(torch.nn.Parameter()).protocol == "dlpack_c_exchange"

    class FakeTensor(torch.Tensor):
        def __dlpack__(self, **keywords):
            raise BufferError("the Python way")

    with pytest.raises(BufferError, match="the Python way"):
        view(FakeTensor())


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"requires_grad": True}, "requires_grad"),
        ({"conj": True}, "is_conj"),
        ({"neg": True}, "is_neg"),
        ({"layout": "torch.sparse_coo"}, "layout"),
    ],
)
@pytest.mark.parametrize("protocol", [None, "dlpack_c_exchange", "dlpack", "cuda_array_interface"])
def test_0_5_0_8_4_11_what_the_table_does_not_check(torch, changes, field, protocol):
    if field == "is_conj":  # which no other numbers can be
        torch.table.dtype = 5, 64, 1
    view(torch.Tensor())
    calls = list(torch.table.calls)
    for _ in range(2):
        if field == "layout":  # the real table refuses, and then the reason is determined
            module("protocols.choosing").forget()
            torch.table.result = -1
        with pytest.raises(ProtocolError) as caught:
            view(torch.Tensor(**changes), protocol=protocol)
        assert caught.value.field == field and "tensor." in str(caught.value)  # the remedy
        assert caught.value.protects
        with pytest.raises(ProtocolError, match=field):  # not even by __array__
            rawcuda.copy(bytearray(24), type("Sub", (torch.Tensor,), {"__array__": lambda self: b"x" * 24})(**changes))
    assert torch.table.calls == calls or field in ("is_conj", "layout")  # these are found after it was read


@pytest.fixture
def capsules(torch, monkeypatch):
    """Give the torch in place what makes capsules; return the tensors for which one was made."""
    asked = []

    def to_dlpack(tensor):
        asked.append(tensor)
        return producers.Tensor(version=None, shape=(2, 3)).capsule()

    torch.utils = types.SimpleNamespace(dlpack=types.SimpleNamespace(to_dlpack=to_dlpack))
    torch._C = types.SimpleNamespace(
        DisableTorchFunctionSubclass=contextlib.nullcontext, _disabled_torch_function_impl=len
    )
    torch.strided = torch.Tensor().layout
    for name, value in dict(
        is_cpu=True,
        is_pinned=lambda self: False,
        __torch_function__=classmethod(lambda cls: None),
        __dlpack__=lambda self, **options: to_dlpack(self),
        __dlpack_device__=lambda self: (1, 0),
    ).items():
        setattr(torch.Tensor, name, value)
    module("protocols.choosing").forget()
    return asked


def test_a_torch_subclass_that_changes_nothing(torch, capsules):
    kind = type("Sub", (torch.Tensor,), {})
    for _ in range(2):
        tensor = kind()
        v = view(tensor)
        assert v.protocol == "dlpack" and v.shape == (2, 3) and not v.readonly and capsules[-1] is tensor
    assert view(torch.Tensor(), protocol="dlpack").protocol == "dlpack" and torch.table.calls == []
    for changes, field in (
        ({"requires_grad": True}, "requires_grad"),
        ({"conj": True}, "is_conj"),
        ({"neg": True}, "is_neg"),
    ):
        made = len(capsules)
        with pytest.raises(ProtocolError) as caught:
            view(kind(**changes))
        assert caught.value.field == field and len(capsules) == made


def test_a_torch_without_a_table(torch, capsules, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    for _ in range(2):
        assert view(torch.Tensor()).protocol == "dlpack" and torch.table.calls == []


@pytest.mark.parametrize("where", ["class", "object"])
def test_a_torch_subclass_that_changes_later(torch, capsules, where):
    kind = type("Sub", (torch.Tensor,), {})
    tensor = kind()
    assert view(tensor).shape == (2, 3)
    own = lambda *_, **options: producers.Tensor(shape=(7,)).capsule()  # noqa: E731
    (kind if where == "class" else tensor).__dlpack__ = own
    assert view(tensor).shape == (7,)


def test_what_the_short_way_doubts(torch):
    view(torch.Tensor()), view(torch.Tensor())
    table, usual = torch.table, torch.table.tensor
    for turn in range(2):
        table.result = -1  # a failure without an exception: fields that were filled in before are ignored
        with pytest.raises(ProtocolError, match="dltensor_from_py_object_no_sync -1: failed without an exception"):
            view(torch.Tensor())
        table.result = 0
        table.tensor = lambda: bytes(8) + usual()[8:]  # as after storage.resize_(0)
        with pytest.raises(ProtocolError, match="is not an address of elements"):
            view(torch.Tensor())
        table.tensor = lambda: (
            usual()[:-16] + struct.pack("=QQ", ctypes.addressof(table.shape) + 8, 0)
        )  # strides elsewhere
        assert view(torch.Tensor()).strides == (12, 12)
        table.tensor = lambda: usual()[:-8] + struct.pack("=Q", 4)
        assert view(torch.Tensor()).ptr == ctypes.addressof(table.values) + 4
        table.tensor = usual
        table.shape[0] = 3 - turn  # extents that were not seen before
        assert view(torch.Tensor()).shape == (3 - turn, 3)
        table.shape[0] = -2
        with pytest.raises(ProtocolError, match="negative extent"):
            view(torch.Tensor())
        table.shape[0] = 2
        assert view(torch.Tensor()).shape == (2, 3)


@pytest.mark.parametrize("number, kind", [(2, "cuda"), (13, "cuda_managed")])
def test_4_9_the_stream_at_work(torch, monkeypatch, number, kind):
    settled = []
    cuda_side = module("gpu.for_arrays")
    monkeypatch.setattr(cuda_side, "finish_view", lambda made, stream: settled.append((made.stream, stream)))
    for handle, at_work in ((0, 1), (2, 2), (77, 77)):  # null is the legacy default stream
        table = Table(device=(number, 1), stream=handle)
        v = view(kind_of(table)(), protocol="dlpack_c_exchange", stream=2)
        assert v.device == (kind, 1) and table.calls[-1] == ("stream", number, 1) and settled.pop() == (at_work, 2)
        del v
    assert not settled
    view(kind_of(Table())(), protocol="dlpack_c_exchange")
    assert not settled  # host memory has no stream


def test_leaks(torch):
    tensor, thing = torch.Tensor(), kind_of(Table())()
    view(tensor), view(thing, protocol="dlpack_c_exchange")
    gc.collect()
    before = sys.getrefcount(tensor), sys.getrefcount(thing), len(gc.get_objects())
    for _ in range(1000):
        view(tensor), view(thing, protocol="dlpack_c_exchange")
        torch.table.calls.clear(), thing.table.calls.clear(), thing.table.out.clear()
    gc.collect()
    after = sys.getrefcount(tensor), sys.getrefcount(thing), len(gc.get_objects())
    assert after[:2] == before[:2] and after[2] - before[2] < 20 and thing.table.freed == 1001


@pytest.mark.parametrize("learnt", [False, True])
def test_a_tensor_that_gets_another_storage_while_it_is_read(torch, learnt):
    """`tensor.data = ...` in another thread does this: address and owner are of one storage, or the view is refused."""
    if learnt:
        view(torch.Tensor())
    others = [(ctypes.c_float * 6)(*[n] * 6) for n in range(3)]

    class Moving(Storage):
        def __init__(self, at):
            self.at = at

        def data_ptr(self):
            return ctypes.addressof(self.at)

        def nbytes(self):
            return ctypes.sizeof(self.at)

    table, tensor, usual = torch.table, torch.Tensor(), torch.table.values
    storages = [Moving(at) for at in others] + [Moving(usual)]
    tensor.untyped_storage = lambda: storages.pop(0) if len(storages) > 1 else storages[0]
    v = view(tensor)
    assert v.owner.at is usual and v.ptr == ctypes.addressof(usual)
    short = Moving((ctypes.c_float * 5).from_buffer(usual))  # the first element is in it, the last is not
    tensor.untyped_storage = lambda: short
    with pytest.raises(ProtocolError, match="is not in its storage"):
        view(tensor, protocol="dlpack_c_exchange")
    assert table.freed == 0


def test_an_address_that_is_no_table():
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells which memory can be read")
    for attribute in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        with pytest.raises(ProtocolError, match="must be a capsule"):
            view(type("Array", (), {attribute: 0x123456})(), protocol="dlpack_c_exchange")
