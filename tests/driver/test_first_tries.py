"""What people who know another package try first: each mistake is refused in words about what they wrote."""

import array
import copy
import ctypes
import functools
import io
import pickle
import threading

import pytest

from tests.driver import graph_kernels
from tests.driver.test_graph_nodes import run
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def step(device):
    with device.load(graph_kernels.STEP) as loaded:
        yield loaded["step"]


@pytest.fixture
def words(device):
    made = device.upload(array.array("I", [0, 0, 0, 0]))
    yield made
    made.owner.close()


@pytest.fixture
def graph(device):
    with device.graph() as made:
        yield made


@pytest.fixture
def image(device):
    with device.array((4, 4), "float32") as made:
        yield made


class OnlyArray:
    """Has `__array__`, and no protocol that shares memory; its elements may change."""

    def __init__(self, *values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return pytest.importorskip("numpy").array(self.values, "uint32")


class Number:
    """An integer of another library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


# -- graphs


NODES = {
    "fill": lambda g, w, event: g.fill(w, 1),
    "copy": lambda g, w, event: g.copy(w[:2], w[2:]),
    "callback": lambda g, w, event: g.callback(print),
    "record": lambda g, w, event: g.record(event),
    "wait": lambda g, w, event: g.wait(event),
    "graph": lambda g, w, event: g.embed(g.device.graph()),
}


def test_each_kind_of_node_that_can_be_updated_is_tried():
    assert {*NODES, "kernel"} == {*module("gpu.graphs.updates")._READERS, "kernel"}


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("args, named", [((), {}), ((1, 2, 3), {}), ((1,), {"wrong": 2}), ((1, 2), {"after": None})])
def test_update_speaks_of_itself(device, graph, words, kind, args, named):
    with device.event() as event, device.graph() as child:
        node = NODES[kind](graph, words, event) if kind != "graph" else graph.embed(child)
        if kind == "callback" and args and not named:
            return  # the arguments of the function
        for each in (node, graph.instantiate()[node]):
            with pytest.raises(TypeError, match=r"^update\(\) of <.*> takes the arguments ") as caught:
                each.update(*args, **named)
            assert not named or f"{next(iter(named))}= cannot be given" in str(caught.value)


@pytest.mark.parametrize("configuration", [{}, {"grid": 1, "block": 1}, {"wrong": 1}])
def test_what_is_not_a_kernel_is_named_first(graph, step, words, configuration):
    for thing in (5, None, step.module, "step", graph):
        with pytest.raises(TypeError, match="a kernel node needs a Launch or a Kernel, not "):
            graph.kernel(thing, words, 1, **configuration)


def test_a_copy_node_of_what_has_only_array(device, graph, words):
    pytest.importorskip("numpy")
    source = OnlyArray(1, 2, 3, 4)
    node = graph.copy(words, source)
    run(graph, device)
    assert words.tolist() == [1, 2, 3, 4]
    source.values = 5, 6, 7, 8  # the elements were read when the node was added
    run(graph, device)
    assert words.tolist() == [1, 2, 3, 4]
    node.update(words, source)
    run(graph, device)
    assert words.tolist() == [5, 6, 7, 8]
    with pytest.raises(TypeError, match="OnlyArray is not an exporter"):
        graph.copy(OnlyArray(1), words)


def test_a_copy_node_that_no_layout_permits_names_what_to_change(device, graph, words):
    with pytest.raises(ValueError, match=r"give a source of shape \(4,\) instead of \(1,\)"):
        graph.copy(words, array.array("I", [5]))
    rows = rawcuda.view(array.array("I", range(4))).reshape(2, 2)
    with pytest.raises(ValueError, match=r"the strides are \(8, 4\) and \(4, 8\) bytes\): make both sides contiguous"):
        graph.copy(words.reshape(2, 2), rows.T)


def test_a_graph_that_one_thread_changes_and_others_launch(device, graph, words):
    failed, streams = [], [device.stream() for _ in range(4)]

    def work(number):
        try:
            for _ in range(25):
                graph.fill(words, number)
                graph.launch(streams[number])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.synchronize()
    assert not failed and len(graph.nodes) == 100
    for stream in streams:
        stream.close()


def test_a_graph_that_can_have_one_executable_only_says_so(device, graph):
    freed = graph.allocate(4)
    graph.free(freed, after=freed)
    with graph.instantiate(), pytest.raises(errors.InvalidUse, match=r"close\(\) the Executable that instantiate\(\)"):
        graph.launch()
    run(graph, device)  # closed: so the graph has its own


def test_what_a_graph_with_allocations_cannot_do_is_said(device, graph):
    freed = graph.allocate(4)
    last = graph.free(freed, after=freed)
    with device.graph() as outer:
        for attempt, why in (
            (graph.clone, "cannot be cloned: build it a second time"),
            (last.destroy, "cannot lose a node: build another graph"),
            (lambda: outer.embed(graph), "cannot be a child graph"),
        ):
            try:
                attempt()
            except (errors.Unsupported, errors.InvalidUse) as error:  # (a newer driver may permit it)
                assert f"A graph with allocation and free nodes {why}" in str(error)
        for each in (graph, outer):
            with pytest.raises(ValueError, match="<allocation node .* is freed by another node of <Graph .*> already"):
                each.free(freed)
        with pytest.raises(errors.CudaError) as caught:  # another refusal in such a graph says nothing of that
            graph.allocate(2**62)
        assert "A graph with" not in str(caught.value)


# -- functions that others call


async def coroutine(*arguments): ...


async def generator_of_coroutines(*arguments):
    yield


def generator(*arguments):
    yield


class Methods:
    async def coroutine(self, *arguments): ...


SUSPENDED = (
    coroutine,
    generator_of_coroutines,
    generator,
    Methods().coroutine,
    functools.partial(coroutine, 1),
)
TAKERS = {
    "stream": lambda device, graph: device.stream().call,
    "graph": lambda device, graph: graph.callback,
    "node": lambda device, graph: graph.callback(int).update,
    "trace": lambda device, graph: rawcuda.trace,
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("function", SUSPENDED)
def test_a_function_whose_call_would_run_nothing_is_refused(device, graph, taker, function):
    take = TAKERS[taker](device, graph)
    with pytest.raises(TypeError, match="is a coroutine or generator function: a call would run none of its code"):
        take(function)


# -- classes that are not called


NOT_CALLED = (
    "Kernel",
    "Launch",
    "MipmappedArray",
    "OpaqueArray",
    "SharedHandle",
    "StridedView",
    "SurfaceObject",
    "TensorMap",
)


@pytest.mark.parametrize("name", [*NOT_CALLED, "TextureObject"])
@pytest.mark.parametrize("args, named", [((), {}), ((16,), {}), ((None, 0, "x"), {}), ((), {"size": 4})])
def test_a_class_that_is_not_called_says_how_its_objects_are_made(name, args, named):
    with pytest.raises(TypeError, match=f"an? {name} is made by "):
        getattr(rawcuda, name)(*args, **named)


# -- textures


def test_options_of_a_texture(device, image):
    with pytest.raises(TypeError, match="a texture has no option 'filter': it has address_mode, filter_mode"):
        device.texture(image, filter="linear")
    with device.texture(image, max_anisotropy=Number(4)) as made:
        assert made.options.max_anisotropy == 4


FLOATS = "mipmap_level_bias", "min_mipmap_level_clamp", "max_mipmap_level_clamp", "border_color"


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [1e300, -1e300, 2.0**128, 10**400, float("inf"), float("nan")])
def test_a_number_that_a_float_of_32_bits_cannot_hold(device, image, name, value):
    with pytest.raises(ValueError, match=f"{name}=.*: give a finite number that fits into a 32-bit float"):
        device.texture(image, **{name: value})


def test_a_border_color_is_any_sequence(device, image):
    for color in ([1, 2], (1, 2), array.array("f", [1, 2]), rawcuda.view(array.array("f", [1, 2]))):
        given = {"border_color": color.tolist() if hasattr(color, "readonly") else color}
        with device.texture(image, address_mode="border", **given) as made:
            assert made.options.border_color == (1, 2, 0, 0)


@pytest.mark.parametrize("nested", [[[1, 2], [3, 4]], [(1, 2)], ([1],), [1.5, 2.0]])
def test_a_list_of_elements_is_not_taken_for_a_shape(device, nested):
    for make in (device.array, device.mipmapped_array):
        for dtype in (None, "float32"):
            with pytest.raises(TypeError, match="is read as a shape, which has ints only"):
                make(nested, dtype)


def test_numpy_never_copies_a_cuda_array(image):
    numpy = pytest.importorskip("numpy")
    for thing in (image, image[0]):
        with pytest.raises(TypeError, match=r"never made implicitly: call download\(\)"):
            numpy.asarray(thing)


# -- memory


def test_sets_of_devices_know_ordinals(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device")
    with device.memory_pool() as pool, device.allocate(64, kind="managed") as managed:
        for devices in (pool.peer_accessible_by, managed.accessed_by):
            devices.add(1)
            assert 1 in devices and Number(1) in devices and rawcuda.Device(1) in devices
            assert 7 not in devices and -1 not in devices and True not in devices and "x" not in devices
            devices.discard(1)
            assert 1 not in devices and len(devices) == 0
            devices.add(rawcuda.Device(1))
            devices.remove(1)
            assert rawcuda.Device(1) not in devices


def test_borrowed_bytes_are_a_memory(device):
    with device.allocate(8) as memory:
        borrowed = rawcuda.VirtualMemory.borrow(device, memory.ptr, 8)
        assert type(borrowed) is rawcuda.Memory and "8 bytes" in repr(borrowed)


def test_the_address_of_a_value_is_any_integer(device, words):
    with device.stream() as stream:
        stream.write_value(Number(words.ptr), 3)
        stream.write_value(words[1], 4)
        stream.synchronize()
        assert words.tolist() == [3, 4, 0, 0]
        numpy = pytest.importorskip("numpy")
        stream.write_value(numpy.uint64(words.ptr), 5, bits=numpy.int64(32))
        stream.synchronize()
        assert words.tolist() == [5, 4, 0, 0]
        with pytest.raises(ValueError, match="-5 is not an address"):
            stream.write_value(Number(-5), 1)


def test_a_hit_ratio_of_numpy(device, words):
    numpy = pytest.importorskip("numpy")
    with device.stream() as stream:
        stream.attributes.set_access_policy_window(words, hit_ratio=numpy.float32(0.5))
        assert stream.attributes.access_policy_window.hit_ratio == 0.5
        with pytest.raises(TypeError, match="hit_ratio must be a number"):
            stream.attributes.set_access_policy_window(words, hit_ratio=numpy.arange(2.0))


# -- attributes that are facts


FACTS = {
    "pool": (lambda d: d.memory_pool(max_size=1 << 20), ("max_size", "kind", "device"), "make another pool"),
    "texture options": (
        lambda d: d.texture(d.array((2, 2), "float32")).options,
        module("gpu.textures.texture").TextureOptions.__slots__,
        "make another texture",
    ),
    "texture": (lambda d: d.texture(d.array((2, 2), "float32")), ("options", "resource", "kind"), "another texture"),
    "array": (lambda d: d.array((2, 2), "float32"), ("form", "device"), "make another array"),
    "mipmapped array": (lambda d: d.mipmapped_array((2, 2), "float32"), ("form", "num_levels"), "make another array"),
    "surface": (lambda d: d.surface(d.array((2, 2), "float32", surface=True)), ("resource",), "make another surface"),
    "tensor map": (
        lambda d: rawcuda.TensorMap.tiled(d.empty((64, 64), "float16"), box=(8, 64)),
        ("box", "view", "kind"),
        r"use replace_address\(\)",
    ),
    "condition": (lambda d: d.graph().create_condition(), ("default", "graph"), "create another condition"),
    "green context": (lambda d: d.split(2)[0], ("sm_count", "device"), "split the device again"),
    "flags": (
        lambda d: rawcuda.view(bytearray(4)).flags,
        ("writeable", "aligned", "owndata", "c_contiguous", "f_contiguous"),
        r"view\(array, writable=False\)",
    ),
}


@pytest.mark.parametrize("what", FACTS)
def test_a_fact_is_not_silently_set(device, what):
    make, names, instead = FACTS[what]
    try:
        thing = make(device)
    except errors.Unsupported as missing:
        pytest.skip(str(missing))
    for name in names:
        before = getattr(thing, name)
        with pytest.raises(AttributeError, match=f"{type(thing).__name__}.{name} cannot be set: .*{instead}"):
            setattr(thing, name, before)
        assert getattr(thing, name) is before


def test_what_can_be_set_still_can(device):
    with device.memory_pool() as pool:
        pool.release_threshold = 1 << 20
        assert pool.release_threshold == 1 << 20
        with pytest.raises(AttributeError):
            pool.no_such_attribute = 1
    flags = rawcuda.view(bytearray(4)).flags
    for copied in (copy.copy(flags), copy.deepcopy(flags), pickle.loads(pickle.dumps(flags))):
        assert repr(copied) == repr(flags)


def test_the_stream_of_a_launch_is_not_silently_set(device, step):
    with device.stream() as stream, device.stream() as other:
        launch = step.configure(grid=1, block=1, stream=stream)
        with pytest.raises(AttributeError):
            launch.stream = other
        assert launch.stream is stream


# -- traces and ranges


def test_a_trace_writes_text():
    closed = io.StringIO()
    closed.close()
    for file, kind in ((io.BytesIO(), TypeError), (closed, ValueError)):
        with pytest.raises(kind, match=r"trace\(\) cannot write text to .*: give a text file that is open"):
            with rawcuda.trace(file):
                pass
    with rawcuda.trace([]) as trace:
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a Trace belongs to one with block"):
                copying(trace)


def test_ranges_are_copied_and_pickled():
    for color in (None, "red", 0x123456, Number(5)):
        made = rawcuda.range("solve", color=color)
        for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert copied.name == "solve"
            assert bytes(copied._attributes)[:16] == bytes(made._attributes)[:16]
            with copied:
                pass


# -- numbers, grids and slices


NO_NUMBERS = ["12", memoryview(b"12"), None, [1], (1,), object(), ctypes.c_int(0), array.array("b", b"12")]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float32", "float64", "complex64"])
def test_what_is_no_number_fills_no_array(device, dtype):
    for v in (device.empty(2, dtype), rawcuda.view(bytearray(16)).reinterpret(dtype)):
        v.fill(0)
        for value in NO_NUMBERS:  # float() reads the bytes of a buffer as text
            with pytest.raises(TypeError, match=rf"{dtype} takes an? (int|number|real number), not "):
                v.fill(value)
        assert not any(v.tolist())


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex64"])
def test_a_bool_of_numpy_is_the_number_that_pythons_is(device, dtype):
    numpy = pytest.importorskip("numpy")
    v = device.empty(2, dtype)
    assert v.fill(numpy.True_).tolist() == v.fill(True).tolist() == [1, 1]
    assert v.fill(numpy.bool_(False)).tolist() == [0, 0]
    with pytest.raises((TypeError, ValueError)):
        v.fill(numpy.array([True, False]))


def test_a_list_does_not_lose_the_imaginary_part_of_numpys_numbers(device):
    numpy = pytest.importorskip("numpy")
    encode, of = module("elements.scalars").encode, module("elements.dtypes").of
    for name in ("float32", "bfloat16", "int32"):
        with pytest.raises(TypeError, match="not (a )?complex"):
            encode(of(name), numpy.complex64(1 + 2j))


@pytest.mark.parametrize("step", [2**70, -(2**70), 2**62, -(2**63)])
def test_a_step_beyond_all_elements_makes_a_stride_of_64_bits(device, step):
    rows = rawcuda.view(array.array("f", range(6))).reshape(2, 3)
    for v in (rows, device.upload(rows)):
        part = v[::step, ::2]
        assert part.shape == (1, 2) and all(-(2**63) <= stride < 2**63 for stride in part.strides)
        assert part.tolist() == [rows.tolist()[0 if step > 0 else 1][::2]] and v[::5].strides == (60, 4)
    rows.fill(1)
    assert rows[::step, ::2].__array_interface__["strides"] == (12, 8)


def test_a_grid_of_nested_numbers_names_what_is_not_an_int(step):
    numpy = pytest.importorskip("numpy")
    for grid in (numpy.array([[1, 2]]), [numpy.array([1, 2])], ([1], 1), (1, True)):
        for name in ("grid", "block"):
            with pytest.raises(TypeError, match=rf"^{name}=.* is not an int$"):
                step.configure(**{"grid": 1, "block": 1, name: grid})


def test_an_option_of_none_is_the_default(step):
    options = {"cooperative": None, "cluster": None, "priority": None, "is_cooperative": None}
    for name, value in options.items():
        assert not step.configure(grid=1, block=1, **{name: value}).attributes


@pytest.mark.parametrize("timeout", [True, "1", int, [1]])
def test_a_timeout_that_is_no_number(device, timeout):
    with device.stream() as stream, pytest.raises(TypeError, match=r"^timeout must be a number, not an? "):
        stream.synchronize(timeout=timeout)


def test_a_timeout_may_be_any_number(device):
    with device.stream() as stream:
        for timeout in (0, 0.5, 10**400, float("inf"), Number(1)):
            stream.synchronize(timeout=timeout)


@pytest.mark.parametrize("header", [0, 8, 15])
def test_a_fatbin_whose_header_has_no_room_for_itself(device, header):
    damaged = b"\x50\xed\x55\xba" + b"\1\0" + header.to_bytes(2, "little") + bytes(56)
    with pytest.raises(ValueError, match="fatbin: its header says"):
        device.load(damaged)
    with pytest.raises(ValueError, match="fatbin: its header says"):
        device.link([damaged])
