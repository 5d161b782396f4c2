"""Each library takes our views and gives us arrays: values, shape, strides, flags, device and lifetime are right."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

from tests.interop.exchanges import PROTOCOLS, made, other, took
from tests.interop.systems import ELSEWHERE, HERE, KINDS, LAYOUTS, SYSTEMS, System
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
dlpack = module("dlpack")
view = rawcuda.view


@pytest.fixture(params=HERE, ids=lambda kind: kind.name)
def system(request: pytest.FixtureRequest) -> System:
    """One library after the other."""
    loaded: System = request.param().load()
    return loaded


@pytest.mark.parametrize("large", [False, True])
def test_what_is_not_installed_is_told(large):
    absent = [kind.project or kind.name for kind in SYSTEMS if kind not in HERE and kind.large == large]
    if absent:
        pytest.skip(
            f"not installed here: {', '.join(absent)}"
            + (f"; {ELSEWHERE.replace('has it', 'has them')}" if large else "")
        )


@pytest.fixture(autouse=True)
def nothing_left_out(request: pytest.FixtureRequest) -> Any:
    """Check that every tensor that a test exported was freed."""
    leaks = "system" in request.fixturenames and request.getfixturevalue("system").leaks
    gc.collect()
    before = len(dlpack.outstanding)
    yield
    gc.collect()
    assert len(dlpack.outstanding) == before or leaks


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ours_goes_there_or_is_refused(system, layout):
    a, v = made(layout)
    if layout == "broadcast" and "readonly" in system.refuses or KINDS.get(layout) in system.refuses:
        with pytest.raises(Exception):  # noqa: B017
            system.takes(v)
        return
    outcome = took(system, system.takes, a, v)
    assert (
        outcome == "yes" or outcome == "copy" and (system.copies or system.name == "jax")
    )  # (it copies memory with a smaller alignment)


def test_theirs_comes_here(system):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    theirs = system.made_from(a)
    v = view(theirs)
    if system.flat:
        assert bytes(v.memoryview()) == a.tobytes()
        return
    _, shape, strides, readonly, device = system.facts(theirs)
    assert v.tolist() == a.tolist() and v.shape == shape and v.dtype == "float32" and v.__dlpack_device__() == device
    assert strides is None or v.element_strides == tuple(strides)
    told = system.name.startswith("nvidia.dali")  # the array interface tells what the legacy capsule does not
    assert v.readonly == (system.gives_legacy and not told if readonly is None else readonly)
    assert v.protocol == ("dlpack_c_exchange" if system.name == "torch" else "dlpack")
    assert view(theirs, protocol="dlpack").tolist() == a.tolist()
    del v


def test_read_only_goes_there_or_is_refused(system):
    v = view(b"abcdef")
    if "readonly" in system.refuses:
        with pytest.raises(BufferError, match="read-only"):
            system.takes(v)
        return
    theirs = system.takes(v)
    readonly = system.facts(theirs)[3]
    assert readonly in (True, None)
    back = view(system.exporter(theirs))
    assert bytes(back.memoryview()) == b"abcdef"
    del theirs, back


def test_what_they_write_we_read_and_the_other_way_round(system):
    if system.copies or system.flat or system.immutable:
        pytest.skip(f"{system} shares no writable memory")
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v = view(a, protocol="array_interface")
    theirs = system.takes(v)
    v[1, 2] = 99.0
    assert system.numbers(theirs)[1][2] == 99.0 == a[1, 2]
    given = system.made_from(a.copy())
    w = view(given, writable=True)
    w[2, 3] = 77.0
    assert system.numbers(given)[2][3] == 77.0


def test_the_memory_lives_as_long_as_either_side(system):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    expected = a.ravel().tolist() if system.flat else a.tolist()
    before = sys.getrefcount(a)
    theirs = system.takes(view(a, protocol="array_interface"))
    gc.collect()
    assert system.numbers(theirs) == expected  # our view is released, but its memory is not
    thread = threading.Thread(target=lambda box: box.clear(), args=([theirs],))
    del theirs
    thread.start()
    thread.join()  # another thread drops the last reference
    del thread
    gc.collect()
    assert sys.getrefcount(a) == before or system.leaks
    if system.name == "pyarrow":
        system = other(system, "dlpack")
    theirs = system.made_from(a)
    v = view(theirs)
    expected = v.tolist()
    del theirs
    gc.collect()
    churn = [numpy.full(12, 5, "f4") for _ in range(200)]
    assert v.tolist() == expected and churn  # the library's array is released, but its memory is not
    thread = threading.Thread(target=lambda box: box.clear(), args=([v],))
    del v
    thread.start()
    thread.join()


def test_an_exception_on_its_way_survives_their_dropping_our_tensor(system):
    v = view(numpy.arange(6, dtype="f4"), protocol="array_interface")
    for _ in range(50):
        with pytest.raises(AttributeError):
            system.takes(v).no_such_attribute
        with pytest.raises(TypeError):
            len(system.takes(v), 3)
        if system.name not in (
            "jax",
            "tensorflow",
            "drjit",
            "nvidia.dali.tensors",
        ):  # (some clamp every index, or raise errors of their own)
            with pytest.raises((IndexError, TypeError, RuntimeError, ValueError)):
                system.takes(v)[10**9]
    with pytest.raises(ZeroDivisionError):
        theirs = system.takes(v)
        theirs = 1 / 0
    del theirs


EXCHANGES = 3000


def exchanges_leave_nothing(system, rounds):
    """Exchange one array `rounds` times in each direction, by every protocol; nothing may be left."""
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v = view(a, protocol="array_interface")
    giver = other(system, "dlpack")
    theirs = giver.made_from(a)
    ways = {
        f"takes {name}": lambda take=take: take(v)
        for name, take in system.by().items()
        if name != "cuda_array_interface"
    }
    ways["gives"] = lambda: view(theirs)
    for protocol in PROTOCOLS:
        try:
            view(theirs, protocol=protocol)
        except BufferError:
            continue
        ways[f"gives {protocol}"] = lambda protocol=protocol: view(theirs, protocol=protocol)

    def counts():
        references = sys.getrefcount(v), sys.getrefcount(theirs), sys.getrefcount(a)
        return *references, len(dlpack.outstanding), sys.getallocatedblocks()

    for way, exchange in ways.items():
        if system.leaks and way.startswith("takes"):
            continue
        try:
            for _ in range(100):
                exchange()
        except Exception as error:
            assert (system.name, way) == ("cuda.core.utils", "takes array_interface"), error  # it needs a driver
            continue
        for _ in range(3):  # what a process does besides may grow once; a leak grows each time
            gc.collect()
            before, memory = counts(), resident()
            for _ in range(rounds):
                exchange()
            gc.collect()
            after = counts()
            assert after[:4] == before[:4], (way, before, after)
            if after[4] - before[4] < max(300, rounds // 100):
                break
        else:
            pytest.fail(f"{way}: {after[4] - before[4]} blocks were left by {rounds} exchanges")
        if rounds > EXCHANGES:
            spare = 2**26 if system.large else 2**21  # (JAX copies in another thread, which may be late)
            assert resident() - memory < rounds * 24 + spare, (way, memory, resident())  # less than a malloc each


def resident():
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as lines:
        return int(lines.read().split()[1]) * 4096


def test_exchanges_leave_nothing(system):
    exchanges_leave_nothing(system, EXCHANGES)


@pytest.mark.heavy
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_100_000_exchanges_by_every_protocol_leave_nothing(system):
    exchanges_leave_nothing(system, 100_000)


def test_exit_with_arrays_alive(system, python):
    result = python(
        f"""
        import builtins, numpy
        from tests.interop.systems import SYSTEMS
        from tests.subject import rawcuda
        system = next(kind for kind in SYSTEMS if kind.name == {system.name!r})().load()
        v = rawcuda.view(numpy.arange(6, dtype="f4"), protocol="array_interface")
        builtins.theirs = system.takes(v)
        builtins.ours = rawcuda.view(system.made_from(numpy.arange(6, dtype="f4")))
        print("done")
    """,
        env={"RAWCUDA_DRIVER": None},
        timeout=120,
    )
    assert result.returncode == 0 and result.stdout.endswith("done\n"), result.stderr
