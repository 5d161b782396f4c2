"""Two copies in one process are independent: each treats the other as any other library."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from tests.conftest import Python

START = """
    import array, ctypes, gc, importlib, sys
    import first_copy as one, second_copy as two
    from first_copy.tools.commands import kernels

    values = array.array("f", [0.5 * i for i in range(1000)])
    doubled = array.array("f", [2 * x for x in values])

    def add(copy, a, b, c):
        "Launch c = a + b with one copy's own module; the arguments are whoever's."
        with copy.Device(0).load(kernels.VECTOR_ADD) as module:
            module["vector_add"].launch(a, b, c, len(values), grid=8, block=128)
            copy.synchronize()
"""
ONE_DRIVER = (
    START
    + """
    from first_copy.emulator import Emulator
    emulator = Emulator(devices=2)
    one.use(emulator)                             # as both would load the one libcuda of a machine
    two.use(emulator)
    device = one.Device(0)
"""
)
END = """
    gc.collect()
    for copy in (one, two):
        for primary in importlib.import_module(".gpu.core.context", copy.__name__)._contexts.values():
            primary.forget()                      # kernels of its own that a context keeps
        importlib.import_module(".ownership", copy.__name__).drain()
    left = {kind: count for kind, count in emulator.live_handles().items() if count and kind != "context"}
    assert not left, left
    assert not emulator.kept_exceptions, emulator.kept_exceptions
"""

Both = Callable[[str], None]


@pytest.fixture
def both(python: Python, site: Path) -> Both:
    """Run a snippet that can import both copies and not the original; fail if it fails."""

    def run(code: str) -> None:
        left_out = ("RAWCUDA_DRIVER", "RAWCUDA_EMULATOR", "PYTHONDONTWRITEBYTECODE")  # the next test has the bytecode
        result = python(code, env={"PYTHONPATH": str(site), **dict.fromkeys(left_out)})
        assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr

    return run


def test_each_has_an_emulator_of_its_own(both: Both) -> None:
    both(
        START
        + """
    for copy in (one, two):
        copy.use("emulator")
    assert one.cu.libcuda is not two.cu.libcuda
    for copy in (one, two, one):
        device = copy.Device(0)
        a, c = device.upload(values), device.empty(len(values), "float32")
        add(copy, a, a, c)
        assert c.tolist() == list(doubled)
    assert "rawcuda" not in sys.modules
    """
    )


def test_both_use_one_driver(both: Both) -> None:
    both(
        ONE_DRIVER
        + """
    results = []
    for copy in (one, two):
        a, c = copy.Device(0).upload(values), copy.Device(0).empty(len(values), "float32")
        add(copy, a, a, c)
        results.append(c.tolist())
        del a, c
    assert results == [list(doubled)] * 2
    """
        + END
    )


@pytest.mark.parametrize("exporter", ["memory", "view", "memory.view().reinterpret('float32')"])
def test_one_launches_on_memory_of_the_other(both: Both, exporter: str) -> None:
    both(
        ONE_DRIVER
        + f"""
    memory = device.allocate(4 * len(values))
    memory.copy_from(values)
    view = device.upload(values)
    a, c = {exporter}, two.Device(0).empty(len(values), "float32")
    add(two, a, a, c)
    assert c.tolist() == list(doubled)
    del a, c, view
    memory.close()
    """
        + END
    )


@pytest.mark.parametrize("protocol", ["dlpack", "cuda_array_interface"])
def test_one_views_device_memory_of_the_other(both: Both, protocol: str) -> None:
    both(
        ONE_DRIVER
        + f"""
    original = device.upload(values)
    view = two.view(original, protocol={protocol!r})
    assert (view.ptr, view.shape, view.strides, str(view.dtype), view.device) \\
        == (original.ptr, original.shape, original.strides, str(original.dtype), original.device)
    assert view.protocol == {protocol!r}
    part = view[1::3]
    assert part.tolist() == list(values)[1::3]
    back = one.view(part, protocol={protocol!r})
    assert back.ptr == part.ptr and back.strides == (12,)
    del original                                  # whoever drops first: the memory lives as long as a view of it
    gc.collect()
    assert back.tolist() == list(values)[1::3]
    del view, part, back
    """
        + END
    )


@pytest.mark.parametrize(
    "protocol, exporter",
    [
        ("dlpack", "one.view(values)"),
        ("array_interface", "one.view(values)"),
        ("buffer", "one.view(values).memoryview()"),
    ],
)
def test_one_views_host_memory_of_the_other_without_a_driver(both: Both, protocol: str, exporter: str) -> None:
    both(
        START
        + f"""
    view = two.view({exporter}, protocol={protocol!r})
    assert view.tolist() == list(values) and view.device == ("cpu", 0)
    view[5:6].fill(7)
    assert values[5] == 7
    assert not {{name for name in sys.modules if name.endswith("_copy.driver")}}
    """
    )


def test_copies_and_streams_cross(both: Both) -> None:
    both(
        ONE_DRIVER
        + """
    with device.stream() as stream, two.Device(0).stream() as other:
        a, b = device.upload(values), two.Device(0).empty(len(values), "float32")
        two.copy(b, a, stream=stream)             # the other's stream, by __cuda_stream__
        one.copy(a, b, stream=other)
        other.synchronize()
        stream.synchronize()
        assert b.tolist() == list(values) == a.tolist()
        assert two.view(a, stream=stream).tolist() == list(values)
        del a, b
    """
        + END
    )


def test_each_catches_the_others_errors_by_their_builtin_bases(both: Both) -> None:
    both(
        ONE_DRIVER
        + """
    import builtins
    from first_copy import errors as first
    from second_copy import errors as second
    assert first.RawCudaError is not second.RawCudaError
    for name in first.__all__:
        mine, theirs = getattr(first, name), getattr(second, name)
        if isinstance(mine, type):
            assert not issubclass(mine, second.RawCudaError), name
            bases = [[base for base in kind.__mro__ if base.__module__ == "builtins"] for kind in (mine, theirs)]
            assert bases[0] == bases[1]
            assert len(bases[0]) > 3 or name == "RawCudaError", name       # more than Exception, BaseException, object
    def no_such_kernel():
        with device.load(kernels.NOTHING) as loaded:
            loaded["no such kernel"]

    for expected, raising in (
            (ValueError, lambda: closed.ptr),
            (MemoryError, lambda: device.allocate(1 << 50)),
            (ValueError, lambda: one.cu.cuMemFree_v2(12345)),
            (KeyError, lambda: no_such_kernel()),
            (BufferError, lambda: one.view(values)[::-1].__dlpack__())):
        closed = device.allocate(16)
        closed.close()
        try:
            raising()
        except second.RawCudaError:
            raise AssertionError("the trees are one") from None
        except expected as error:
            assert isinstance(error, one.RawCudaError), error
        else:
            raise AssertionError(expected)
        del closed

    class Refusing:                   # the other copy's refusal is a BufferError: the next protocol is asked
        __array_interface__ = one.view(values).__array_interface__
        def __dlpack__(self, **asked):
            raise one.ProtocolError("not by this one")
        def __dlpack_device__(self):
            return 1, 0
    assert two.view(Refusing()).protocol == "array_interface"
    """
        + END
    )


def test_exports_to_each_other_may_outlive_the_interpreter(both: Both) -> None:
    both(
        ONE_DRIVER
        + """
    views = [two.view(device.upload(values)), one.view(two.Device(0).upload(values)), two.view(one.view(values))]
    capsules = [view.__dlpack__() for view in views]
    sys.modules["kept for later"] = views, capsules
    """
    )
