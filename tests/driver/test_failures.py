"""Every driver call of every operation fails in turn: the error is the driver's, and nothing is left behind."""

from __future__ import annotations

import array
import gc

import pytest

from tests.driver import kernels
from tests.driver.graph_kernels import STEP
from tests.shared import sampled
from tests.subject import module, rawcuda

pytestmark = pytest.mark.emulator_only("only the emulator can make a call fail on purpose")

FLOATS = array.array("f", range(12))
# of each code, every how many calls fail; with INVALID_VALUE, some functions say that a list has ended
CODES = {2: 1, 801: 5, 999: 5}
KEPT: list[object] = []
# Of these, one release that fails leaves more than one handle: addresses cannot be freed while memory is mapped there.
DEPENDENT = {"virtual": 1}


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
        stream.record().close()
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


def by_hand(device):
    words = device.empty(1, "uint32")
    with device.load(STEP) as loaded, device.stream() as stream, device.graph() as graph, device.event() as event:
        cleared = graph.fill(words, 0)
        first = graph.kernel(loaded["step"], words, 1, grid=1, block=1, after=cleared)
        graph.copy(array.array("I", [0]), words, after=first)
        graph.callback(int, after=first)
        graph.record(event, after=first)
        graph.add_edge(first, graph.empty())
        with graph.instantiate() as executable:
            executable.launch(stream)
            first.update(words, 2)
            executable.update(graph)
        graph.clone().close()
        graph.launch(stream)
        stream.synchronize()


def conditional(device):
    with device.graph() as graph, device.stream() as stream:
        condition = graph.create_condition(default=0)
        chosen = graph.if_then(condition)
        chosen.then.fill(device.empty(4, "uint32"), 1)
        scratch = graph.allocate(64)
        graph.free(scratch, after=graph.fill(scratch.memory, 1, after=scratch))
        graph.launch(stream)
        stream.synchronize()


def pools(device):
    with device.stream() as stream, device.memory_pool() as pool, pool.allocate(64, stream=stream) as memory:
        memory.fill(1, stream=stream)
        pool.release_threshold = 1 << 20
        pool.trim()
        stream.synchronize()
    with device.memory_pool(kind="pinned") as pinned:
        pinned.allocate(64).close()


def virtual(device):
    with device.virtual_memory(1, reserve=1 << 24) as memory:
        memory.grow(1 << 22)
        memory.view("uint32")[:4].fill(1)
        memory.set_access(device, "read")
        memory.shrink(1 << 21)


def managed(device):
    with device.allocate(4096, kind="managed") as memory, device.stream() as stream:
        memory.advise("set_read_mostly").prefetch(device, stream=stream)
        memory.preferred_location = device
        memory.range_attributes()
        stream.synchronize()


def registered(device):
    KEPT.append(array.array("f", FLOATS))  # if its release fails, the memory remains registered
    with device.register(KEPT[-1]) as memory, device.allocate(48) as there:
        there.copy_from(memory)


def textures(device):
    with device.array((4, 4), "float32", surface=True) as made:
        made.copy_from(device.upload(array.array("f", range(16))).reshape(4, 4))
        with device.texture(made), device.surface(made):
            made[1:3, 1:3].tolist()
    with device.mipmapped_array((4, 4), "float32") as mipmapped, device.texture(mipmapped[0]):
        pass


def green(device):
    with device.split(2, rest=True) as parts, parts[0].stream() as stream:
        device.empty(4, "float32").fill(1, stream=stream)
        stream.synchronize()


def linked(device):
    with device.link([STEP]) as loaded:
        loaded["step"].attributes  # noqa: B018
    with rawcuda.Library(STEP) as library:
        library.module(device)["step"]


def values(device):
    words = device.upload(array.array("I", [0, 0]))
    with device.stream() as stream, device.event(blocking=True) as event:
        stream.write_value(words[0], 1)
        stream.wait_value(words[0], 1)
        stream.batch([("write", words[1], 1), ("wait", words[1], 1)])
        stream.call(int)
        stream.record(event)
        event.synchronize()
        stream.attributes.synchronization_policy = "auto"


def peers(device):
    other = rawcuda.Device(1)
    with device.peer_access(other):
        rawcuda.copy(device.empty(4, "float32"), other.upload(array.array("f", range(4))))


def batched(device):
    pairs = [(device.empty(4, "float32"), device.upload(array.array("f", range(4)))) for _ in range(2)]
    with device.stream() as stream:
        rawcuda.copy_batch(pairs, stream=stream)
        stream.synchronize()


OPERATIONS = [
    upload, launch, copy_back, strided, capture, ordered, events, kinds, exported, facts, variables, by_hand,
    conditional, pools, virtual, managed, registered, textures, green, linked, values, peers, batched,
]  # fmt: skip


def handles(library):
    """Count the live handles, after a garbage collection and the release of what was collected."""
    gc.collect()
    module("ownership").drain()
    module("gpu.core.points").sweep(now=True)
    module("ownership").drain()
    for primary in module("gpu.core.context")._contexts.values():
        primary.forget()
    counts = dict(library.live_handles())
    counts.pop("context")
    return sum(counts.values())


def attack(name):
    """Let each driver call of an operation fail in turn, with each code; run in a process of its own."""
    operation = {each.__name__: each for each in OPERATIONS}[name]
    library = module("emulator").Emulator(devices=2)
    rawcuda.use(library)
    device = rawcuda.Device(0)
    device.context  # noqa: B018
    operation(device)
    library.fail("*", 10**9)
    operation(device)
    calls = library.fail_no_more()
    gc.collect()
    gc.freeze()  # each of the collections below would go through the whole emulator
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
                above = None if error.__suppress_context__ else error.__context__
                assert not isinstance(above, LookupError), (code, number, error)  # it was shown above the error
            went_through, error = error is None, None
            # Where a release fails, nobody can release the handle. It raises no error.
            more = went_through + went_through * DEPENDENT.get(name, 0)
            assert handles(library) <= before + more, (code, number, library.live_handles())
            assert not library.kept_exceptions, (code, number, library.kept_exceptions)
            assert not device._primary.driver.current_context(), (code, number)
            operation(device)
    return calls


@pytest.mark.parametrize("name", sampled(operation.__name__ for operation in OPERATIONS))
def test_each_call_of_an_operation_fails_in_turn(name, python):
    result = python(
        f"""
        from tests.driver.test_failures import attack
        print(attack({name!r}))
        """,
        check=True,
        timeout=300,
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
