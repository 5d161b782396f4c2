"""Features of single libraries: labels of CUDA memory, extensions in C++, bits that change the values of a tensor."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest

from tests.interop.systems import CudaCore, Jax, Nanobind, NumPy, Torch, TvmFfi
from tests.null.producers import Exporter, Tensor
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
errors, dlpack = module("errors"), module("dlpack")
view, ProtocolError = rawcuda.view, errors.ProtocolError


def labelled():
    """View host memory that claims to be on CUDA device 0; without a driver, no library can tell the difference."""
    tensor = Tensor(device=(2, 0))
    return view(Exporter(tensor)), tensor


# -- host memory labelled CUDA


def test_cuda_core_takes_and_gives_labelled_memory():
    system = CudaCore().load()
    v, _ = labelled()
    theirs = system.takes(v)
    assert system.facts(theirs) == (v.ptr, (2, 3), (3, 1), False, (2, 0))
    for protocol in ("dlpack", "dlpack_c_exchange"):
        w = view(theirs, protocol=protocol)
        assert (w.device, w.ptr, w.shape, w.protocol) == (("cuda", 0), v.ptr, (2, 3), protocol)
    with pytest.raises(errors.ProtocolError, match="does not offer"):
        view(theirs, protocol="buffer")


def test_tvm_ffi_takes_and_gives_labelled_memory():
    system = TvmFfi().load()
    v, tensor = labelled()
    theirs = system.takes(v)
    assert system.facts(theirs)[-1] == (2, 0) and view(theirs).device == ("cuda", 0) and view(theirs).ptr == v.ptr
    del theirs, v
    gc.collect()
    assert tensor.freed == 1


def test_mpi4py_takes_every_protocol():
    pytest.importorskip("mpi4py")
    import mpi4py

    mpi4py.rc.initialize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"mpi4py finds no MPI: {error}")
    a = numpy.arange(6, dtype="f4").reshape(2, 3)
    host, (device, _) = view(a), labelled()
    for v in (host, device):
        memory = MPI.buffer(v)
        assert (memory.address, memory.nbytes, memory.readonly) == (v.ptr, 24, False)
        if v is host:
            assert bytes(memory) == a.tobytes()
    readonly = MPI.buffer(view(b"abcdef"))
    assert readonly.readonly and bytes(readonly) == b"abcdef"

    class OnlyCuda:
        """A proxy with only the CUDA array interface, which mpi4py tries last."""

        def __init__(self, v):
            self.__cuda_array_interface__ = v.__cuda_array_interface__

    memory = MPI.buffer(OnlyCuda(device))
    assert (memory.address, memory.nbytes, memory.readonly) == (device.ptr, 24, False)
    with pytest.raises(BufferError):
        MPI.buffer(view(a)[:, ::2])  # contiguous memory only
    given = MPI.buffer.allocate(8) if hasattr(MPI.buffer, "allocate") else None
    if given is not None:
        given[:] = bytes(range(8))
        assert view(given).tolist() == list(range(8))
    before = sys.getrefcount(host)
    for _ in range(1000):
        MPI.buffer(host)
    gc.collect()
    assert sys.getrefcount(host) == before


# -- nanobind


@pytest.fixture(scope="module")
def extension():
    return Nanobind().load().module


@pytest.mark.parametrize(
    "layout",
    [lambda a: a, lambda a: a.T, lambda a: a[:, ::2], lambda a: a[1:, 1:], lambda a: a[0, 0, ...], lambda a: a[:0]],
)
def test_nanobind_takes_ours(extension, layout):
    a = layout(numpy.arange(12, dtype="f4").reshape(3, 4))
    v = view(a, protocol="array_interface")
    for taken in (extension.facts(v), extension.facts_ro(v)):
        address, shape, strides, kind, ordinal, code, bits = taken
        assert (shape, kind, ordinal, code, bits) == (a.shape, 1, 0, 2, 32) and (address == v.ptr or not a.size)
        assert not a.size or [s for n, s in zip(shape, strides) if n > 1] == [
            s for n, s in zip(v.shape, v.element_strides) if n > 1
        ]


def test_nanobind_and_read_only(extension):
    v = view(b"abcd")
    assert extension.facts_ro(v)[1] == (4,)
    with pytest.raises(TypeError):
        extension.facts(v)  # it requires write access
    before = len(dlpack.outstanding)
    extension.facts_ro(v)
    gc.collect()
    assert len(dlpack.outstanding) == before


def test_nanobinds_constraints_see_our_layouts(extension):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v = view(a, protocol="array_interface")
    assert (
        extension.total(v)
        == sum(a[i, j] * (10.0 * i + j) for i in range(3) for j in range(4))
        == extension.total(v.T.T)
    )
    assert extension.total(v[:, ::2]) == sum(a[i, 2 * j] * (10.0 * i + j) for i in range(3) for j in range(2))
    for takes, yes, no in ((extension.facts_c, v, v.T), (extension.facts_f, v.T, v), (extension.facts_shape, v, v[:2])):
        assert takes(yes)[0] == v.ptr
        with pytest.raises(TypeError):
            takes(no)
    with pytest.raises(TypeError):
        extension.facts_c(view(a.astype("f8")))  # no conversion unless it is allowed
    extension.fill(v[1], 5.0)
    assert a[1].tolist() == [5.0] * 4
    for refused in (v, view(a.astype("f8"))[0], view(b"abcd").reinterpret("float32")):
        with pytest.raises(TypeError):
            extension.fill(refused, 1.0)


def test_nanobind_gives_to_us(extension):
    made = extension.made(5)
    v = view(made)
    assert v.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] and v.device == ("cpu", 0) and not v.readonly
    del made
    gc.collect()
    assert v.tolist()[4] == 4.0
    values = (ctypes.c_float * 4)(1, 2, 3, 4)
    capsule = extension.capsule(ctypes.addressof(values), 4)  # if no framework is named, nanobind returns a capsule
    w = view(capsule)
    assert w.tolist() == [1.0, 2.0, 3.0, 4.0] and w.readonly  # as from any legacy capsule
    with pytest.raises(ProtocolError, match="consumed"):
        view(capsule)
    a = numpy.arange(6, dtype="f4").reshape(2, 3)
    back = extension.identity(view(a, protocol="array_interface"))
    w = view(back)
    assert w.tolist() == a.tolist() and w.ptr == a.ctypes.data


def test_nanobind_takes_and_gives_labelled_memory(extension):
    v, _ = labelled()
    address, shape, strides, kind, ordinal, code, bits = extension.facts_cuda(v)
    assert (address, shape, strides, kind, ordinal) == (v.ptr, (2, 3), (3, 1), 2, 0)
    with pytest.raises(TypeError):
        extension.facts_cuda(view(numpy.zeros(3, "f4")))
    values = (ctypes.c_float * 4)(1, 2, 3, 4)
    theirs = extension.labelled(ctypes.addressof(values), 4)
    w = view(theirs)
    assert w.device == ("cuda", 0) and w.ptr == ctypes.addressof(values)


def test_nanobind_drops_ours_with_an_exception_pending(extension):
    v = view(numpy.arange(6, dtype="f4"), protocol="array_interface")
    before = len(dlpack.outstanding)
    for _ in range(100):
        with pytest.raises(TypeError):
            extension.facts_cuda(v)
        with pytest.raises(TypeError):
            extension.facts(v, 1)
    gc.collect()
    assert len(dlpack.outstanding) == before


# -- torch


def test_torch_tensors_whose_memory_is_not_what_they_say():
    torch = Torch().load().module
    conjugate = torch.tensor([1 + 2j, 3 + 4j]).conj()
    for tensor, field in (
        (torch.zeros(3, requires_grad=True), "requires_grad"),
        (conjugate, "is_conj"),
        (conjugate.imag, "is_neg"),
        (torch.zeros(3).to_sparse(), "layout"),
        (torch.nn.Parameter(torch.zeros(2)), "requires_grad"),
    ):
        for protocol in (None, "dlpack", "dlpack_c_exchange"):
            with pytest.raises(ProtocolError) as caught:
                view(tensor, protocol=protocol)
            assert caught.value.field == field
    assert view(conjugate.resolve_conj()).tolist() == [1 - 2j, 3 - 4j]
    assert view(conjugate.imag.resolve_neg()).tolist() == [-2.0, -4.0]
    with pytest.raises(RuntimeError, match="meta"):
        view(torch.zeros(3, device="meta"))  # its own error


def test_torch_by_its_table_and_by_python():
    torch = Torch().load().module

    class Mine(torch.Tensor):
        pass

    tensor = torch.arange(24.0).reshape(2, 3, 4)
    for taken in (
        tensor,
        tensor.transpose(0, 2),
        tensor[:, ::2],
        tensor[1, 2],
        tensor[1, 2, 3],
        tensor[:0],
        tensor.expand(2, 2, 3, 4),
    ):
        v, w = view(taken), view(taken, protocol="dlpack")
        assert (v.protocol, w.protocol) == ("dlpack_c_exchange", "dlpack")
        assert (v.shape, v.tolist()) == (tuple(taken.shape), taken.tolist()) == (w.shape, w.tolist())
        assert v.ptr == taken.data_ptr() or not taken.numel()
        assert [s for n, s in zip(v.shape, v.element_strides) if n > 1] == [
            s for n, s in zip(v.shape, taken.stride()) if n > 1
        ]
    assert view(tensor.as_subclass(Mine)).protocol == "dlpack"
    v = view(tensor)
    tensor.data = torch.zeros(1)  # the tensor moves to other memory, and ours stays
    gc.collect()
    assert v.tolist()[1][2] == [20.0, 21.0, 22.0, 23.0]


@pytest.mark.parametrize(
    "name",
    [
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float16",
        "bool",
        "uint16",
        "uint32",
        "uint64",
        "complex32",
        "complex64",
        "complex128",
        "float4_e2m1fn_x2",
    ],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_torchs_dtypes_both_ways(name):
    torch = Torch().load().module
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    tensor = torch.empty(4, dtype=dtype)
    v = view(tensor)
    assert str(v.dtype) == name.replace("fn_x2", "fnx2") and v.ptr == tensor.data_ptr()
    assert torch.from_dlpack(v).dtype is dtype and torch.from_dlpack(v).data_ptr() == v.ptr
    assert view(tensor, protocol="dlpack").dtype is v.dtype


def test_a_negative_stride_does_not_end_the_process(python):
    """2.16: torch up to 2.13 aborts on one, so our __dlpack__ refuses it."""
    Torch().load()
    result = python(
        """
        import torch, numpy
        from tests.subject import rawcuda
        v = rawcuda.view(numpy.arange(6.0))[::-1]
        try:
            torch.from_dlpack(v)
        except BufferError as error:
            print("negative" in str(error))
    """,
        env={"RAWCUDA_DRIVER": None},
        timeout=120,
    )
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr


# -- jax


def test_jax_gives_legacy_capsules_and_its_arrays_stay_read_only():
    jax = Jax().load().module
    array = jax.numpy.arange(6.0)
    v = view(array)
    assert v.readonly and v.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ProtocolError, match="readonly"):
        v.fill(0)
    assert not view(array, writable=True).readonly  # on purpose


def test_jax_takes_a_writable_copy_where_it_would_be_refused():
    jax = Jax().load().module
    with pytest.raises(BufferError, match="read-only"):
        jax.dlpack.from_dlpack(view(b"abcd"))
    assert jax.dlpack.from_dlpack(view(b"abcd").download()).tolist() == list(b"abcd")


# -- numpy, beyond the tests in tests/null


def test_array_api_strict_passes_every_keyword():
    strict = pytest.importorskip("array_api_strict")
    v = view(numpy.arange(6, dtype="f4"), protocol="array_interface")
    assert strict.from_dlpack(v, copy=False)._array.ctypes.data == v.ptr
    assert strict.from_dlpack(v, copy=True)._array.ctypes.data != v.ptr
    assert strict.from_dlpack(v, device=strict.Device("CPU_DEVICE"))._array.tolist() == v.tolist()


def test_one_array_goes_round_all_that_are_installed():
    import importlib.util

    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    current, route = view(a, protocol="array_interface"), []
    for kind in (NumPy, Torch, TvmFfi, CudaCore):
        if importlib.util.find_spec(kind.name.partition(".")[0]) is None:
            continue
        system = kind().load()
        current = view(system.takes(current))
        route.append(kind.name)
    assert current.ptr == a.ctypes.data and current.tolist() == a.tolist() and "numpy" in route
