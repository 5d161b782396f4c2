"""Changes of graphs: of executable graphs, whole and by node, clones, captures into a graph, and conditional nodes."""

import array
import contextlib
import ctypes
import gc
import itertools
import os
import sys
import threading
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.driver import graph_kernels, kernels
from tests.driver.test_graph_nodes import floats, run
from tests.subject import module, rawcuda

errors, owned, cuda_h = module("errors"), module("ownership"), module("headers.cuda_h")
WAIT = 60


@pytest.fixture
def step(device):
    with device.load(graph_kernels.STEP) as loaded:
        yield loaded["step"].configure(grid=1, block=1)


@pytest.fixture
def word(device):
    made = device.upload(array.array("I", [0]))
    yield made
    made.owner.close()  # (pytest keeps the array)


@pytest.fixture
def graph(device):
    with device.graph() as made:
        yield made


# -- executable graphs


def test_what_a_clone_keeps_is_noted_under_its_own_nodes(device, graph, step, word):
    """The driver may give the handle of a node that is gone to a new node of the clone."""
    first = graph.kernel(step, word, 1)
    graph.embed(graph.clone())
    with graph.clone() as clone:
        assert clone.find(first).handle in clone._kept and not {*clone._kept} & {node.handle for node in graph.nodes}


def test_an_executable_graph_does_not_change_with_its_graph(device, graph, step, word):
    first = graph.kernel(step, word, 1)
    with graph.instantiate() as executable:
        graph.kernel(step, word, 2, after=first)
        run(executable, device)
        assert word.tolist() == [1]
        run(graph, device)
        assert word.tolist() == [112]
        first.update(word, 5)
        run(executable, device)
        assert word.tolist() == [1121]
        run(graph, device)
        assert word.tolist() == [112152]


def test_a_node_of_an_executable_graph(device, graph, step, word):
    target, ones, twos = device.empty(2, "float32"), floats(device, 1, 1), floats(device, 2, 2)
    calls = []
    kernel = graph.kernel(step, word, 1)
    copied, filled = graph.copy(target, ones), graph.fill(device.empty(4, "uint8"), 1)
    called = graph.callback(lambda: calls.append("a"))
    bytes_ = device.empty(4, "uint8")
    with graph.instantiate() as executable:
        executable[kernel].update(word, 2)
        executable[copied].update(target, twos)
        executable[filled].update(bytes_, 9)
        executable[called].update(lambda: calls.append("b"))
        run(executable, device)
        assert word.tolist() == [2] and target.tolist() == [2, 2] and bytes_.tolist() == [9] * 4 and calls == ["b"]
    run(graph, device)
    assert word.tolist() == [21] and target.tolist() == [1, 1] and calls == ["b", "a"]


def test_an_update_of_a_node_does_not_look_at_the_others(device, graph, step, word, monkeypatch):
    executable_graphs, collected = module("gpu.graphs.executable"), []
    nodes = [graph.kernel(step, word, 1) for _ in range(10)]
    monkeypatch.setattr(
        executable_graphs,
        "things_in",
        lambda things, found=executable_graphs.things_in: collected.append(things) or found(things),
    )
    with graph.instantiate() as executable:
        word.fill(0)
        collected.clear()
        for node in nodes:
            executable[node].update(word, 0)
        assert not collected
        run(executable, device)
        assert collected and word.tolist() == [0]


def test_what_an_update_brings_is_kept(device, graph, step, word):
    target = device.empty(1, "float32")
    node = graph.copy(target, floats(device, 1))
    with graph.instantiate() as executable:
        executable[node].update(target, floats(device, 5))
        run(executable, device)
        assert target.tolist() == [5]


def test_a_kernel_node_gets_another_configuration_or_kernel(device, graph):
    with device.load(kernels.ADD) as loaded, device.load(graph_kernels.STEP) as other:
        a, out = floats(device, *range(64)), floats(device, *[0] * 64)
        word = device.upload(array.array("I", [0]))
        node = graph.kernel(loaded["add"], a, a, out, 64, grid=1, block=32)
        run(graph, device)
        assert out.tolist() == [2.0 * i if i < 32 else 0.0 for i in range(64)]
        node.update(a, a, out, 64, grid=2)
        run(graph, device)
        assert out.tolist() == [2.0 * i for i in range(64)]
        node.update(other["step"].configure(grid=1, block=1), word, 4)
        assert node.label == "step"
        run(graph, device)
        assert word.tolist() == [4]


def test_events_of_nodes_can_be_changed(device, graph):
    with device.event() as one, device.event() as two, device.event() as three:
        recorded, waited = graph.record(one), graph.wait(two)
        with graph.instantiate() as executable:
            executable[recorded].update(three)
            executable[waited].update(one)
            run(executable, device)
            assert three.query()
        recorded.update(two)
        waited.update(three)
        run(graph, device)


def test_a_child_graph_of_an_executable_graph(device, graph, step, word):
    with device.graph() as one, device.graph() as two, device.graph() as longer:
        for each, digit in ((one, 1), (two, 2), (longer, 3)):
            each.kernel(step, word, digit)
        longer.empty()
        node = graph.embed(one)
        with graph.instantiate() as executable:
            executable[node].update(two)
            run(executable, device)
            assert word.tolist() == [2]
            with pytest.raises(errors.InvalidUse):
                executable[node].update(longer)
        with pytest.raises(TypeError, match="child"):
            node.update(two)
        inner = node.child.nodes[0]
        with graph.instantiate() as executable:
            executable[inner].update(step, word, 7)
            run(executable, device)
            assert word.tolist() == [27]


def test_nodes_can_be_disabled(device, graph, step, word):
    first, second = graph.kernel(step, word, 1), graph.empty()
    third = graph.kernel(step, word, 3, after=first)
    with graph.instantiate() as executable:
        assert executable[first].is_enabled
        executable[first].disable()
        assert not executable[first].is_enabled and executable[third].is_enabled
        run(executable, device)
        assert word.tolist() == [3]
        executable[first].enable()
        run(executable, device)
        assert word.tolist() == [313]
        with pytest.raises(errors.InvalidUse):
            executable[second].disable()
        assert "of <Executable" in repr(executable[first])
        with pytest.raises(TypeError, match="int"):
            executable[0]


def test_upload(device, graph, step, word):
    graph.kernel(step, word, 1)
    with device.stream() as stream, graph.instantiate(priorities=True) as executable:
        executable.upload(stream)
        graph.upload()
        executable.launch(stream)
        stream.synchronize()
        assert word.tolist() == [1]


def test_updates_that_are_refused(device, graph, step, word):
    numbers = floats(device, *range(12)).reshape(3, 4)
    empty, kernel = graph.empty(), graph.kernel(step, word, 1)
    flat, rows = graph.copy(device.empty(4, "float32"), numbers[0]), graph.copy(numbers[:, :2], numbers[:, 2:])
    with pytest.raises(TypeError, match="cannot be changed"):
        empty.update()
    with pytest.raises(TypeError, match="takes 2 arguments"):
        kernel.update(word)
    with pytest.raises(ValueError, match="would become a kernel node"):
        flat.update(device.empty(3, "float32"), numbers[::-1, 0])
    with graph.instantiate() as executable:
        with pytest.raises(errors.InvalidUse):
            executable[rows].update(numbers[:, 2:], numbers[:, :2])
        with pytest.raises(TypeError, match="takes 2 arguments"):
            executable[kernel].update(word)
        executable[flat].update(device.empty(4, "float32"), numbers[1])
        with pytest.raises(errors.InvalidUse, match="keeps its shape and the kind of its memory: update the node"):
            executable[flat].update(numbers[:, :2], numbers[:, 2:])
    with pytest.raises(errors.Closed):
        executable[flat]
    run(graph, device)


# -- updates of a whole graph


def build(device, step, word, *digits, fill=None):
    made = device.graph()
    last = None if fill is None else made.fill(word, fill)
    for digit in digits:
        last = made.kernel(step, word, digit, after=last)
    return made


def test_an_executable_graph_takes_over_another(device, step, word):
    with build(device, step, word, 1, 2) as one, build(device, step, word, 3, 4) as two:
        with one.instantiate() as executable:
            executable.update(two)
            run(executable, device)
            assert word.tolist() == [34]
            two.close()
            word.fill(0)
            run(executable, device)  # it has what it needs
            assert word.tolist() == [34]


def test_a_graph_with_other_nodes_is_refused_by_name(device, step, word):
    with build(device, step, word, 1, 2) as one, build(device, step, word, 3) as shorter:
        with build(device, step, word, 5, fill=4) as other, build(device, step, word, 5, 6) as unconnected:
            first, second = unconnected.nodes
            unconnected.remove_edge(first, second)
            with one.instantiate() as executable:
                with pytest.raises(errors.InvalidUse, match="which has 1 nodes and not 2: update") as caught:
                    executable.update(shorter)
                assert caught.value.code == 910
                added = one.fill(word, 9)
                with pytest.raises(errors.InvalidUse, match="which has 3 nodes and not 2") as caught:
                    executable.update(one)
                assert f"(new: {added!r})" in str(caught.value)
                added.destroy()
                with pytest.raises(errors.InvalidUse, match="another kind") as caught:
                    executable.update(other)
                assert repr(other.nodes[0]) in str(caught.value)
                with pytest.raises(errors.InvalidUse, match="other edges") as caught:
                    executable.update(unconnected)
                assert repr(second) in str(caught.value)
                with pytest.raises(TypeError, match="Graph"):
                    executable.update(executable)
                run(executable, device)
                assert word.tolist() == [12]  # none of them had an effect


# -- clones


def test_a_kernel_of_an_executable_graph_that_was_updated_from_another_graph(device, graph, step, word):
    """Which options it has is not known: with a cluster of the other graph, it ran as no launch had said."""
    node = graph.kernel(step, word, 1)
    with device.stream() as stream, stream.capture() as captured:
        step.kernel.launch(word, 1, grid=1, block=1, stream=stream)
    with graph.clone() as clone, graph.instantiate() as executable:
        executable.update(captured)
        with pytest.raises(ValueError, match="or may have some.*instantiate that again"):
            executable[node].update(step, word, 2)
        executable.update(graph)
        executable[node].update(step, word, 2)
        executable.update(clone)
        executable[node].update(step, word, 2)
    captured.close()
    if device.attribute("CLUSTER_LAUNCH"):
        with graph.clone() as clone, graph.instantiate() as executable:
            clone.find(node).update(step.kernel.configure(grid=2, block=1, cluster=2), word, 1)
            executable.update(clone)
            with pytest.raises(ValueError, match="whose kernels have options, such as a cluster"):
                executable[node].update(step, word, 2)


def test_clones(device, graph, step, word):
    first = graph.kernel(step, word, 1)
    second = graph.kernel(step, word, 2, after=first)
    with graph.clone() as cloned:
        assert [node.label for node in cloned.nodes] == ["step", "step"] and len(cloned.edges) == 1
        twin = cloned.find(second)
        assert twin.graph is cloned and twin.number == 1 and twin is not second
        twin.update(word, 9)
        graph.close()
        run(cloned, device)
        assert word.tolist() == [19]
        cloned.find  # (the original is closed)
        with pytest.raises(errors.Closed):
            cloned.find(first)
    with device.graph() as other, device.graph() as unrelated:
        node = other.empty()
        with pytest.raises(ValueError, match="not a clone"):
            unrelated.find(node)


def test_the_copy_of_a_node_of_a_child_graph_is_a_node_of_the_copied_child_graph(device, graph):
    with device.graph() as inner, device.graph() as middle:
        inner.empty()
        middle.embed(inner)
        node = graph.embed(middle)
        nested = node.child.nodes[0]
        with graph.clone() as cloned:
            for each in (nested, nested.child.nodes[0]):
                with pytest.raises(ValueError, match=r"is in a graph that belongs to <graph node .*: find that node"):
                    cloned.find(each)
            copied = cloned.find(node).child.nodes[0]
            assert copied.number == 0 and copied.graph is cloned.find(node).child
            assert copied.child.nodes[0].number == 0


# -- captures into a graph


def test_capture_into_a_graph(device, graph, word):
    with device.load(graph_kernels.STEP) as loaded, device.stream() as stream:
        step = loaded["step"].configure(grid=1, block=1, stream=stream)
        first = graph.kernel(step, word, 1)
        with stream.capture(into=graph, after=first) as same:
            assert same is graph
            step(word, 2)
            step(word, 3)
            with pytest.raises(ValueError, match="in progress"):
                graph.empty()
            with pytest.raises(ValueError, match="in progress"):
                graph.launch()
        assert [node.label for node in graph.nodes] == ["step"] * 3
        last = graph.nodes[-1]
        graph.kernel(step, word, 4, after=last)
        run(graph, device)
        assert word.tolist() == [1234]
        second = graph.nodes[1]
        assert second.pred == [first]
        with pytest.raises(TypeError, match="captured"):
            second.update(word, 7)
        second.update(step, word, 7)
        word.fill(0)
        run(graph, device)
        assert word.tolist() == [1734]
        device.synchronize()


@pytest.mark.parametrize("into", [False, True])
def test_a_capture_that_another_thread_cannot_end_goes_on(device, graph, step, word, into):
    def begin():
        begun.append(recording.__enter__())
        goes_on.wait(WAIT)
        step.kernel.launch(word, 5, grid=1, block=1, stream=stream)
        recording.__exit__(None, None, None)
        begun.append("ended")

    begun, goes_on = [], threading.Event()
    with device.stream() as stream:
        recording = stream.capture(into=graph) if into else stream.capture()
        thread = threading.Thread(target=begin)
        thread.start()
        while not begun:
            time.sleep(0.001)
        with pytest.raises(rawcuda.CudaError, match="STREAM_CAPTURE_WRONG_THREAD"):
            recording.__exit__(None, None, None)
        if into:
            with pytest.raises(ValueError, match="in progress"):
                graph.empty()
        goes_on.set()
        thread.join(WAIT)
        made = graph if into else recording
        assert begun[1:] == ["ended"] and len(made.nodes) == 1
        made.launch(stream)
        stream.synchronize()
        assert word.tolist() == [5]
        made.close()


@pytest.mark.parametrize("way", ["close", "detach"])
def test_a_graph_that_is_closed_captures_no_more(device, step, word, way):
    graph = device.graph()
    detached = None
    with device.stream() as stream:
        with pytest.raises(rawcuda.Closed):
            with stream.capture(into=graph):
                step.kernel.launch(word, 1, grid=1, block=1, stream=stream)
                detached = getattr(graph, way)()
                step.kernel.launch(word, 2, grid=1, block=1, stream=stream)
        stream.synchronize()
        assert word.tolist() == [2]  # this was not captured
    if detached is not None:
        rawcuda.cu.cuGraphDestroy(cuda_h.CUgraph(detached))


def test_a_copy_that_a_kernel_makes_is_not_updated(device, graph):
    image = device.zeros((4, 4, 4, 4), "uint32")
    for node, given in (
        (graph.copy(image, device.zeros((4, 4, 4, 4), "uint32").transpose(3, 1, 0, 2)), (image, image)),
        (graph.fill(image[:, ::2, :, ::2], 3), (image, 4)),
    ):
        assert node.kind == "kernel"
        with pytest.raises(TypeError, match="a copy or a fill that a kernel makes .*add another node"):
            node.update(*given)


@pytest.mark.parametrize("way", ["update", "embed", "clone"])
@pytest.mark.parametrize("what", ["module", "event"])
def test_the_driver_sees_no_closed_object_of_a_graph(device, graph, word, way, what):
    with device.load(graph_kernels.STEP) as loaded, device.event() as event, device.graph() as other:
        for each in (graph, other):
            each.kernel(loaded["step"], word, 1, grid=1, block=1) if what == "module" else each.record(event)
        calls = []
        with graph.instantiate() as executable:
            (loaded if what == "module" else event).close()
            with rawcuda.trace(lambda call: calls.append(getattr(call, "name", ""))):
                with pytest.raises(rawcuda.Closed, match="a node of this graph uses .*closed"):
                    {
                        "update": lambda: executable.update(other),
                        "embed": lambda: graph.embed(other),
                        "clone": other.clone,
                    }[way]()
        assert not {*calls} & {"cuGraphExecUpdate_v2", "cuGraphExecUpdate", "cuGraphAddChildGraphNode", "cuGraphClone"}


def test_a_node_is_destroyed_once_by_several_threads(device, graph, monkeypatch):
    node, calls, changing = graph.empty(), [], type(graph)._changing

    def late(self, *given):
        if not calls:
            calls.append("destroyed")
            monkeypatch.undo()
            thread = threading.Thread(target=node.destroy)
            thread.start()
            thread.join(WAIT)
        return changing(self, *given)

    monkeypatch.setattr(type(graph), "_changing", late)
    with rawcuda.trace(lambda call: calls.append(getattr(call, "name", ""))):
        node.destroy()
    assert calls.count("cuGraphDestroyNode") == 1 and not graph.nodes


def test_a_stream_object_that_closes_the_graph_launches_nothing(device, graph, step, word):
    class Closes:
        def __cuda_stream__(self):
            executable.close()
            return 0, 1

    graph.kernel(step, word, 1)
    executable = graph.instantiate()
    with pytest.raises(rawcuda.Closed, match="this Executable is closed"):
        executable.launch(Closes())


def test_a_host_function_does_not_wait_for_the_lock_of_a_graph(device, graph, step, word):
    """The thread that has it may wait for the function."""
    graph.kernel(step, word, 1)
    executable, raised = graph.instantiate(), []
    of_graph = graph.empty, lambda: graph.nodes, graph.launch, graph.upload, graph.instantiate
    uses = *of_graph, executable.launch, executable.upload

    def function():
        for use in uses:
            try:
                use()
            except rawcuda.InvalidUse as error:
                raised.append("host function" in str(error))

    with device.stream() as stream, graph._lock, executable._lock:
        stream.call(function)
        stream.synchronize()
    assert raised == [True] * len(uses)
    executable.close()


def test_an_interrupt_of_a_question_leaves_no_lock_locked(graph):
    """Also at a line of the standard library, and while the traceback keeps what its frames refer to."""
    kept, left, lock, folder = [], 0, graph._lock, os.path.dirname(module("gpu.graphs.graph").__file__)

    def interrupt(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename == contextlib.__file__ or os.path.dirname(frame.f_code.co_filename) == folder:
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return interrupt

    def is_free():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: lock.acquire(timeout=1) and not lock.release()).result()

    graph.empty()
    for number in itertools.count(1):
        left, before = number, sys.gettrace()
        try:
            sys.settrace(interrupt)
            graph.nodes
            break
        except KeyboardInterrupt as error:
            kept.append(error)
        finally:
            sys.settrace(before)
        assert is_free()
    assert len(kept) > 10


@pytest.mark.parametrize("into", [False, True])
def test_an_interrupt_at_the_end_of_a_capture_leaves_no_stream_captured(device, graph, monkeypatch, into):
    """Also while something keeps the graph, or the exception with its frames."""
    with device.stream() as stream:
        calls = stream._primary.calls
        end = calls.cuStreamEndCapture

        def interrupted(*arguments):
            monkeypatch.setattr(calls, "cuStreamEndCapture", end)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as kept:
            with stream.capture(into=graph) if into else stream.capture() as made:
                monkeypatch.setattr(calls, "cuStreamEndCapture", interrupted)
        owned.drain()
        stream.synchronize()
        assert kept and made
        del made, kept
        gc.collect()
        owned.drain()


def left_block(device, graph, stream, word, into):
    """Return a with block that captures, and will have no end, as an interrupt between two instructions leaves it."""
    block = stream.capture(into=graph) if into else stream.capture()
    block.__enter__()
    word.fill(1, stream=stream)
    return block


@pytest.mark.parametrize("into", [False, True])
def test_a_capture_without_an_end_is_dropped_by_no_python_code(device, graph, word, into):
    """What a signal handler raises in a finalizer that is Python code is lost, and so was the capture."""
    called = []
    with device.stream() as stream:
        block, before = left_block(device, graph, stream, word, into), sys.getprofile()
        gc.collect()
        gc.disable()
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            del block
        finally:
            sys.setprofile(before)
            gc.enable()
        owned.drain()
        stream.synchronize()  # no longer captured
    assert not called


@pytest.mark.parametrize("into", [False, True])
def test_a_late_end_of_a_capture_leaves_the_next_one_of_the_stream(device, graph, step, word, into):
    """An interrupt right after the call that ended the first one may leave it like this, kept by its traceback."""
    with device.stream() as stream, device.graph() as first:
        block, made = left_block(device, first, stream, word, into), cuda_h.CUgraph()
        with device.current():
            rawcuda.cu.cuStreamEndCapture(cuda_h.CUstream(stream.handle), ctypes.byref(made))
        with stream.capture(into=graph):
            step.kernel.launch(word, 2, grid=1, block=1, stream=stream)
            del block
            owned.drain()
            step.kernel.launch(word, 3, grid=1, block=1, stream=stream)
        if not into:
            rawcuda.cu.cuGraphDestroy(made)
        assert len(graph.nodes) == 2
        run(graph, device)
        assert word.tolist() == [23]


@pytest.mark.codes("cuStreamEndCapture returned 901")
@pytest.mark.parametrize("told", [True, False])
def test_a_late_end_of_a_capture_that_was_broken_ends_it(device, graph, word, monkeypatch, told):
    """The driver need not tell the number of such a capture."""
    calls = device._primary.calls
    ask = calls.cuStreamGetCaptureInfo

    def untold(stream, status, number):
        return ask(stream, status, ctypes.byref(ctypes.c_uint64()))

    with device.stream() as stream:
        block = left_block(device, graph, stream, word, True)
        with pytest.raises(errors.CudaError), device.current():
            rawcuda.cu.cuStreamSynchronize(cuda_h.CUstream(stream.handle))
        if not told:
            monkeypatch.setitem(vars(calls), "cuStreamGetCaptureInfo", untold)
        del block
        owned.drain()
        stream.synchronize()


def test_a_capture_whose_end_was_interrupted_ends_before_the_next_one_begins(device, graph, word, monkeypatch):
    with device.stream() as stream, device.graph() as first:
        calls = stream._primary.calls

        def interrupted(*arguments):
            monkeypatch.undo()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            with stream.capture(into=first):
                word.fill(1, stream=stream)
                monkeypatch.setitem(vars(calls), "cuStreamEndCapture", interrupted)
        assert owned.dropped
        with stream.capture(into=graph):
            word.fill(2, stream=stream)
        assert len(graph.nodes) == 1


@pytest.mark.parametrize("then", ["close", "change", "collect"])
def test_a_graph_is_destroyed_after_a_capture_into_it_that_was_collected(device, word, then):
    """A collection clears weak references before it frees anything."""
    heard, graph = [], device.graph()
    with device.stream() as stream:
        cycle = [left_block(device, graph, stream, word, True)]
        cycle.append(cycle)
        if then == "collect":
            graph = None
        del cycle
        with rawcuda.trace(heard):
            gc.collect()
            if then == "change":
                graph.empty()
                assert len(graph.nodes) == 2
            if graph is not None:
                graph.close()
            owned.drain()
        stream.synchronize()
    made = [call.name for call in heard if hasattr(call, "name")]
    assert made.index("cuStreamEndCapture") < made.index("cuGraphDestroy")


@pytest.mark.codes("cuStreamEndCapture returned 908")  # the other thread must do it
@pytest.mark.parametrize("into", [False, True])
def test_a_graph_is_destroyed_after_the_end_of_a_capture_that_another_thread_began(device, word, into):
    heard = []
    with device.stream() as stream, ThreadPoolExecutor(1) as other:
        graph = device.graph() if into else None
        kept = [other.submit(left_block, device, graph, stream, word, into).result()]
        with rawcuda.trace(heard):
            if into:
                graph.close()
            kept.clear()
            gc.collect()
            owned.drain()
            assert not [call for call in heard if getattr(call, "name", "") == "cuGraphDestroy"]
            other.submit(owned.drain).result()
        stream.synchronize()
    made = [call.name for call in heard if hasattr(call, "name")]
    assert made.index("cuStreamEndCapture") < made.index("cuGraphDestroy") and made.count("cuGraphDestroy") == 1


def test_what_a_capture_into_a_graph_uses_is_kept(device, graph):
    class Exporter:
        alive = 0

        def __init__(self):
            self.memory = device.upload(array.array("f", [1.0]))
            self.__cuda_array_interface__ = {**self.memory.__cuda_array_interface__, "stream": None}
            Exporter.alive += 1

        def __del__(self):
            Exporter.alive -= 1

    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        add = loaded["add"].configure(grid=1, block=1, stream=stream)
        out = floats(device, 0)
        device.synchronize()
        exporter = Exporter()
        with stream.capture(into=graph):
            add(exporter, exporter, out, 1)
        del exporter
        assert Exporter.alive == 1
        run(graph, device)
        assert out.tolist() == [2.0]
        graph.close()
        assert Exporter.alive == 0


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_captures_into_a_graph_that_fail(device, graph, step, word):
    with device.stream() as stream, device.graph() as other:
        theirs = other.empty()
        with pytest.raises(ValueError, match="another graph"):
            with stream.capture(into=graph, after=theirs):
                pass
        with pytest.raises(TypeError, match="into"):
            stream.capture(into=1)
        with pytest.raises(ValueError, match="into="):
            stream.capture(after=theirs)
        with pytest.raises(ValueError, match="mode"):
            stream.capture("local", into=graph)
        with pytest.raises(KeyError):
            with stream.capture(into=graph):
                raise KeyError
        recording = stream.capture(into=graph)
        assert "Recording" in repr(recording)
        with recording:
            pass
        with pytest.raises(ValueError, match="only once"):
            recording.__enter__()
        with pytest.raises(errors.CudaError):
            with stream.capture() as outer:
                with stream.capture(into=graph):
                    pass
        assert "spoilt" in repr(outer)
        graph.empty()  # nothing is left of these captures
        run(graph, device)
        other.close()
        with pytest.raises(errors.Closed):
            with stream.capture(into=other):
                pass


@pytest.mark.codes("cuStreamEndCapture returned 908")  # in the thread that closes
@pytest.mark.parametrize("when", ["while the capture begins", "during the capture"])
def test_another_thread_closes_the_graph_of_a_capture(device, graph, step, word, monkeypatch, when):
    """It is destroyed afterwards, since the driver goes on to capture into it."""
    recording, calls = module("gpu.graphs.recording"), []
    closing = threading.Thread(target=graph.close)

    def meanwhile():
        closing.start()
        time.sleep(0.05)

    if when == "while the capture begins":
        monkeypatch.setattr(recording, "_let_waits_end", meanwhile)
    with device.stream() as stream, rawcuda.trace(lambda each: calls.append(getattr(each, "name", ""))):
        with pytest.raises(errors.Closed, match="this Graph is closed"):
            with stream.capture(into=graph):
                if when == "during the capture":
                    meanwhile()
                closing.join()
                word.fill(1, stream=stream)
        assert [name for name in calls if name in ("cuStreamEndCapture", "cuGraphDestroy")][-2:] == [
            "cuStreamEndCapture",
            "cuGraphDestroy",
        ]
    assert calls.count("cuGraphDestroy") == 1 and "cuStreamBeginCaptureToGraph" in calls


def test_a_launch_in_a_capture_becomes_a_child_graph(device, graph, step, word):
    graph.kernel(step, word, 1)
    with device.stream() as stream:
        with stream.capture() as outer:
            graph.launch(stream)
            graph.launch(stream)
        graph.close()
        assert [node.kind for node in outer.nodes] == ["graph", "graph"]
        outer.launch(stream)
        stream.synchronize()
        assert word.tolist() == [11]
        outer.close()


def test_a_recorded_graph_can_be_changed(device, word):
    with device.load(graph_kernels.STEP) as loaded, device.stream() as stream:
        step = loaded["step"].configure(grid=1, block=1, stream=stream)
        with stream.capture() as graph:
            step(word, 1)
        (first,) = graph.nodes
        assert (first.kind, first.label) == ("kernel", "step")
        graph.kernel(step, word, 2, after=first)
        graph.launch(stream)
        stream.synchronize()
        assert word.tolist() == [12]
        with graph.instantiate() as executable:
            executable.launch(stream)
            stream.synchronize()
        assert word.tolist() == [1212]
        graph.close()


def test_a_recorded_kernel_has_no_name_after_its_module(device, word, graph):
    with device.load(graph_kernels.STEP) as loaded, device.stream() as stream:
        step = loaded["step"].configure(grid=1, block=1, stream=stream)
        with stream.capture(into=graph):
            step(word, 1)
            (node,) = graph.nodes
            assert node.label == ""  # the graph is not complete
        assert node.label == "step"
        with stream.capture(into=graph):
            step(word, 1)
    (other,) = [each for each in graph.nodes if each != node]  # the driver must not read the name of its function
    assert (node.label, other.label) == ("step", "")
    with pytest.raises(errors.Closed, match="update that node"):
        graph.debug_dot()
    other.destroy()
    node.destroy()
    assert graph.debug_dot().startswith("digraph")


def test_what_is_captured_after_debug_dot_is_noticed_when_it_is_closed(device, graph, step, word):
    loaded = device.load(graph_kernels.STEP)
    with device.stream() as stream, stream.capture(into=graph):
        step.kernel.launch(word, 1, grid=1, block=1, stream=stream)
        graph.debug_dot()
        loaded["step"].launch(word, 2, grid=1, block=1, stream=stream)
    loaded.close()
    with device.graph() as outer:
        for look in (graph.debug_dot, graph.clone, lambda: outer.embed(graph)):
            with pytest.raises(rawcuda.Closed, match="Module closed"):
                look()


def test_memory_that_is_allocated_in_a_capture(device, word):
    with device.stream() as stream:
        with stream.capture() as graph:
            with device.allocate(4, stream=stream) as memory:
                memory.fill(1, stream=stream)
                word.copy_from(memory.view("uint32"), stream=stream)
        assert {node.kind for node in graph.nodes} == {"allocation", "fill", "copy", "free"}
        with graph.instantiate() as executable:
            for _ in range(3):  # each launch allocates the memory, and frees it
                word.fill(0, stream=stream)
                executable.launch(stream)
                stream.synchronize()
                assert word.tolist() == [0x01010101]
        graph.close()


# -- conditional nodes


@pytest.fixture
def conditions(device):
    with device.load(graph_kernels.CONDITIONS) as loaded:
        yield {name: loaded[name].configure(grid=1, block=1) for name in ("countdown", "choose")}


def test_a_while_loop(device, graph, step, word, conditions):
    count = device.upload(array.array("i", [4]))
    condition = graph.create_condition(default=1)
    before = graph.kernel(step, word, 9)
    loop = graph.while_loop(condition, after=before)
    body = loop.body
    counted = body.kernel(conditions["countdown"], condition, count)
    body.kernel(step, word, 1, after=counted)
    graph.kernel(step, word, 8, after=loop)
    assert (loop.kind, loop.form, loop.branches, loop.condition) == ("conditional", "while", (body,), condition)
    run(graph, device)
    assert word.tolist() == [911118] and count.tolist() == [0]


def test_an_executable_graph_with_a_condition_outlives_its_graph(device, conditions):
    count = device.upload(array.array("i", [4]))
    graph = device.graph()
    condition = graph.create_condition(default=1)
    graph.while_loop(condition).body.kernel(conditions["countdown"], condition, count)
    with graph.instantiate() as executable:
        executable.launch()
        device.synchronize()
        graph.close()
        count.copy_from(array.array("i", [3]))
        executable.launch()
        device.synchronize()
    assert count.tolist() == [0]
    count.owner.close()


def test_a_body_copies_no_pageable_memory(device, graph, word, conditions):
    with device.allocate(4, kind="pinned") as pinned:
        for given in (pinned, bytes(4)):
            condition = graph.create_condition(default=1)
            node = graph.if_then(condition)
            node.then.copy(word.owner, given)
            if given is pinned:
                graph.instantiate().close()
            else:
                with pytest.raises(errors.Unsupported, match="only device memory and pinned memory"):
                    graph.instantiate()


def test_memory_of_a_graph_is_released_after_the_graph_was_closed(device):
    graph = device.graph()
    node = graph.allocate(1 << 20)
    graph.launch()
    graph.close()
    node.release()
    device.synchronize()
    with pytest.raises(errors.InvalidUse):  # it is free
        node.release()


@pytest.mark.parametrize("value", [0, 1, 5])
def test_if(device, graph, step, word, conditions, value):
    where = device.upload(array.array("I", [value]))
    condition, other = graph.create_condition(), graph.create_condition()
    chosen = graph.kernel(conditions["choose"], condition, where)
    also = graph.kernel(conditions["choose"], other, where)
    one = graph.if_then(condition, after=chosen)
    one.then.kernel(step, word, 1)
    two = graph.if_else(other, after=[also, one])
    two.then.kernel(step, word, 2)
    two.else_.kernel(step, word, 3)
    run(graph, device)
    assert word.tolist() == [12 if value else 3]
    with pytest.raises(AttributeError, match="no such graph"):
        one.else_
    with pytest.raises(AttributeError, match="no such graph"):
        one.body


@pytest.mark.parametrize("value, expected", [(0, 1), (1, 2), (2, 3), (3, 0), (2**32 - 1, 0)])
def test_switch(device, graph, step, word, conditions, value, expected):
    where = device.upload(array.array("I", [value]))
    condition = graph.create_condition()
    node = graph.switch(condition, 3, after=graph.kernel(conditions["choose"], condition, where))
    for digit, branch in enumerate(node.branches, 1):
        branch.kernel(step, word, digit)
    run(graph, device)
    assert word.tolist() == [expected]


def test_a_default_is_assigned_in_each_launch(device, graph, step, word, conditions):
    count = device.upload(array.array("i", [1]))
    condition = graph.create_condition(default=1)
    node = graph.if_then(condition)
    first = node.then.kernel(step, word, 1)
    node.then.kernel(conditions["countdown"], condition, count, after=first)
    run(graph, device, 3)
    assert word.tolist() == [111]


def test_nested_conditions_and_captures_into_a_body(device, graph, word, conditions):
    outer, inner = graph.create_condition(1), graph.create_condition(1)
    count = device.upload(array.array("i", [2]))
    with device.load(graph_kernels.STEP) as loaded, device.stream() as stream:
        step = loaded["step"].configure(grid=1, block=1, stream=stream)
        loop = graph.while_loop(outer)
        node = loop.body.if_then(inner)
        with stream.capture(into=node.then):
            step(word, 1)
            step(word, 2)
        loop.body.kernel(conditions["countdown"], outer, count, after=node)
        run(graph, device)
        assert word.tolist() == [1212]
        picture = graph._repr_svg_()
        assert "while not 0" in picture and "if not 0" in picture
        graph.close()


def test_conditions_that_are_refused(device, graph, step, word):
    with device.graph() as other:
        theirs, mine = other.create_condition(), graph.create_condition()
        with pytest.raises(ValueError, match="another graph"):
            graph.if_then(theirs)
        graph.while_loop(mine)
        with pytest.raises(ValueError, match="already"):
            graph.if_then(mine)
        with pytest.raises(TypeError, match="create_condition"):
            graph.if_then(mine.handle)
        for count, kind in (
            (0, ValueError),
            (-1, ValueError),
            (2**63, ValueError),
            ("1", TypeError),
            (True, TypeError),
        ):
            with pytest.raises(kind, match="count"):
                graph.switch(graph.create_condition(), count)
        for default, kind in ((-1, ValueError), (2**32, ValueError), (1.5, TypeError)):
            with pytest.raises(kind, match="default"):
                graph.create_condition(default)
        for refused in (graph.clone, lambda: other.embed(graph)):
            with pytest.raises(errors.CudaError):
                refused()
        assert "default" not in repr(mine) and repr(theirs).startswith("<Condition 0x")
        other.close()
        with pytest.raises(errors.Closed):
            theirs.handle


def test_a_condition_without_a_node_spoils_the_graph(graph):
    graph.create_condition()
    with pytest.raises(errors.InvalidUse):
        graph.instantiate()


def test_an_old_driver_says_what_is_needed(device, graph, monkeypatch):
    driver = type(graph._primary.driver)
    has = driver.has
    condition = graph.create_condition()
    monkeypatch.setattr(driver, "version", property(lambda self: 12040))
    with pytest.raises(errors.Unsupported, match=r"CUDA 12\.8, and this is one of 12\.4"):
        graph.switch(condition, 2)
    with pytest.raises(errors.Unsupported, match=r"CUDA 12\.8"):
        graph.if_else(condition)
    monkeypatch.setattr(driver, "version", property(lambda self: 12020))
    monkeypatch.setattr(driver, "has", lambda self, name: "Conditional" not in name and has(self, name))
    with pytest.raises(errors.Unsupported, match=r"CUDA 12\.4, and this is one of 12\.2"):
        graph.create_condition()


def test_functions_of_older_drivers_do_the_same(device, step, word, monkeypatch):
    """Drivers before CUDA 12.0 and 12.3 have only the first forms of these functions."""
    graph = device.graph()
    driver = type(graph._primary.driver)
    has = driver.has
    monkeypatch.setattr(
        driver, "has", lambda self, name: not (name.startswith("cuGraph") and name.endswith("_v2")) and has(self, name)
    )
    first, second = graph.kernel(step, word, 1), graph.kernel(step, word, 2)
    graph.add_edge(first, second)
    assert graph.edges == [(first, second)] and second.pred == [first] and first.succ == [second]
    second.update(word, 3)
    with graph.instantiate() as executable, device.graph() as other:
        executable[first].update(word, 4)
        run(executable, device)
        assert word.tolist() == [43]
        other.empty()
        with pytest.raises(errors.InvalidUse, match="which has 1 nodes and not 2"):
            executable.update(other)
        executable.update(graph)
        run(executable, device)
        assert word.tolist() == [4313]
    graph.remove_edge(first, second)
    graph.close()


# -- orders


@pytest.mark.emulator_only("a GPU chooses one order")
def test_a_missing_edge_shows():
    """In random mode, nodes without an edge between them run in any order."""
    emulator = module("emulator").Emulator

    client = __import__("tests.emulator.emulator_client", fromlist=["Client"]).Client
    found = set()
    for seed in range(12):
        made = client("random", seed)
        assert isinstance(made.emulator, emulator)
        address = made.upload(bytes(4))
        made.do("cuCtxSynchronize")
        graph, kernel = made.get("cuGraphCreate", 0), made.kernels()("step")
        for digit in (1, 2, 3):
            _add_step(made, graph, kernel, address, digit)
        made.do("cuGraphLaunch", made.get("cuGraphInstantiateWithFlags", graph, 0), 0)
        made.do("cuCtxSynchronize")
        found.add(made.number(address))
    assert len(found) > 2 and found <= {int("".join(each)) for each in itertools.permutations("123")}


def _add_step(client, graph, kernel, address, digit):
    import ctypes
    import struct

    cells = ctypes.create_string_buffer(struct.pack("<QQ", address, digit), 16)
    pointers = (ctypes.c_uint64 * 2)(ctypes.addressof(cells), ctypes.addressof(cells) + 8)
    words = struct.pack("<Q7I4x4Q", kernel, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    return client.get("cuGraphAddKernelNode_v2", graph, 0, 0, words)


# -- options of kernels


def test_options_of_a_kernel_node(device, graph, step, word):
    kernel = step.kernel
    cooperative = kernel.configure(grid=1, block=1, cooperative=True)
    node = graph.kernel(cooperative, word, 1)
    plain = graph.kernel(step, word, 2, after=node)
    run(graph, device)
    assert word.tolist() == [12]
    with graph.instantiate() as executable:
        executable[node].update(cooperative, word, 3)
        with pytest.raises(ValueError, match="options"):
            executable[node].update(step, word, 3)
        with pytest.raises(ValueError, match="options"):
            executable[plain].update(cooperative, word, 3)
        run(executable, device)
        assert word.tolist() == [1232]
    with pytest.raises(ValueError, match="options"):
        node.update(step, word, 3)
    plain.update(cooperative, word, 4)
    run(graph, device)
    assert word.tolist() == [123214]


@pytest.mark.parametrize("made", ["captured", "embedded"])
@pytest.mark.parametrize(
    "old, new",
    [({}, {"cluster": 2}), ({"cluster": 2}, {}), ({"cluster": 2}, {"cluster": 4}), ({}, {"cooperative": True})]
    + [({"cooperative": True}, {}), ({}, {"priority": -1}), ({}, {"cluster": 1})],
)
def test_options_of_a_kernel_node_that_a_graph_did_not_add(device, word, made, old, new):
    if not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("the device has no clusters")
    with device.load(graph_kernels.CLUSTER) as loaded, device.stream() as stream, device.graph() as outer:
        kernel = loaded["cluster"]
        with stream.capture() as graph:
            kernel.launch(word, grid=4, block=1, stream=stream, **old)
        (node,) = graph.nodes
        if made == "embedded":
            with device.graph() as inner:
                inner.kernel(kernel, word, grid=4, block=1, **old)
                (node,) = outer.embed(inner).child.nodes
        others = kernel.configure(grid=4, block=1, **new)
        seen = old.get("cluster", 1)
        with node.graph._root.instantiate() as executable:
            with pytest.raises(ValueError, match="options of a kernel node.*cannot be changed"):
                executable[node].update(others, word)
            executable[node].update(kernel.configure(grid=8, block=1, **old), word)
            run(executable, device)
        assert word.tolist() == [seen]
        if old.keys() <= new.keys():
            node.update(others, word)
            seen = new.get("cluster", 1)
        else:
            with pytest.raises(ValueError, match="options of a kernel node.*cannot be removed"):
                node.update(others, word)
        run(node.graph._root, device)
        assert word.tolist() == [seen]
        graph.close()


@pytest.mark.parametrize("name", ["cluster", "cluster_dimension"])
def test_options_that_are_not_given_stay(device, graph, word, name):
    """They counted as removed, which is refused."""
    if not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("the device has no clusters")
    with device.load(graph_kernels.CLUSTER) as loaded:
        node = graph.kernel(loaded["cluster"], word, grid=2, block=1, cluster=2, priority=-1)
        with graph.instantiate() as executable:
            node.update(word, grid=4)
            executable[node].update(word, grid=8)
            for each in (graph, executable):
                word.fill(0)
                run(each, device)
                assert word.tolist() == [2]
            with pytest.raises(ValueError, match="cannot be changed in an executable graph"):
                executable[node].update(word, **{name: 4}, grid=4)
        node.update(word, **{name: 4})
        run(graph, device)
        assert word.tolist() == [4]


def test_new_arguments_are_those_of_the_kernel_of_the_executable_graph(device, graph, step, word):
    """Its node and that of the graph may have different kernels."""
    if not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("the device has no clusters")
    with device.load(graph_kernels.CLUSTER) as loaded, device.graph() as alike:
        other = loaded["cluster"].configure(grid=1, block=1)
        node = graph.kernel(step, word, 1)
        alike.kernel(other, word)

        def run_with(start):
            word.fill(start)
            run(executable, device)
            return word.tolist()

        with graph.instantiate() as executable:
            node.update(other, word)
            executable[node].update(word, 3)
            assert run_with(7) == [73]
            executable[node].update(other, word)
            node.update(step, word, 1)
            executable[node].update(word)
            assert run_with(7) == [1]
            with pytest.raises(TypeError, match="2 were given"):
                executable[node].update(word, 3)
            executable[node].update(word)
            executable.update(graph)
            executable[node].update(word, 4)
            assert run_with(7) == [74]
            executable.update(alike)
            with pytest.raises(TypeError, match="whole executable graph was updated"):
                executable[node].update(word, 4)
            executable[node].update(step, word, 5)
            executable[node].update(word, 6)
            assert run_with(7) == [76]


def test_what_nodes_of_child_graphs_do_is_not_guessed(device, graph, step, word):
    """New arguments alone were given to another kernel than that of the node."""
    with device.load(kernels.ADD) as loaded, device.graph() as inner, device.graph() as another:
        three = [device.zeros(4, "float32") for _ in range(3)]
        other = loaded["add"].configure(grid=1, block=1)
        inner.kernel(step, word, 1)
        another.kernel(other, *three, 1)
        outer = graph.embed(inner)
        node = outer.child.nodes[0]
        node.update(step, word, 2)
        clone = graph.clone()
        node.update(other, *three, 1)
        copied = clone.find(outer).child.nodes[0]
        with pytest.raises(TypeError, match="captured or embedded.*give update\\(\\) a Launch"):
            copied.update(word, 3)
        copied.update(step, word, 3)
        copied.update(word, 4)
        word.fill(7)
        run(clone, device)
        assert word.tolist() == [74]
        with graph.instantiate() as executable:
            executable[node].update(*three, 1)
            executable[outer].update(inner)
            with pytest.raises(TypeError, match="give update\\(\\) a Launch"):
                executable[node].update(word, 3)
            executable[node].update(step, word, 5)
            executable[node].update(word, 6)
            word.fill(7)
            run(executable, device)
            assert word.tolist() == [76]
        clone.close()


def test_a_node_beside_a_child_graph_that_is_replaced_stays_known(device, graph, step, word):
    """Its options in the executable graph and its kernel are as they were."""
    cooperative = step.kernel.configure(grid=1, block=1, cooperative=True)
    with device.graph() as inner:
        inner.kernel(step, word, 1)
        outer = graph.embed(inner)
        node = graph.kernel(cooperative, word, 2, after=outer)
        with graph.instantiate() as executable:
            executable[outer].update(inner)
            executable[node].update(cooperative, word, 3)
            executable[outer].update(inner)
            executable[node].update(word, 4)
            with pytest.raises(ValueError, match="options"):
                executable[node].update(step, word, 3)
            run(executable, device)
    assert word.tolist() == [14]


def test_options_that_a_kernel_node_got_after_the_executable_graph_was_made(device, graph, step, word):
    cooperative = step.kernel.configure(grid=1, block=1, cooperative=True)
    with device.stream() as stream, stream.capture() as captured:
        step.kernel.launch(word, 1, grid=1, block=1, stream=stream)
    for node in (graph.kernel(step, word, 1), graph.embed(captured).child.nodes[0]):
        with graph.instantiate() as executable:
            node.update(cooperative, word, 1)
            with pytest.raises(ValueError, match="options of a kernel node.*cannot be changed"):
                executable[node].update(cooperative, word, 2)
            if node.graph is graph:  # (what an embedded node was like is not known any more)
                executable[node].update(step, word, 2)
        with graph.instantiate() as executable:
            executable[node].update(cooperative, word, 2)
    captured.close()


def test_a_texture_of_a_node(device, graph, word, step):
    with device.texture(device.upload(array.array("f", [1.0, 2.0]))) as texture:
        with pytest.raises(TypeError, match="Event"):
            graph.record(texture)


@pytest.mark.emulator_only("a driver may find this only when it instantiates the graph")
def test_what_the_body_of_a_condition_cannot_contain(graph):
    body = graph.if_then(graph.create_condition()).then
    with pytest.raises(errors.Unsupported, match="cannot contain a host function"):
        body.callback(print)
    with pytest.raises(errors.Unsupported):
        body.allocate(4)


@pytest.mark.gpu_only("the emulator says nothing about what a launch costs")
def test_a_graph_costs_less_than_its_launches(device, graph, word):
    from time import perf_counter

    with device.load(graph_kernels.STEP) as loaded, device.stream() as stream:
        step = loaded["step"].configure(grid=1, block=1, stream=stream)
        last = None
        for _ in range(200):
            last = graph.kernel(step, word, 1, after=last)
        graph.upload(stream)

        def seconds(work):
            work()
            stream.synchronize()
            began = perf_counter()
            for _ in range(20):
                work()
            stream.synchronize()
            return perf_counter() - began

        assert seconds(lambda: graph.launch(stream)) < seconds(lambda: [step(word, 1) for _ in range(200)])


def test_an_update_of_which_only_a_part_was_accepted_is_taken_back(device, monkeypatch):
    """The driver takes the arguments of a kernel, and refuses an attribute of it."""
    with (
        device.stream() as stream,
        device.allocate(16) as old,
        device.load(kernels.ADD) as code,
        device.graph() as graph,
    ):
        old.copy_from(array.array("f", [1.0] * 4))
        new = device.allocate(16).copy_from(old)
        node = graph.kernel(code["add"].configure(grid=1, block=4, priority=-1), old, old, old, 4)
        driver = device._primary.driver
        set_attribute, refusals = driver.cuGraphKernelNodeSetAttribute, [errors.InvalidUse("refused", code=1)]

        def refused_once(*arguments):
            while refusals:
                raise refusals.pop()
            return set_attribute(*arguments)

        monkeypatch.setitem(driver.__dict__, "cuGraphKernelNodeSetAttribute", refused_once)
        with pytest.raises(errors.InvalidUse, match="refused"):
            node.update(code["add"].configure(grid=1, block=4, priority=-2), new, new, new, 4)
        new.close()  # nothing keeps it, and nothing uses it
        device.synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert old.view("float32").tolist() == [2.0] * 4
        graph.close()


@pytest.mark.parametrize("way", ["captured", "embedded"])
def test_what_captured_and_embedded_nodes_use_must_stay_open(device, step, word, graph, way):
    """It is not known for each of them: after an update of one, another one may use it."""
    with device.load(graph_kernels.STEP) as code, device.stream() as stream, device.graph() as inner:
        if way == "captured":
            with stream.capture(into=graph):
                code["step"].launch(word, 1, grid=1, block=1, stream=stream)
            (node,) = graph.nodes
        else:
            inner.kernel(code["step"], word, 1, grid=1, block=1)
            (node,) = graph.embed(inner).child.nodes
        node.update(step, word, 2)
        run(graph, device)
    assert word.tolist() == [2]
    with pytest.raises(errors.Closed, match="build the graph again if the node was captured or embedded$"):
        graph.launch()
    graph.nodes[0].destroy()
    graph.launch()


def test_a_condition_that_no_node_uses_is_named_among_the_reasons(device, graph):
    first, second = graph.create_condition(1), graph.create_condition(1)
    graph.if_then(first)
    try:
        graph.launch()
        device.synchronize()
        pytest.skip("this driver accepts conditions without a node")
    except errors.InvalidUse as error:
        assert "needs a node for each condition" in str(error)
    graph.if_then(second)
    run(graph, device)


class Array(types.SimpleNamespace):
    """An array of another library."""


def interrupt_after(monkeypatch, driver, symbol, error):
    """Let a signal handler raise an error once, when a call of the driver has been made."""
    call, errors_left = getattr(driver, symbol), [error]

    def interrupted(*arguments):
        call(*arguments)
        while errors_left:
            raise errors_left.pop()

    monkeypatch.setitem(driver.__dict__, symbol, interrupted)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("call", ["kernel", "update", "executable"])
def test_what_a_signal_handler_raises_is_no_refusal(device, step, word, graph, monkeypatch, call, error):
    """Also a TimeoutError, which is an Exception: the driver uses what it was given, so this is kept."""
    owner = device.upload(array.array("I", [0]))
    given = Array(__cuda_array_interface__=owner.__cuda_array_interface__)
    weak, driver = weakref.ref(given), device._primary.driver
    suffix = "_v2" if driver.has("cuGraphAddKernelNode_v2") else ""
    node = graph.kernel(step, word, 1)
    executable = graph.instantiate()
    work, symbol = {
        "kernel": (partial(graph.kernel, step), "cuGraphAddKernelNode"),
        "update": (node.update, "cuGraphKernelNodeSetParams"),
        "executable": (executable[node].update, "cuGraphExecKernelNodeSetParams"),
    }[call]
    interrupt_after(monkeypatch, driver, symbol + suffix, error)
    with pytest.raises(error):
        work(given, 7)
    del given
    gc.collect()
    assert weak() is not None
    run(executable if call == "executable" else graph, device)
    assert owner.tolist() == [7]
    executable.close(), graph.close(), owner.owner.close()


def test_options_that_an_executable_node_cannot_get_change_nothing(device, step, word, graph):
    node = graph.kernel(step, word, 1)
    with graph.instantiate() as executable, device.load(graph_kernels.STEP) as code:
        with pytest.raises(ValueError, match="cannot be changed in an executable graph"):
            executable[node].update(code["step"].configure(grid=1, block=1, priority=-1), word, 2)
        executable[node].update(word, 3)  # its Launch is still known
        run(executable, device)
        assert word.tolist() == [3]


@pytest.mark.codes("cuGraphDestroyNode returned 801")  # in a graph with an allocation
@pytest.mark.parametrize(
    "error", [errors.InvalidUse("refused", code=1), KeyboardInterrupt()], ids=["refused", "signal"]
)
@pytest.mark.parametrize("can_lose", [True, False], ids=["plain", "with an allocation"])
def test_a_node_without_its_options_is_removed_or_keeps_what_it_uses(device, word, graph, monkeypatch, can_lose, error):
    if not can_lose:
        graph.allocate(64)
    owner = device.upload(array.array("I", [0]))
    given = Array(__cuda_array_interface__=owner.__cuda_array_interface__)
    weak = weakref.ref(given)

    def refused(*arguments):
        raise error

    monkeypatch.setitem(device._primary.driver.__dict__, "cuGraphKernelNodeSetAttribute", refused)
    with device.load(graph_kernels.STEP) as code:
        with pytest.raises(type(error)) as caught:
            graph.kernel(code["step"], given, 7, grid=1, block=1, priority=-1)
        assert ("has this node now" in str(caught.value)) is (not can_lose and isinstance(error, errors.InvalidUse))
        assert [node.kind for node in graph.nodes] == ([] if can_lose else ["allocation", "kernel"])
        del given, caught
        error.__traceback__ = None
        gc.collect()
        assert weak() is not None or can_lose
        graph.close()
    owner.owner.close()


@pytest.mark.parametrize("way", ["added", "captured"])
def test_an_update_whose_second_option_is_refused(device, word, graph, monkeypatch, way):
    """The first option is as it was, too; of a captured node, the arguments cannot be known, and the error says so."""
    driver, asked = device._primary.driver, cuda_h.CUlaunchAttributeValue()
    set_attribute, given, other = driver.cuGraphKernelNodeSetAttribute, [], device.upload(array.array("I", [0]))

    def second_refused(node, number, value):
        given.append(number)
        if len(given) == 2:
            raise errors.InvalidUse("refused", code=1)
        return set_attribute(node, number, value)

    with device.load(graph_kernels.STEP) as code, device.stream() as stream:
        if way == "added":
            node = graph.kernel(code["step"], word, 1, grid=1, block=1)
        else:
            with stream.capture(into=graph):
                code["step"].launch(word, 1, grid=1, block=1, stream=stream)
            (node,) = graph.nodes
        monkeypatch.setitem(driver.__dict__, "cuGraphKernelNodeSetAttribute", second_refused)
        launch = code["step"].configure(grid=1, block=1, priority=-1, cooperative=True)
        with pytest.raises(errors.InvalidUse, match="^refused$" if way == "added" else "update it again$"):
            node.update(launch, other, 5)
        monkeypatch.undo()
        run(graph, device)
        assert (word.tolist(), other.tolist()) == (([1], [0]) if way == "added" else ([0], [5]))
        if way == "added":
            driver.cuGraphKernelNodeGetAttribute(cuda_h.CUgraphNode(node.handle), given[0], ctypes.byref(asked))
            assert not any(bytes(asked))
        node.update(launch, other, 6)
        run(graph, device)
        assert other.tolist() == [6 if way == "added" else 56]
        graph.close(), other.owner.close()


@pytest.mark.codes("cuGraphDestroyNode returned 801")  # in a graph with an allocation
@pytest.mark.parametrize("can_lose", [True, False], ids=["plain", "with an allocation"])
def test_an_interrupt_leaves_no_node_without_its_options(device, word, graph, monkeypatch, can_lose):
    driver, asked = device._primary.driver, cuda_h.CUlaunchAttributeValue()
    before = [] if can_lose else [graph.allocate(64)]
    with device.load(graph_kernels.STEP) as code:
        launch = code["step"].configure(grid=1, block=1, cooperative=True)
        symbol = "cuGraphAddKernelNode" + "_v2" * driver.has("cuGraphAddKernelNode_v2")
        interrupt_after(monkeypatch, driver, symbol, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            graph.kernel(launch, word, 1)
        left = [node for node in graph.nodes if node not in before]
        assert len(left) == (0 if can_lose else 1)
        for node in left:
            driver.cuGraphKernelNodeGetAttribute(cuda_h.CUgraphNode(node.handle), 2, ctypes.byref(asked))
            assert asked.cooperative == 1
        graph.close()


@pytest.mark.parametrize("call", ["cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetAttribute"])
@pytest.mark.parametrize("way", ["added", "captured"])
def test_an_interrupt_leaves_no_node_with_the_options_of_another_launch(device, word, graph, monkeypatch, way, call):
    driver, asked = device._primary.driver, cuda_h.CUlaunchAttributeValue()
    with device.load(graph_kernels.STEP) as code, device.stream() as stream:
        if way == "added":
            node = graph.kernel(code["step"], word, 1, grid=1, block=1)
        else:
            with stream.capture(into=graph):
                code["step"].launch(word, 1, grid=1, block=1, stream=stream)
            (node,) = graph.nodes
        symbol = call + "_v2" * driver.has(call + "_v2")
        interrupt_after(monkeypatch, driver, symbol, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            node.update(code["step"].configure(grid=1, block=1, priority=-1, cooperative=True), word, 2)
        driver.cuGraphKernelNodeGetAttribute(cuda_h.CUgraphNode(node.handle), 2, ctypes.byref(asked))
        run(graph, device)
        assert (asked.cooperative, word.tolist()) == (1, [2])
        node.update(word, 3)
        run(graph, device)
        assert word.tolist() == [23]
        graph.close()


@pytest.mark.parametrize("way", ["after", "before"])
def test_an_interrupt_of_destroy_leaves_a_node_that_is_there_or_is_not(device, step, word, graph, monkeypatch, way):
    """The driver may give the handle of a node that is gone to another node."""
    driver, node = device._primary.driver, graph.kernel(step, word, 1)
    handle = node.handle
    if way == "after":
        interrupt_after(monkeypatch, driver, "cuGraphDestroyNode", KeyboardInterrupt)
    else:

        def interrupted(*arguments):
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setitem(driver.__dict__, "cuGraphDestroyNode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        node.destroy()
    if way == "before":
        assert graph.nodes == [node] and node.label == "step" and graph._kept
        node.destroy()
    assert handle not in graph._nodes and handle not in graph._given and not graph._kept
    node.destroy()
    with pytest.raises(errors.Closed, match="was destroyed"):
        node.pred
    assert not graph.nodes


def test_a_node_is_forgotten_however_often_that_is_interrupted(device, graph, monkeypatch):
    inner = device.graph()
    inner.fill(device.allocate(4), 1)
    node = graph.embed(inner)
    (within,) = node.child.nodes
    keep, left = type(graph)._keep, [KeyboardInterrupt]

    def interrupted(self, key, things):
        if key == handle and left:
            raise left.pop()
        keep(self, key, things)

    handle = node.handle
    monkeypatch.setattr(type(graph), "_keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        node.destroy()
    assert not graph._kept and not graph._given
    for each in (node, within):
        with pytest.raises(errors.Closed, match="was destroyed"):
            each.handle
    inner.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, partial(errors.InvalidUse, code=1)], ids=["signal", "refused"])
def test_after_an_interrupt_it_is_not_known_what_a_node_does(device, step, word, graph, monkeypatch, error):
    driver, node = device._primary.driver, graph.kernel(step, word, 1)
    symbol = "cuGraphKernelNodeSetParams" + "_v2" * driver.has("cuGraphAddKernelNode_v2")
    interrupt_after(monkeypatch, driver, symbol, error("refused"))
    with device.load(graph_kernels.STEP.replace("step", "other")) as code:
        with pytest.raises((KeyboardInterrupt, errors.InvalidUse), match="refused"):
            node.update(code["other"].configure(grid=1, block=1), word, 2)
        if error is KeyboardInterrupt:
            assert (node.label, node._given) == ("other", None)
            with pytest.raises(TypeError, match="give update"):
                node.update(word, 3)
            node.update(step, word, 3)
        else:
            assert node.label == "step"
            node.update(word, 3)
        run(graph, device)
        assert word.tolist() == [3]
