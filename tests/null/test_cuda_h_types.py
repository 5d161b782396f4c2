"""The types of cuda_h pass arguments to a driver, or refuse them: each function is called as libcuda would be."""

import ctypes

import pytest

from tests.shared import together
from tests.subject import module

cuda_h = module("headers.cuda_h")

c_types = module("headers.c_types")

HANDLES = [name for name in cuda_h.HEADER.names() if issubclass(getattr(cuda_h, name), cuda_h.Handle)]


def through(symbol, *arguments):
    """Call a Python function by a prototype, as driver.py calls libcuda; return the arguments that it got."""
    prototype, arrived = cuda_h.prototypes()[symbol], []
    listener = ctypes.CFUNCTYPE(ctypes.c_int, *prototype.machine_types)(lambda *got: arrived.extend(got) or 0)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *(kind for _, kind in prototype.parameters))(
        ctypes.cast(listener, ctypes.c_void_p).value
    )
    assert function(*arguments) == 0
    return arrived


def _samples(kind):
    """Yield (argument, the value that must arrive) for a parameter type."""
    if issubclass(kind, cuda_h.Integer):
        yield from ((value, value) for value in (0, 1, kind.low, kind.high))
    elif issubclass(kind, ctypes.c_float):
        yield from [(0, 0.0), (-1.5, -1.5), (ctypes.c_float(2), 2.0)]
    elif issubclass(kind, cuda_h.Handle):
        yield from [(None, None), (kind(2**63 + 5), 2**63 + 5)]
    elif issubclass(kind, ctypes.Structure):
        value = kind.from_buffer_copy(bytes(range(1, ctypes.sizeof(kind) + 1)))
        yield value, bytes(value)
    elif issubclass(kind, ctypes._Pointer):
        value, array, at = kind._type_(), (kind._type_ * 3)(), ctypes.addressof
        yield from [
            (None, None),
            (ctypes.byref(value), at(value)),
            (ctypes.pointer(value), at(value)),
            (array, at(array)),
        ]
    elif issubclass(kind, c_types.String):
        yield None, None
        array = ctypes.create_string_buffer(b"abc")
        yield array, ctypes.addressof(array)
    else:
        yield from [(None, None), (2**64 - 1, 2**64 - 1), (4096, 4096)]


@together("symbol", cuda_h.prototypes())
def test_every_argument_arrives(symbol):
    samples = [list(_samples(kind)) for _, kind in cuda_h.prototypes()[symbol].parameters]
    for turn in range(max(map(len, samples), default=1)):
        chosen = [of_one[turn % len(of_one)] for of_one in samples]
        arrived = through(symbol, *(argument for argument, _ in chosen))
        arrived = [bytes(got) if isinstance(got, ctypes.Structure) else got for got in arrived]
        assert arrived == [wanted for _, wanted in chosen]


class Index:
    """An object with __index__, as NumPy's integers."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


INTEGERS = {  # a symbol with one such parameter, the rest of its arguments left out
    "int": ("cuDeviceGet", lambda x: (None, x), -(2**31), 2**31 - 1),
    "unsigned int": ("cuInit", lambda x: (x,), 0, 2**32 - 1),
    "size_t": ("cuMemAlloc_v2", lambda x: (None, x), 0, 2**64 - 1),
    "unsigned long long": ("cuGraphInstantiateWithFlags", lambda x: (None, None, x), 0, 2**64 - 1),
    "unsigned char": ("cuMemsetD8_v2", lambda x: (0, x, 0), 0, 2**8 - 1),
    "unsigned short": ("cuMemsetD16_v2", lambda x: (0, x, 0), 0, 2**16 - 1),
    "CUdeviceptr": ("cuMemFree_v2", lambda x: (x,), 0, 2**64 - 1),
    "CUdevice": ("cuDevicePrimaryCtxRelease_v2", lambda x: (x,), -(2**31), 2**31 - 1),
    "an enum": ("cuCtxGetLimit", lambda x: (None, x), 0, 2**32 - 1),
}


@pytest.mark.parametrize("c_name", INTEGERS)
def test_an_integer_of_its_range_only(c_name):
    symbol, arguments, low, high = INTEGERS[c_name]
    for value in (low, high, 1):
        assert value in through(symbol, *arguments(value)) and value in through(symbol, *arguments(Index(value)))
    for value in {low - 1, high + 1, 2**64, -(2**63) - 1, Index(high + 1)}:
        with pytest.raises(ctypes.ArgumentError, match=f"ValueError.*does not fit: {c_name} holds {low} to {high}"):
            through(symbol, *arguments(value))
    with pytest.raises(ctypes.ArgumentError, match="an integer of 20001 bits does not fit"):
        through(symbol, *arguments(2**20000))


@pytest.mark.parametrize("c_name", INTEGERS)
@pytest.mark.parametrize(
    "value, shown",
    [
        (True, "True"),
        (False, "False"),
        (None, "None"),
        (1.0, "1.0"),
        ("1", "a str"),
        (b"1", "a bytes"),
        ([1], "a list"),
        (cuda_h.CUstream(1), "a CUstream"),
        (ctypes.c_bool(True), "a c_bool"),
        (ctypes.c_void_p(1), "a c_void_p"),
    ],
)
def test_what_is_no_integer_is_refused(c_name, value, shown):
    symbol, arguments, _, _ = INTEGERS[c_name]
    with pytest.raises(ctypes.ArgumentError, match=f"TypeError.*{c_name} takes an integer, not {shown}"):
        through(symbol, *arguments(value))


def test_a_ctypes_integer_of_the_same_width():
    assert through("cuMemAlloc_v2", None, ctypes.c_size_t(7)) == [None, 7]
    assert through("cuMemAlloc_v2", None, ctypes.c_int64(7)) == [None, 7]
    assert through("cuMemFree_v2", cuda_h.CUdeviceptr(2**50)) == [2**50]
    assert through("cuInit", ctypes.c_uint(7)) == through("cuInit", ctypes.c_int(7)) == [7]
    for symbol, arguments, value in [
        ("cuMemAlloc_v2", (None,), ctypes.c_int(7)),
        ("cuInit", (), ctypes.c_size_t(7)),
        ("cuInit", (), ctypes.c_ubyte(7)),
    ]:
        with pytest.raises(ctypes.ArgumentError, match="TypeError"):
            through(symbol, *arguments, value)
    with pytest.raises(ctypes.ArgumentError, match="ValueError.*-1 does not fit"):
        through("cuInit", ctypes.c_int(-1))


def test_numpy_integers():
    numpy = pytest.importorskip("numpy")
    assert through("cuMemAlloc_v2", None, numpy.uint8(200)) == [None, 200]
    for value in (numpy.float64(1), numpy.bool_(True), numpy.array([1, 2])):
        with pytest.raises(ctypes.ArgumentError, match="TypeError"):
            through("cuMemAlloc_v2", None, value)


@pytest.mark.parametrize("name", HANDLES)
def test_a_handle_takes_its_own_kind_only(name):
    kind = getattr(cuda_h, name)
    own = kind(4096)
    assert kind.from_param(own) is own and kind.from_param(None) is None
    assert repr(own) == f"{name}(0x1000)" and repr(kind()) == f"{name}(0x0)"
    other = cuda_h.CUevent if kind is not cuda_h.CUevent else cuda_h.CUstream
    for value in (
        other(4096),
        ctypes.c_void_p(4096),
        cuda_h.Handle(4096),
        "x",
        b"x",
        True,
        1.5,
        ctypes.c_uint64(4096),
        ctypes.byref(own),
        type(name, (kind,), {})(1),
    ):
        with pytest.raises(TypeError, match=f"this takes a {name} or None, not"):
            kind.from_param(value)
    with pytest.raises(
        TypeError, match=rf"this takes a {name} or None, not 4096: if this is one, write {name}\(0x1000\)"
    ):
        kind.from_param(4096)


def test_a_handle_in_a_call():
    assert through("cuStreamQuery", cuda_h.CUstream(cuda_h.CU_STREAM_LEGACY)) == [1]
    for value in (cuda_h.CUevent(1), 1, 0, "1"):
        with pytest.raises(ctypes.ArgumentError, match="this takes a CUstream or None"):
            through("cuStreamQuery", value)


def test_a_result_goes_where_its_type_fits():
    for wrong in (ctypes.byref(cuda_h.CUevent()), ctypes.byref(ctypes.c_void_p()), cuda_h.CUevent(), 4096, b"x" * 8):
        with pytest.raises(ctypes.ArgumentError):
            through("cuStreamCreate", wrong, 0)
    for wrong in (ctypes.byref(ctypes.c_uint()), ctypes.byref(ctypes.c_int()), (ctypes.c_uint * 2)(), 4096):
        with pytest.raises(ctypes.ArgumentError):
            through("cuMemAlloc_v2", wrong, 1)
    pointer = cuda_h.CUdeviceptr()
    assert through("cuMemAlloc_v2", ctypes.byref(pointer), 1) == [ctypes.addressof(pointer), 1]


def test_a_structure_is_its_own_type():
    right = cuda_h.CUmemLocation(1, 0)
    assert [
        bytes(got) if isinstance(got, ctypes.Structure) else got for got in through("cuMemAdvise_v2", 4096, 1, 1, right)
    ] == [4096, 1, 1, bytes(right)]
    for wrong in (cuda_h.CUuuid(), 1, None):
        with pytest.raises(ctypes.ArgumentError):
            through("cuMemAdvise_v2", 4096, 1, 1, wrong)
    with pytest.raises(ctypes.ArgumentError):
        through("cuMemcpy2D_v2", ctypes.byref(cuda_h.CUDA_MEMCPY3D()))


def test_an_address_or_what_has_one():
    array, single = (ctypes.c_int * 4)(), ctypes.c_double()
    at = ctypes.addressof
    for value, address in [
        (None, None),
        (0, None),
        (4096, 4096),
        (Index(4096), 4096),
        (ctypes.c_void_p(4096), 4096),
        (array, at(array)),
        (ctypes.byref(array, 8), at(array) + 8),
        (ctypes.byref(single), at(single)),
        (ctypes.pointer(single), at(single)),
    ]:
        assert through("cuMemcpyDtoH_v2", value, 1, 2) == [address, 1, 2]
        assert through("cuMemcpyHtoD_v2", 1, value, 2) == [1, address, 2]


def test_bytes_are_read_only():
    data = b"some\0data"
    [_, address, _] = through("cuMemcpyHtoD_v2", 1, data, 9)
    assert ctypes.string_at(address, 9) == data
    with pytest.raises(ctypes.ArgumentError, match="TypeError.*bytes cannot be written to"):
        through("cuMemcpyDtoH_v2", data, 1, 9)
    with pytest.raises(ctypes.ArgumentError, match="TypeError.*bytes cannot be written to"):
        through("cuMemcpyDtoH_v2", type("Bytes", (bytes,), {})(data), 1, 9)


@pytest.mark.parametrize("value", ["text", True, 1.5, [1], bytearray(4), cuda_h.CUstream(1), ctypes.c_int(5)], ids=repr)
def test_what_has_no_address_is_refused(value):
    for arguments in [("cuMemcpyDtoH_v2", value, 1, 2), ("cuMemcpyHtoD_v2", 1, value, 2)]:
        with pytest.raises(ctypes.ArgumentError, match="TypeError.*this takes an address, None.*, not "):
            through(*arguments)


@pytest.mark.parametrize("value", [-1, 2**64, -(2**20000)], ids=["negative", "65 bits", "long"])
def test_an_impossible_address_is_refused(value):
    with pytest.raises(ctypes.ArgumentError, match="ValueError.*is not an address"):
        through("cuMemcpyDtoH_v2", value, 1, 2)


def test_an_array_is_no_address():
    numpy = pytest.importorskip("numpy")
    assert through("cuMemcpyHtoD_v2", 1, numpy.uint64(2**63), 8) == [1, 2**63, 8]
    for value in (numpy.array(4096), numpy.array([4096])):
        with pytest.raises(ctypes.ArgumentError, match="TypeError.*not a ndarray|TypeError.*not an ndarray"):
            through("cuMemcpyHtoD_v2", 1, value, 8)


def test_a_string_is_bytes():
    [_, _, address] = through("cuModuleGetFunction", None, None, b"kernel")
    assert address and through("cuModuleGetFunction", None, None, None) == [None, None, None]
    assert through("cuModuleGetFunction", None, None, b"kernel\0")[2]
    with pytest.raises(ctypes.ArgumentError, match="ValueError.*has a zero byte inside"):
        through("cuModuleGetFunction", None, None, b"ker\0nel")
    with pytest.raises(ctypes.ArgumentError, match=r"TypeError.*use its \.encode\(\)"):
        through("cuModuleGetFunction", None, None, "kernel")
    for value in (1, 4096, ctypes.c_void_p(1), bytearray(b"kernel")):
        with pytest.raises(ctypes.ArgumentError, match="TypeError"):
            through("cuModuleGetFunction", None, None, value)


def test_a_callback():
    called = []
    function = cuda_h.CUhostFn(called.append)
    [_, address, data] = through("cuLaunchHostFunc", None, function, 4096)
    cuda_h.CUhostFn(address)(data)
    assert called == [4096]
    assert through("cuLaunchHostFunc", None, address, None) == [None, address, None]
    for value in (called.append, cuda_h.CUoccupancyB2DSize(lambda size: 0), b"x", True, ctypes.c_void_p(address)):
        with pytest.raises(
            ctypes.ArgumentError, match=r"TypeError.*a function made with CUhostFn\(\.\.\.\), its address or"
        ):
            through("cuLaunchHostFunc", None, value, None)
    with pytest.raises(ctypes.ArgumentError, match="ValueError.*-1 is not an address"):
        through("cuLaunchHostFunc", None, -1, None)
    assert through("cuOccupancyMaxPotentialBlockSize", None, None, None, None, 0, 0)[3] is None
