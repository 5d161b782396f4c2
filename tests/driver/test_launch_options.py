"""The options of launches: each is checked, reaches the driver, and is refused with the reason if it cannot be."""

import array
import copy
import gc
import pickle
import weakref
from functools import partial

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")
Window = module("gpu.streams.settings").AccessPolicyWindow  # what stream.attributes.access_policy_window returns


@pytest.fixture
def add(device):
    with device.load(kernels.ADD) as loaded:
        yield loaded["add"]


@pytest.fixture
def numbers(device):
    x, out = device.upload(array.array("f", [1, 2, 3, 4])), device.empty(4, "float32")
    yield x, out
    x.owner.close()
    out.owner.close()


def version():
    import ctypes

    found = ctypes.c_int()
    rawcuda.cu.cuDriverGetVersion(ctypes.byref(found))
    return found.value


def has(device, *options):
    """Tell whether the driver and the device have all of these options."""
    needs = {
        "clusters": device.attribute("CLUSTER_LAUNCH"),
        "programmatic": device.compute_capability >= (9, 0),
        "priority": device.attribute("STREAM_PRIORITIES_SUPPORTED"),
        "window": device.attribute("MAX_ACCESS_POLICY_WINDOW_SIZE"),
    }
    return all(version() >= option if isinstance(option, int) else needs[option] for option in options)


# name, value, what it needs
ACCEPTED = [
    ("cooperative", True, ()),
    ("is_cooperative", True, ()),
    ("cluster", 2, ("clusters",)),
    ("cluster_dimension", (2, 1), ("clusters",)),
    ("priority", 0, ("priority",)),
    ("priority", -1, ("priority",)),
    ("programmatic_stream_serialization", True, ("programmatic",)),
    ("programmatic_stream_serialization", False, ()),
    ("mem_sync_domain", "remote", (12000,)),
    ("memory_sync_domain", "remote", (12000,)),
    ("memory_sync_domain_map", (0, 0), (12000,)),
    ("programmatic_dependent_launch", True, ("programmatic",)),
    ("mem_sync_domain", 0, (12000,)),
    ("mem_sync_domain_map", (0, 0), (12000,)),
    ("mem_sync_domain_map", {"default": 0, "remote": 0}, (12000,)),
    ("cluster_scheduling_policy", "spread", ("clusters",)),
    ("cluster_scheduling_policy_preference", 2, ("clusters",)),
    ("preferred_shared_carveout", 50, (12050,)),
    ("preferred_shared_memory_carveout", 100, (12050,)),
    ("nvlink_util_centric_scheduling", True, (13000,)),
    ("nvlink_util_centric_scheduling", False, (13000,)),
    ("portable_cluster_size_mode", "require_portable", ("clusters", 13020)),
    ("shared_memory_mode", "require_portable", (13020,)),
    ("shmem_size", 64, ()),
    ("shmem_size", None, ()),
    ("is_cooperative", None, ()),
    ("cluster_dimension", None, ()),
    ("priority", None, ()),
    ("programmatic_event", None, ()),
]


@pytest.mark.parametrize("name, value, needs", ACCEPTED)
def test_each_option_is_taken_by_configure_and_by_launch(device, add, numbers, name, value, needs):
    x, out = numbers
    if not has(device, *needs):
        with pytest.raises(errors.Unsupported, match=module("gpu.kernels.options").ALIASES.get(name, name)):
            add.configure(grid=2, block=32, **{name: value})
        return
    launch = add.configure(grid=2, block=32, **{name: value})
    launch(x, x, out, 4)
    assert out.tolist() == [2, 4, 6, 8]
    for _ in range(3):  # the later ones use what the first has prepared
        out.fill(0)
        add.launch(x, x, out, 4, grid=2, block=32, **{name: value})
        assert out.tolist() == [2, 4, 6, 8]


def test_all_together(device, add, numbers):
    if not has(device, "clusters", "programmatic", 12080):
        pytest.skip("not all of these options are supported here")
    x, out = numbers
    with device.event() as event, device.event() as begun, device.stream() as stream:
        launch = add.configure(
            grid=4,
            block=32,
            stream=stream,
            cluster=2,
            preferred_cluster=4,
            priority=-1,
            programmatic_stream_serialization=True,
            programmatic_event=event,
            launch_completion_event=begun,
            mem_sync_domain="remote",
            mem_sync_domain_map=(0, 1),
            cluster_scheduling_policy="load_balancing",
        )
        assert launch.cluster == (2, 1, 1) and launch.attributes["priority"] == -1
        assert launch.attributes["programmatic_event"] is event and "priority -1" in repr(launch)
        launch(x, x, out, 4)
        event.synchronize()
        begun.synchronize()
        assert event.query() and out.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("way", ["launch", "configured", "node"])
def test_a_graph_keeps_the_event_of_a_launch(device, add, numbers, way):
    if not has(device, 12030):
        pytest.skip("this option is not supported here")
    x, out = numbers
    event = device.event()
    gone, graph = weakref.ref(event), device.graph()
    with device.stream() as stream:
        options = {"grid": 1, "block": 32, "stream": stream, "launch_completion_event": event}
        if way == "node":
            launch = add.configure(**{**options, "stream": None})
            graph.kernel(launch, x, x, out, 4)
        elif way == "launch":
            with stream.capture(into=graph):
                add.launch(x, x, out, 4, **options)
        else:
            launch = add.configure(**options)
            with stream.capture(into=graph):
                launch(x, x, out, 4)
        del event, options
        launch = None
        gc.collect()
        graph.launch(stream)
        gone().synchronize()
        assert out.tolist() == [2, 4, 6, 8]
        gone().close()
        with pytest.raises(rawcuda.Closed, match="a node of this graph uses .*Event"):
            graph.launch(stream)
        graph.close()
        rawcuda.synchronize()  # the launch is done, and keeps nothing
        gc.collect()
        assert gone() is None


def test_a_launch_whose_event_is_closed_makes_no_node(device, add, numbers):
    if not has(device, 12030):
        pytest.skip("this option is not supported here")
    x, out = numbers
    with device.event() as event, device.graph() as graph:
        launch = add.configure(grid=1, block=32, launch_completion_event=event)
        event.close()
        with pytest.raises(rawcuda.Closed, match="this Event is closed"):
            graph.kernel(launch, x, x, out, 4)
        assert not graph.nodes


@pytest.mark.parametrize("name", ["programmatic_event", "launch_completion_event"])
def test_an_event_of_a_launch_is_reached_after_it(device, add, numbers, name):
    if not has(device, *(("programmatic",) if name == "programmatic_event" else (12030,))):
        pytest.skip("this option is not supported here")
    x, out = numbers
    with device.event() as event, device.stream() as stream, device.stream() as other:
        for given in (event, (event, True), (event, False)) if name == "programmatic_event" else (event,):
            out.fill(0, stream=stream)
            add.launch(x, x, out, 4, grid=1, block=32, stream=stream, **{name: given})
            other.wait(event)
            assert out.download(stream=other).tolist() == [2, 4, 6, 8]
            assert event.query()


def test_an_access_policy_window(device, add, numbers):
    if not has(device, "window"):
        with pytest.raises(errors.Unsupported, match="MAX_ACCESS_POLICY_WINDOW_SIZE"):
            add.configure(grid=1, block=1, access_policy_window=numbers[0])
        return
    x, out = numbers
    for given in (
        x,
        x.owner,
        {"memory": x},
        {"memory": x, "hit_ratio": 0.5, "hit": "normal", "miss": "normal"},
        {"memory": x, "hit_ratio": 1, "hit": 2, "miss": 1},
        Window(x.ptr, x.nbytes, 0.5, "persisting", "streaming"),
    ):
        add.launch(x, x, out, 4, grid=1, block=32, access_policy_window=given)
        assert out.tolist() == [2, 4, 6, 8]
    for given, error, words in (
        ({"memory": x, "hit_ratio": 1.5}, ValueError, r"1\.5: give a number from 0 to 1"),
        ({"memory": x, "hit_ratio": float("nan")}, ValueError, "from 0 to 1"),
        ({"memory": x, "hit_ratio": "1"}, TypeError, "hit_ratio must be a number"),
        ({"memory": x, "miss": "persisting"}, ValueError, "miss='persisting'"),
        ({"memory": x, "hits": 1}, TypeError, "'hits' is none of these"),
        ({}, TypeError, "give memory"),
        (bytearray(8), ValueError, "host memory"),
        (Window(2**64, 1, 1.0, "hit", "miss"), ValueError, "not a range of memory"),
        (Window(x.ptr, 0, 1.0, "normal", "normal"), ValueError, "not a range of memory"),
        (Window(x.ptr, "4", 1.0, "normal", "normal"), TypeError, "nbytes must be an int"),
        (Window(x.ptr, 4, 1.0, "best", "normal"), ValueError, "hit='best'"),
        (rawcuda.view(bytearray(8)), ValueError, "host memory"),
        (x[::2], ValueError, "not contiguous"),
        (x[:0], ValueError, "no bytes"),
        (5, TypeError, "not an int"),
    ):
        with pytest.raises(error, match=words):
            add.launch(x, x, out, 4, grid=1, block=32, access_policy_window=given)
    with device.allocate(16) as memory:
        pass
    with pytest.raises(errors.Closed):
        add.configure(grid=1, block=1, access_policy_window=memory)


@pytest.mark.parametrize(
    "name, given",
    [
        ("access_policy_window", 5),
        ("access_policy_window", {"memory": b"host"}),
        ("access_policy_window", {"hit": "normal"}),
        ("access_policy_window", Window(1, 1, 2.0, "normal", "normal")),
        ("access_policy_window", Window(1, 2**50, 1.0, "normal", "normal")),
        ("priority", 1000),
        ("priority", "high"),
        ("mem_sync_domain", "near"),
        ("mem_sync_domain_map", (0, 10**6)),
        ("mem_sync_domain_map", 1),
    ],
)
def test_streams_and_launches_refuse_alike(device, add, name, given):
    if not has(device, "window") and name == "access_policy_window":
        pytest.skip("the device has no access policy windows")
    said = []
    with device.stream() as stream:
        for attempt in (
            lambda: add.configure(grid=1, block=1, **{name: given}),
            lambda: setattr(stream.attributes, name, given),
        ):
            with pytest.raises((TypeError, ValueError)) as raised:
                attempt()
            said.append((type(raised.value), str(raised.value)))
    assert said[0] == said[1]


# -- what is refused, before anything is launched

REFUSED = [
    ("priority", 1, ValueError, r"priority=1: device 0 has the priorities -\d+ \(the highest\) to 0"),
    ("priority", -(2**63), ValueError, "has the priorities"),
    ("priority", 1.0, TypeError, "must be an int"),
    ("priority", True, TypeError, "must be an int"),
    ("priority", "high", TypeError, "must be an int"),
    ("programmatic_stream_serialization", 2, TypeError, "give True or False"),
    ("programmatic_stream_serialization", "yes", TypeError, "give True or False"),
    ("programmatic_stream_serialization", [], TypeError, "give True or False"),
    ("mem_sync_domain", "far", ValueError, "one of 'default', 'remote'"),
    ("mem_sync_domain", 2, ValueError, "one of 'default', 'remote'"),
    ("mem_sync_domain", 2**64, ValueError, "one of 'default', 'remote'"),
    ("mem_sync_domain", None.__class__, TypeError, "not a type"),
    ("mem_sync_domain", True, TypeError, "not a bool"),
    ("mem_sync_domain_map", 3, TypeError, "give the domain of 'default'"),
    ("mem_sync_domain_map", (1, 2, 3), TypeError, "give the domain of 'default'"),
    ("mem_sync_domain_map", (-1, 0), ValueError, "MEM_SYNC_DOMAIN_COUNT"),
    ("mem_sync_domain_map", (0, 2**40), ValueError, "MEM_SYNC_DOMAIN_COUNT"),
    ("mem_sync_domain_map", {"default": 0}, ValueError, "give the two domains"),
    ("mem_sync_domain_map", ("0", 0), TypeError, "must be an int"),
    ("cluster_scheduling_policy", "best", ValueError, "'default', 'spread', 'load_balancing'"),
    ("cluster_scheduling_policy", -1, ValueError, "'default', 'spread', 'load_balancing'"),
    ("preferred_cluster", 4, ValueError, r"only together with cluster="),
    ("preferred_shared_carveout", 101, ValueError, r"0 to 100"),
    ("preferred_shared_carveout", -1, ValueError, "percentage"),
    ("preferred_shared_carveout", 0.5, TypeError, "must be an int"),
    ("synchronization_policy", "spin", ValueError, "attribute of streams"),
    ("programmatic_event", 5, TypeError, "give an Event"),
    ("programmatic_event", (1, 2, 3), TypeError, "give an Event"),
    ("programmatic_event", ("x", True), TypeError, "give an Event"),
    ("launch_completion_event", "x", TypeError, "give an Event"),
    ("cluster", 3, ValueError, "is not a multiple of"),
    ("cluster", 0, ValueError, "at least 1"),
    ("cluster", -2, ValueError, "at least 1"),
    ("cluster", 2**40, ValueError, "no device supports clusters"),
    ("cluster", (2, 2), ValueError, "is not a multiple of"),
    ("cluster", 1.0, TypeError, "cluster=1.0"),
    ("cluster", True, TypeError, "cluster=True"),
    ("shmem_size", -1, ValueError, "shared_bytes=-1"),
    ("shmem_size", 1.0, TypeError, "shared_bytes must be an int"),
    ("color", 1, TypeError, r"no option 'color'; besides grid, block and stream, it has .*priority"),
]


@pytest.mark.parametrize("how", ["configure", "launch"])
@pytest.mark.parametrize("name, value, error, words", REFUSED)
def test_what_cannot_be_is_refused_with_its_name(device, add, numbers, how, name, value, error, words):
    x, out = numbers
    needs = {"mem": (12000,), "clu": ("clusters",), "pre": (12080,), "lau": (12030,), "pro": ("programmatic",)}
    if not has(device, *needs.get(name[:3], ())):
        pytest.skip("this option is not supported here")
    calls = []
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))), pytest.raises(error, match=words):
        if how == "configure":
            add.configure(grid=4, block=32, **{name: value})
        else:
            add.launch(x, x, out, 4, grid=4, block=32, **{name: value})
    assert not [name for name in calls if name.startswith("cuLaunch")]


def test_events_that_a_launch_cannot_record(device, add):
    if not has(device, "programmatic"):
        pytest.skip("this option is not supported here")
    with device.event(timing=True) as timed:
        with pytest.raises(ValueError, match="with timing"):
            add.configure(grid=1, block=1, programmatic_event=timed)
    with pytest.raises(errors.Closed):
        add.configure(grid=1, block=1, programmatic_event=timed_closed(device))
    if len(rawcuda.devices()) > 1:
        with rawcuda.Device(1).event() as far, pytest.raises(ValueError, match="on device 1, the kernel on device 0"):
            add.configure(grid=1, block=1, programmatic_event=far)


def timed_closed(device):
    event = device.event()
    event.close()
    return event


def test_an_event_that_is_closed_later_is_seen_by_each_launch(device, add, numbers):
    if not has(device, "programmatic"):
        pytest.skip("this option is not supported here")
    x, out = numbers
    with device.stream() as own:
        for stream in (None, own):  # what was checked for a launch without options says nothing about the event
            event = device.event()
            add.launch(x, x, out, 4, grid=1, block=32, stream=stream)
            launch = add.configure(grid=1, block=32, stream=stream, programmatic_event=event)
            for _ in range(2):
                launch(x, x, out, 4)
            event.close()
            with pytest.raises(errors.Closed):
                launch(x, x, out, 4)
            device.synchronize()


@pytest.mark.parametrize("way", ["launch", "configured"])
@pytest.mark.parametrize("name", ["programmatic_event", "launch_completion_event"])
def test_an_event_that_an_argument_closes(device, add, numbers, name, way):
    """It is not given to the driver, for which its handle may be that of another event by then."""
    if not has(device, *(("programmatic",) if name == "programmatic_event" else (12030,))):
        pytest.skip("this option is not supported here")
    x, out = numbers
    options, names = {"grid": 1, "block": 32, name: device.event()}, []

    class Closing:
        def __index__(self):
            options[name].close()
            return 4

    add.launch(x, x, out, 4, **options)  # what it prepares is used again
    launch = add.configure(**options) if way == "configured" else partial(add.launch, **options)
    with rawcuda.trace(lambda call: names.append(getattr(call, "name", ""))):
        with pytest.raises(rawcuda.Closed, match="this Event is closed"):
            launch(x, x, out, Closing())
    assert "cuEventDestroy_v2" in names and not [each for each in names if "Launch" in each]


def test_a_launch_that_was_kept_keeps_no_event_alive(device, add, numbers):
    if not has(device, "programmatic"):
        pytest.skip("this option is not supported here")
    import weakref

    x, out = numbers
    event = device.event()
    add.launch(x, x, out, 4, grid=1, block=32, programmatic_event=event)
    device.synchronize()
    seen = weakref.ref(event)
    del event
    gc.collect()
    assert seen() is None


def test_the_same_option_twice_is_refused(device, add):
    with pytest.raises(TypeError, match="is_cooperative and cooperative are the same option"):
        add.configure(grid=1, block=1, cooperative=True, is_cooperative=True)
    with pytest.raises(TypeError, match="are the same option"):
        add.configure(grid=1, block=1, preferred_shared_carveout=1, preferred_shared_memory_carveout=1)
    with pytest.raises(TypeError, match="are the same option"):
        add.configure(grid=1, block=1, shared_bytes=4, shmem_size=4)


def test_values_that_are_only_equal_to_those_before_are_refused(device, add, numbers):
    x, out = numbers
    for _ in range(2):
        add.launch(x, x, out, 4, grid=1, block=32, priority=0, cooperative=True)
    for wrong in (False, 0.0):
        with pytest.raises(TypeError):
            add.launch(x, x, out, 4, grid=1, block=32, priority=wrong, cooperative=True)
    if has(device, "clusters"):
        add.launch(x, x, out, 4, grid=1, block=32, cluster=(1, 1, 1))
        with pytest.raises(TypeError):
            add.launch(x, x, out, 4, grid=1, block=32, cluster=(True, 1, 1))


def test_preferred_clusters(device, add):
    if not has(device, "clusters", 12080):
        pytest.skip("this option is not supported here")
    add.configure(grid=(4, 2), block=1, cluster=(2, 1), preferred_cluster=(4, 2))
    for wrong in (3, (2, 1, 2), (1, 1)):
        with pytest.raises(ValueError, match="multiples of those of cluster"):
            add.configure(grid=(12, 2, 2), block=1, cluster=(2, 1), preferred_cluster=wrong)
    with pytest.raises(ValueError, match="is not a multiple of preferred_cluster"):
        add.configure(grid=6, block=1, cluster=2, preferred_cluster=4)


def test_the_trace_shows_the_options(device, add, numbers):
    x, out = numbers
    events = []
    with rawcuda.trace(events.append):
        add.launch(x, x, out, 4, grid=1, block=32, priority=0)
    (launch,) = [event for event in events if event.name.startswith("cuLaunchKernel")]
    assert launch.arguments["priority"] == "0"


def test_a_device_that_has_no_clusters_says_so(device, add):
    known = add.device._primary.attributes
    before = dict(known)
    try:
        known["CLUSTER_LAUNCH"], known["COOPERATIVE_LAUNCH"] = 0, 0
        known["COMPUTE_CAPABILITY_MAJOR"], known[("version",)] = 8, 11040
        add._known.attributes.clear()
        for options, words in (
            ({"cluster": 2}, "device 0 does not support it: its attribute CLUSTER_LAUNCH is 0"),
            ({"cooperative": True}, "its attribute COOPERATIVE_LAUNCH is 0"),
            ({"priority": 0}, r"needs a driver of CUDA 11\.8; this one is of CUDA 11\.4"),
            ({"preferred_cluster": 4}, r"needs a driver of CUDA 12\.8"),
        ):
            with pytest.raises(errors.Unsupported, match=words):
                add.configure(grid=2, block=32, **options)
        known[("version",)] = 12080
        with pytest.raises(errors.Unsupported, match="COMPUTE_CAPABILITY_MAJOR is 8"):
            add.configure(grid=2, block=32, programmatic_stream_serialization=True)
    finally:
        known.clear()
        known.update(before)


def test_a_node_that_the_device_updates_is_of_a_graph(device, add, numbers):
    if not has(device, 12040):
        pytest.skip("this option is not supported here")
    x, out = numbers
    with pytest.raises(errors.CudaError) as raised:
        add.launch(x, x, out, 4, grid=1, block=32, device_updatable=True)
    assert raised.value.call == "cuLaunchKernelEx"


def test_options_in_a_captured_graph(device, add, numbers):
    if not has(device, "clusters"):
        pytest.skip("this option is not supported here")
    x, out = numbers
    out.fill(0)
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph:
            add.launch(x, x, out, 4, grid=2, block=32, stream=stream, cluster=2, priority=-1)
        for _ in range(2):
            graph.launch(stream)
        stream.synchronize()
        assert out.tolist() == [2, 4, 6, 8]
        graph.close()


def test_a_launch_with_options_refuses_copies(device, add):
    launch = add.configure(grid=1, block=1, priority=0)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        for thing in (launch, add, add.attributes):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                attempt(thing)


def test_arguments_have_no_names_and_cupys_name_of_shared_memory(device, add, numbers):
    x, out = numbers
    with pytest.raises(TypeError, match="no option 'n'; .* the arguments of the kernel are given by position"):
        add.launch(x, x, out, n=4, grid=1, block=32)
    assert add.configure(grid=1, block=32, shared_mem=64).shared_bytes == 64
