"""Bugs in current releases of other libraries. If a library fixes its bug, a test here fails and reports that.

Each test has two halves. `ours` is a plain assertion. `still(...)` checks whether the other library still has the bug.
If it does not, remove the second half of the test, and name the version in docs/systems.md.
"""

from __future__ import annotations

import gc

import pytest

from tests.interop.systems import CudaCore, Dali, Jax, Nanobind, Only, Paddle, System, Torch, TvmFfi, Warp
from tests.null.producers import Exporter, Shows, Tensor, name_of
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
errors, cuda_array_interface = module("errors"), module("protocols.cuda_array_interface")
view, ProtocolError = rawcuda.view, errors.ProtocolError
LEGACY = b"dltensor"


def still(system: System, has_the_bug: bool, what: str) -> None:
    """Fail if a library no longer has a bug, so that the pages can be updated."""
    if not has_the_bug:
        pytest.fail(
            f"{system} {system.version} seems to have fixed this: {what}. "
            "Say so in docs/systems.md, and take this half of the test out"
        )


def locked():
    a = numpy.arange(4, dtype="f4")
    a.flags.writeable = False
    return a


# -- 1. a read-only array becomes writable through a legacy capsule


def test_1_ours_never_puts_read_only_memory_into_a_legacy_capsule():
    for v in (view(locked()), view(b"abcd"), view(numpy.arange(4.0)).broadcast_to((2, 4))):
        with pytest.raises(ProtocolError, match="read-only"):
            v.__dlpack__()
        assert name_of(v.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"


@pytest.mark.parametrize("kind", [CudaCore, Nanobind], ids=["cuda.core", "nanobind"])
def test_1_what_they_launder_stays_read_only_here(kind):
    system = kind().load()
    a = locked()
    theirs = system.takes(view(a, protocol="array_interface"))
    exporter = system.exporter(theirs)
    assert view(exporter).readonly and view(exporter, protocol="dlpack").readonly
    assert view(exporter.__dlpack__()).readonly  # a legacy capsule does not tell, so the array counts as read-only
    still(system, name_of(exporter.__dlpack__()) == LEGACY, "no read-only memory in a legacy capsule")


def test_1_torch_writes_into_what_was_laundered():
    torch, system = Torch().load(), CudaCore()
    try:
        system.load()
    except pytest.skip.Exception:
        system = torch
    a = numpy.arange(4, dtype="f4")
    v = view(a).broadcast_to((2, 4))[0]  # read-only, and still written to
    theirs = torch.module.from_dlpack(v)  # it ignores the flag of a versioned capsule
    theirs[0] = 9.0
    still(torch, a[0] == 9.0, "torch minds the read-only flag")
    with pytest.raises(ProtocolError, match="readonly"):
        v.fill(1)


def test_1_tvm_ffi_forgets_the_flag():
    system = TvmFfi().load()
    theirs = system.takes(view(locked()))
    still(
        system,
        not view(theirs, protocol="dlpack").readonly,
        "tvm-ffi keeps the read-only flag of an exchange table's tensor",
    )


# -- 2. __dlpack_device__ used instead of the device in the capsule


def test_2_a_capsule_that_contradicts_the_device_is_refused():
    liar = Exporter(Tensor(device=(1, 0)), says=(2, 0))
    with pytest.raises(ProtocolError) as caught:
        view(liar, stream=-1)
    assert caught.value.field == "__dlpack_device__"
    del caught  # its traceback keeps the capsule alive
    gc.collect()
    assert liar.tensor.freed == 1
    system = CudaCore().load()
    theirs = system.takes(Exporter(Tensor(device=(1, 0)), says=(2, 0)))
    still(system, theirs.is_device_accessible, "cuda.core believes the capsule")


# -- 3. another major version


def test_3_a_capsule_of_major_version_2_is_refused():
    exporter = Exporter(Tensor(version=(2, 0)))
    with pytest.raises(ProtocolError) as caught:
        view(exporter)
    assert caught.value.field == "version.major"
    del caught
    gc.collect()
    assert exporter.tensor.freed == 1
    system = CudaCore().load()
    try:
        system.takes(Exporter(Tensor(version=(2, 0))))
    except Exception:
        still(system, False, "cuda.core refuses major version 2")


# -- 4. byte_offset ignored


def test_4_the_byte_offset_is_honoured():
    def tensor():
        return Exporter(Tensor(version=None, shape=(2, 2), strides=(3, 1), byte_offset=8), knows=("stream",))

    assert view(tensor()).tolist() == [[2.0, 3.0], [5.0, 6.0]]
    system = Warp().load()
    still(system, system.numbers(system.takes(tensor())) == [[0.0, 1.0], [3.0, 4.0]], "Warp honours byte_offset")


# -- 5. CAI strides as a list, 0-d, stream, mask and read-only in Warp


def test_5_array_interfaces_as_others_write_them():
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    given = {**a.__array_interface__, "strides": [16, 4], "shape": [3, 4]}
    assert view(Shows(host=given), protocol="array_interface").tolist() == a.tolist()
    assert cuda_array_interface.describe(Shows(cuda=given)).strides == (16, 4)
    assert cuda_array_interface.describe(Shows(cuda={**given, "shape": (), "strides": None})).shape == ()
    assert cuda_array_interface.describe(Shows(cuda={**given, "data": (given["data"][0], True)}))._place.readonly
    with pytest.raises(ProtocolError, match="mask"):
        cuda_array_interface.describe(Shows(cuda={**given, "mask": a}))
    system = Warp().load()
    row = locked()
    theirs = system.module.array(Only(view(row), "__array_interface__"), copy=False, device="cpu")
    theirs.fill_(7.0)
    still(system, row.tolist() == [7.0] * 4, "Warp minds the read-only flag of an array interface")
    theirs = system.module.array(Only(view(a)[1, 2, ...].reshape(()), "__array_interface__"), copy=False, device="cpu")
    still(system, tuple(theirs.shape) == (1,), "Warp has arrays of no dimensions")


# -- 6. a driver needed for host memory; CAI v2 refused


def test_6_host_memory_needs_no_driver(python, pytestconfig):
    a = numpy.arange(6.0)
    assert view(Only(view(a), "__array_interface__"), protocol="array_interface").tolist() == a.tolist()
    result = python(
        """
        import array
        from tests.subject import rawcuda, module
        v = rawcuda.view(array.array("f", [1, 2, 3]), stream=7)
        assert v.tolist() == [1, 2, 3] and not module("driver").is_loaded()
    """,
        env={"RAWCUDA_DRIVER": "/no/such/libcuda.so"},
    )
    assert result.returncode == 0, result.stderr
    for version in (0, 1, 2):
        given = {**a.__array_interface__, "version": version}
        assert cuda_array_interface.describe(Shows(cuda=given)).shape == (6,)
    with pytest.raises(ProtocolError, match="stream"):
        cuda_array_interface.describe(Shows(cuda={**given, "version": 3, "stream": 0}))
    system = CudaCore().load()
    kind = system.module.StridedMemoryView
    try:
        kind.from_array_interface(Only(view(a), "__array_interface__"))
    except Exception as error:
        assert "driver" in str(error).lower() or "cuda" in str(error).lower()
    else:
        if pytestconfig.getoption("driver") != "nvidia":
            still(system, False, "cuda.core needs no driver for an array interface of host memory")
    with pytest.raises(BufferError, match="v3"):
        kind.from_cuda_array_interface(Shows(cuda={**a.__array_interface__, "version": 2}), -1)


# -- 7. the negative bit


def test_7_tensors_that_are_not_what_their_memory_says():
    system = Torch().load()
    torch = system.module
    tensor = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert tensor.tolist() == [-2.0, -4.0]
    for protocol in (None, "dlpack", "dlpack_c_exchange"):
        with pytest.raises(ProtocolError) as caught:
            view(tensor, protocol=protocol)
        assert caught.value.field == "is_neg"
    assert view(tensor.resolve_neg()).tolist() == [-2.0, -4.0]
    still(
        system,
        numpy.from_dlpack(tensor).tolist() == [2.0, 4.0],
        "torch refuses, or resolves, the negative bit in __dlpack__",
    )


# -- 8. immutable arrays in capsules that cannot be marked as read-only


def test_8_a_legacy_capsule_counts_as_read_only():
    assert (
        view(Exporter(Tensor(version=None))).readonly
        and not view(Exporter(Tensor(version=None)), writable=True).readonly
    )
    system = Jax().load()
    array = system.module.numpy.arange(3.0)
    assert view(array).readonly
    still(system, name_of(array.__dlpack__(max_version=(1, 3))) == LEGACY, "JAX gives versioned capsules")


# -- 9. typestr in struct syntax; bfloat16 as two bytes


def test_9_typestr_in_struct_syntax_and_bfloat16_as_bytes():
    a = numpy.arange(3, dtype="f4")
    assert view(Shows(host={**a.__array_interface__, "typestr": "=f"}), protocol="array_interface").dtype == "float32"
    two = view(
        Shows(host={**a.astype("u2").__array_interface__, "typestr": "<V2", "descr": [("", "<V2")]}),
        protocol="array_interface",
    )
    assert str(two.dtype) == "|V2" and two.dtype != "float16"
    system = Dali().load()
    theirs = system.made_from(a)
    assert view(theirs, protocol="array_interface").tolist() == a.tolist()
    still(system, theirs.__array_interface__["typestr"] == "=f", "DALI writes typestr as the specification has it")


def test_9_torchs_bfloat16_comes_with_its_name():
    torch = Torch().load().module
    assert str(view(torch.zeros(3, dtype=torch.bfloat16)).dtype) == "bfloat16"


# -- 10. a negative stride terminates the process in torch


def test_10_a_negative_stride_is_refused_before_it_ends_the_process(python):
    v = view(numpy.arange(6.0))[::-1]
    with pytest.raises(ProtocolError, match="negative"):
        v.__dlpack__(max_version=(1, 3))
    assert numpy.asarray(v).tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]  # the other protocols work
    system = Torch().load()
    result = python(
        """
        import torch
        from tests.null.producers import Exporter, Tensor
        torch.from_dlpack(Exporter(Tensor(shape=(3,), strides=(-1,), byte_offset=16)))
    """,
        env={"RAWCUDA_DRIVER": None},
        timeout=120,
    )
    still(system, result.returncode < 0, "torch survives a negative stride")


# -- bugs that these tests found


def test_11_paddle_never_frees_what_it_takes():
    system = Paddle().load()
    tensor = Tensor()
    theirs = system.takes(Exporter(tensor))
    del theirs
    gc.collect()
    still(system, tensor.freed == 0, "Paddle calls the deleter of what it takes")


def test_12_dali_takes_complex_numbers_for_real_ones():
    system = Dali().load()
    theirs = system.module.TensorCPU(numpy.array([1 + 2j, 3 + 4j], "c8"), "")
    still(system, str(view(theirs).dtype) == "float32", "DALI refuses, or has, complex numbers")
