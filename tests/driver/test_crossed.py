"""Features crossed with each other: each kind of memory in each use, and what else belongs to no single feature."""

from __future__ import annotations

import array
import copy
import gc
import os
import pickle
import threading
from typing import Any, Callable

import pytest

from tests.driver.graph_kernels import STEP
from tests.subject import rawcuda

VARIABLE = STEP.replace(".visible .entry", ".visible .global .align 16 .u32 counter[16];\n.visible .entry")


def of_a_stream(device: Any) -> Any:
    with device.stream() as stream:
        return device.allocate(64, stream=stream)


def of_a_closed_pool(device: Any) -> Any:
    with device.memory_pool() as pool:
        return pool.allocate(64)


MEMORIES: dict[str, Callable[[Any], Any]] = {
    "device": lambda device: device.allocate(64),
    "pinned": lambda device: device.allocate(64, kind="pinned"),
    "managed": lambda device: device.allocate(64, kind="managed"),
    "of a stream": of_a_stream,
    "of a closed pool": of_a_closed_pool,
    "virtual": lambda device: device.virtual_memory(64, reserve=1 << 24),
    "registered": lambda device: rawcuda.Memory.register(bytearray(64), device=device),
    "variable": lambda device: device.load(VARIABLE).global_("counter"),
}


def by_hand(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    with device.graph() as graph, device.stream() as stream:
        out = array.array("I", bytes(64))
        cleared = graph.fill(words, 0)
        first = graph.kernel(step, memory, 1, grid=1, block=1, after=cleared)
        second = graph.kernel(step, words, 2, grid=1, block=1, after=first)
        graph.copy(out, words, after=second)
        memory.close()  # the nodes keep the bytes
        for _ in range(2):
            graph.launch(stream)
        stream.synchronize()
        return out.tolist()


def captured(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    words.fill(0)
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph:
            step.launch(memory, 1, grid=1, block=1, stream=stream)
            step.launch(words, 2, grid=1, block=1, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        return words.tolist()  # type: ignore[no-any-return]


def in_a_green_context(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    size = device.attribute("MULTIPROCESSOR_COUNT") // 2
    with device.split(size) as (green,), green.stream() as stream:
        words.fill(0, stream=stream)
        step.launch(memory, 1, grid=1, block=1, stream=stream)
        step.launch(words, 2, grid=1, block=1, stream=stream)
        stream.synchronize()
        return words.tolist()  # type: ignore[no-any-return]


def exported(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    first = rawcuda.view(words.__dlpack__(max_version=(1, 0)))
    second = rawcuda.view(words, protocol="cuda_array_interface")
    first.fill(0)
    step.launch(second, 12, grid=1, block=1)
    return first.tolist()  # type: ignore[no-any-return]


def strided(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    words.fill(0)
    rawcuda.copy(words[::2], array.array("I", [12] + [0] * 7))
    assert words[::-2].tolist() == [0] * 8
    return words.T.tolist()  # type: ignore[no-any-return]


def pickled(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    words.fill(0)
    step.launch(memory, 12, grid=1, block=1)
    with rawcuda.receive_on(device.ordinal):
        made = pickle.loads(pickle.dumps(memory)), copy.deepcopy(memory)
    for each in made:
        assert (each.kind, each.device) == (memory.kind, device)
    found = [each.view("uint32")[:16].tolist() for each in made]
    for each in made:
        each.close()
    assert found[0] == found[1]
    return found[0]  # type: ignore[no-any-return]


def traced(device: Any, step: Any, words: Any, memory: Any) -> list[int]:
    heard: list[Any] = []
    with rawcuda.trace(heard):
        result = captured(device, step, words, memory)
    assert heard
    return result


USES = [by_hand, captured, in_a_green_context, exported, strided, pickled, traced]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("ordinal", [0, 1])
def test_each_memory_in_each_use(device: Any, kind: str, use: Callable[..., list[int]], ordinal: int) -> None:
    if ordinal >= len(rawcuda.devices()):
        pytest.skip("one device")
    where = rawcuda.Device(ordinal)
    with MEMORIES[kind](where) as memory, where.load(STEP) as module:
        assert use(where, module["step"], memory.view("uint32")[:16], memory) == [12] + [0] * 15
        where.synchronize()


def test_a_graph_launched_on_a_stream_of_another_device(device: Any) -> None:
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device")
    words = device.upload(array.array("I", [0]))
    with rawcuda.Device(1).stream() as stream, device.graph() as graph:
        graph.fill(words, 7)
        graph.launch(stream)
        graph.close()
        stream.synchronize()
    assert words.tolist() == [7]


def test_a_destroyed_node_says_so(device: Any) -> None:
    with device.graph() as graph:
        node = graph.empty()
        assert node.number == 0
        node.destroy()
        for ask in ("number", "handle", "pred", "succ"):
            with pytest.raises(rawcuda.Closed, match="was destroyed"):
                getattr(node, ask)


def test_attributes_belong_to_their_object(device: Any) -> None:
    with device.stream() as stream, device.memory_pool() as pool, device.load(STEP) as module:
        for thing in (device.limits, stream.attributes, pool.attributes, module["step"].attributes):
            for refused in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    refused(thing)


def test_external_events_are_for_captures(device: Any) -> None:
    with device.event() as event, device.stream() as stream:
        for use in (lambda: event.record(stream, external=True), lambda: stream.wait(event, external=True)):
            with pytest.raises(rawcuda.InvalidUse, match="external=True is for a stream that is being captured"):
                use()


def test_nodes_take_no_cuda_arrays_but_captures_do(device: Any) -> None:
    with device.array((2, 4), "float32") as made, device.graph() as graph, device.stream() as stream:
        view = device.empty((2, 4), "float32").fill(3)
        device.synchronize()
        for add in (lambda: graph.copy(made, view), lambda: graph.copy(view, made[0]), lambda: graph.fill(made, 0)):
            with pytest.raises(TypeError, match="no addresses: record its copies"):
                add()
        assert not graph.nodes
        with stream.capture(into=graph):
            made.copy_from(view, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        assert made.tolist() == [[3] * 4] * 2


def test_an_article_fits_its_noun(device: Any) -> None:
    with device.event() as event, pytest.raises(TypeError, match="^an Event has one owner"):
        copy.copy(event)


def test_virtual_memory_that_a_graph_uses_is_not_unmapped(device: Any) -> None:
    with device.virtual_memory(1, reserve=1 << 24) as memory, device.graph() as graph:
        graph.fill(memory.view("uint32")[:4], 7)
        with pytest.raises(ValueError, match="a graph"):
            memory.shrink(0)


# out[i] = the element i of the first row
FETCH = """.version 6.3
.target sm_50
.address_size 64
.visible .entry fetch(.param .u64 image, .param .u64 out)
{
    .reg .b64 %d<5>;
    .reg .b32 %r<2>;
    .reg .f32 %f<7>;
    ld.param.u64 %d1, [image];
    ld.param.u64 %d2, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    mov.f32 %f2, 0f3F000000;
    add.f32 %f1, %f1, %f2;
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d1, {%f1, %f2}];
    cvta.to.global.u64 %d3, %d2;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d3, %d3, %d4;
    st.global.f32 [%d3], %f3;
    ret;
}
"""


@pytest.mark.parametrize("use", ["by hand", "captured", "launched", "green"])
def test_a_texture_that_is_dropped_is_kept_as_long_as_it_is_used(device: Any, use: str) -> None:
    image = rawcuda.view(array.array("f", range(8))).reshape(2, 4)
    with device.load(FETCH) as module, device.stream() as stream:
        out, graph, kernel = device.empty(4, "float32"), None, module["fetch"]
        texture = device.texture(device.array(image))
        if use == "by hand":
            graph = device.graph()
            graph.kernel(kernel, texture, out, grid=1, block=4)
        elif use == "captured":
            with stream.capture() as graph:
                kernel.launch(texture, out, grid=1, block=4, stream=stream)
        elif use == "launched":
            kernel.launch(texture, out, grid=1, block=4, stream=stream)
        else:
            size = device.attribute("MULTIPROCESSOR_COUNT") // 2
            with device.split(size) as (green,), green.stream() as other:
                kernel.launch(texture, out, grid=1, block=4, stream=other)
                del texture
                gc.collect()
                other.synchronize()
        texture = None
        gc.collect()
        if graph is not None:
            graph.launch(stream)
            graph.close()
            gc.collect()
        stream.synchronize()
        assert out.tolist() == [0, 1, 2, 3]


def test_eight_threads_use_everything(device: Any) -> None:
    """Each thread has its own objects, on one of the devices."""
    raised: list[BaseException] = []

    def work(number: int) -> None:
        try:
            here = rawcuda.Device(number % len(rawcuda.devices()))
            with here.stream() as stream, here.load(STEP) as module:
                words = here.upload(array.array("I", [0]))
                for _ in range(6):
                    with here.graph() as graph:
                        cleared = graph.fill(words, 0)
                        graph.kernel(module["step"], words, number, grid=1, block=1, after=cleared)
                        graph.launch(stream)
                    with here.memory_pool() as pool:
                        memory = pool.allocate(64, stream=stream)
                    memory.fill(1, stream=stream).close()
                    with here.virtual_memory(1, reserve=1 << 24) as growing:
                        growing.grow(1 << 22)
                    here.texture(here.array((4, 4), "float32")).close()
                    stream.call(int)
                    stream.synchronize()
                assert words.tolist() == [number]
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised, raised


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_nothing_new_works_or_breaks_in_a_child_of_fork(python: Any) -> None:
    told = python(
        """
        import os, sys
        from tests.driver.graph_kernels import STEP
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        words, stream = device.empty(1, "uint32"), device.stream()
        graph = device.graph()
        node = graph.fill(words, 0)
        things = {
            "graph": graph, "executable": graph.instantiate(), "pool": device.memory_pool(),
            "green": device.split(2)[0], "virtual": device.virtual_memory(1, reserve=1 << 24),
            "array": device.array((4, 4), "float32"), "library": rawcuda.Library(STEP),
            "texture": device.texture(device.array((4, 4), "float32")),
        }
        uses = [
            lambda: graph.launch(stream), lambda: graph.empty(), lambda: things["executable"].launch(stream),
            lambda: node.pred, lambda: things["pool"].allocate(8), lambda: things["pool"].attributes.used_mem_high,
            lambda: things["green"].stream(), lambda: things["virtual"].grow(1 << 22),
            lambda: things["array"].download(), lambda: things["library"].module(device),
            lambda: stream.write_value(words, 1), lambda: stream.call(int), lambda: stream.attributes.priority,
            lambda: device.memory_pool(), lambda: device.split(2), lambda: device.virtual_memory(1),
            lambda: device.graph(), lambda: device.array((2, 2), "uint8"), lambda: device.register(bytearray(8)),
            lambda: device.limits.stack_size, lambda: device.link([STEP]), lambda: rawcuda.copy_batch([(words, words)]),
        ]
        sys.stdout.flush()
        child = os.fork()
        if not child:
            for number, use in enumerate(uses):
                try:
                    use()
                except rawcuda.ForkedAfterInit:
                    continue
                except BaseException as error:
                    print(number, repr(error))
                else:
                    print(number, "went through")
            for thing in things.values():
                repr(thing)
                thing.close()
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        graph.launch(stream)
        stream.synchronize()
        """,
        check=True,
    )
    assert not told.stdout, told.stdout
