"""Every driver call of every operation fails in turn: the error is the driver's, and nothing is left behind."""

from __future__ import annotations

import array
import gc

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

pytestmark = pytest.mark.emulator_only("only the emulator can make a call fail on purpose")

FLOATS = array.array("f", range(12))
# of each code, every how many calls fail; with INVALID_VALUE, some functions say that a list has ended
CODES = {2: 1, 801: 5, 999: 5}


def upload(device):
    return device.upload(FLOATS).tolist()


def launch(device):
    with device.load(kernels.GLOBALS) as loaded, device.stream() as stream:
        loaded["nothing"].launch(grid=1, block=1, stream=stream)
        stream.synchronize()


def copy_back(device):
    with device.allocate(48) as memory:
        memory.copy_from(FLOATS)
        memory.copy_to(array.array("f", FLOATS))
        memory.fill(0)


def strided(device):
    v = device.upload(FLOATS).reshape(3, 4)
    w = device.empty((4, 3), "float32")
    rawcuda.copy(w, v.T)
    w[:, ::2].fill(1)
    v.T.tolist()


def capture(device):
    with device.stream() as stream, device.allocate(64) as memory:
        with stream.capture() as graph:
            memory.fill(1, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        graph.close()


def ordered(device):
    with device.stream() as stream, device.allocate(64, stream=stream) as memory:
        memory.fill(1, stream=stream)
        stream.synchronize()


def events(device):
    with device.stream() as stream, device.stream(priority=-1) as other, device.event(timing=True) as event:
        other.wait(stream.record(event))
        other.wait(stream)
        other.synchronize()
        event.query()


def kinds(device):
    for kind in ("pinned", "managed"):
        with device.allocate(64, kind=kind) as memory:
            memory.fill(1)
            memory.view("float32").tolist()


def exported(device):
    v = device.empty(4, "float32")
    v.__dlpack__()
    rawcuda.view(v.__dlpack__(max_version=(1, 0)), stream=2)
    v.__cuda_array_interface__  # noqa: B018


def facts(device):
    rawcuda.Device(0).name  # noqa: B018
    rawcuda.Device(0).total_memory  # noqa: B018
    rawcuda.Device(0).free_memory  # noqa: B018
    rawcuda.devices()


def variables(device):
    with device.load(kernels.GLOBALS) as loaded:
        for name in loaded.names:
            loaded[name].attributes  # noqa: B018


OPERATIONS = [upload, launch, copy_back, strided, capture, ordered, events, kinds, exported, facts, variables]


def handles(library):
    """Count the live handles, after a garbage collection and the release of what was collected."""
    gc.collect()
    module("owned").drain()
    for primary in module("gpu.context")._contexts.values():
        primary.forget()
    counts = dict(library.live_handles())
    counts.pop("context")
    return sum(counts.values())


def attack(name):
    """Let each driver call of an operation fail in turn, with each code; run in a process of its own."""
    operation = {each.__name__: each for each in OPERATIONS}[name]
    library = module("emulator").Emulator()
    rawcuda.use(library)
    device = rawcuda.Device(0)
    device.context  # noqa: B018
    operation(device)
    library.fail("*", 10**9)
    operation(device)
    calls = library.fail_no_more()
    for code, step in CODES.items():
        for number in range(1, calls + 1, step):
            before, error = handles(library), None
            library.fail("*", number, code)
            try:
                operation(device)
            except Exception as caught:
                error = caught
            library.fail_no_more()
            if error is not None:
                assert isinstance(error, (rawcuda.CudaError, rawcuda.ProtocolError)), (code, number, repr(error))
                assert getattr(error, "code", code) == code, (code, number, repr(error))
            went_through, error = error is None, None
            # Where a release fails, nobody can release the handle. It raises no error.
            assert handles(library) <= before + went_through, (code, number, library.live_handles())
            assert not library.kept_exceptions, (code, number, library.kept_exceptions)
            assert not device._primary.current_context(), (code, number)
            operation(device)
    return calls


@pytest.mark.parametrize("name", [operation.__name__ for operation in OPERATIONS])
def test_each_call_of_an_operation_fails_in_turn(name, python):
    result = python(
        f"""
        from tests.driver.test_failures import attack
        print(attack({name!r}))
        """,
        check=True,
    )
    assert int(result.stdout) > 5 or name == "facts"


def test_the_word_of_the_environment(python):
    script = """
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        kept = [device.allocate(8), device.allocate(8)]
        try:
            device.allocate(8)
        except rawcuda.OutOfMemory as error:
            assert "a planned failure: call 3 of cuMemAlloc_v2" in str(error), error
        else:
            raise AssertionError("it went through")
        device.allocate(8).close()
        for one in kept:
            one.close()
    """
    python(script, env={"RAWCUDA_EMULATOR": "fail=cuMemAlloc_v2:3:2", "RAWCUDA_DRIVER": "emulator"}, check=True)


@pytest.mark.parametrize(
    "word", ["fail=", "fail=:1", "fail=cuInit:0", "fail=cuInit:1:0", "fail=cuInit:x", "fail=a:1:5555"]
)
def test_a_wrong_word_is_refused(word, monkeypatch):
    monkeypatch.setenv("RAWCUDA_EMULATOR", word)
    with pytest.raises(ValueError, match="fail="):
        module("emulator").Emulator.from_environment()


def test_a_code_that_ends_a_context_ends_it(python):
    python(
        """
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        stream = device.stream()
        for _ in range(2):
            try:
                stream.synchronize()
            except rawcuda.ContextLost as error:
                assert error.code == 719
            else:
                raise AssertionError("it went through")
        """,
        env={"RAWCUDA_EMULATOR": "fail=cuStreamSynchronize:1:719", "RAWCUDA_DRIVER": "emulator"},
        check=True,
    )
