"""Occupancy, and the attributes of kernels: what they tell, what can be set, and what is refused."""

import array
import ctypes
import threading
from functools import partial

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def add(device):
    with device.load(kernels.ADD) as loaded:
        yield loaded["add"]


@pytest.fixture
def reverse(device):
    with device.load(kernels.REVERSE) as loaded:
        yield loaded["reverse"]


# -- blocks and grids


def test_the_suggested_block_fills_the_device(device, add):
    found = add.suggest_block()
    block, grid = found
    assert (found.block, found.grid) == (block, grid) and "block=" in repr(found)
    active = add.max_active_blocks(block)
    assert block % device.attribute("WARP_SIZE") == 0 and 0 < block <= add.attributes.max_threads_per_block
    assert grid == active * device.attribute("MULTIPROCESSOR_COUNT")
    for other in range(32, 1025, 32):
        assert add.max_active_blocks(other) * other <= active * block


@pytest.mark.parametrize("bound", ["", ".maxntid 288", ".reqntid 96", ".maxntid 16, 16, 4", ".maxntid 1"])
def test_the_largest_block_of_a_kernel_fits(device, bound):
    """Also of a kernel with many registers: what its attribute allows can be launched, also as a cooperative grid."""
    sums = "\n".join(f"ld.global.u32 %r{n}, [%d+{4 * n}];" for n in range(1, 200))
    used = "\n".join(f"add.u32 %r0, %r0, %r{n};" for n in range(1, 200))
    text = f"""
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry k(.param .u64 p) {bound}
    {{
        .reg .b32 %r<200>;
        .reg .b64 %d;
        ld.param.u64 %d, [p];
        ld.global.u32 %r0, [%d];
        {sums}
        {used}
        st.global.u32 [%d], %r0;
        ret;
    }}
    """
    with device.load(text) as loaded:
        kernel = loaded["k"]
        most = kernel.attributes.max_threads_per_block
        assert kernel.max_active_blocks(most) >= 1 and kernel.suggest_block().block >= 1
        data = device.upload(array.array("I", [1] * 200))
        kernel.launch(data, grid=1, block=most, cooperative=True)
        assert data[:1].tolist()[0] >= 200


def test_a_limit_of_the_block(device, add):
    for limit in (32, 64, 100, 1):
        assert add.suggest_block(limit=limit).block <= limit
    assert add.suggest_block(limit=10**6).block <= 1024


@pytest.mark.parametrize("a_thread", [4, 64, 200])
def test_shared_memory_that_depends_on_the_block(device, reverse, a_thread):
    asked = []

    def shared(threads):
        asked.append(threads)
        return threads * a_thread

    block, grid = reverse.suggest_block(shared)
    assert asked and all(type(threads) is int for threads in asked)
    best = reverse.max_active_blocks(block, block * a_thread) * block
    for other in range(32, 1025, 32):
        if other * a_thread <= device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"):
            assert reverse.max_active_blocks(other, other * a_thread) * other <= best
    out = device.empty(block, "uint32")
    reverse.launch(out, grid=1, block=block, shared_bytes=block * a_thread)
    assert out.tolist() == list(range(block - 1, -1, -1))
    out.owner.close()


def test_the_driver_is_not_given_a_python_function(reverse):
    """It would call the function while it holds a lock, which another thread may wait for with the interpreter's."""
    heard = []
    with rawcuda.trace(heard.append):
        found = reverse.suggest_block(lambda threads: 64)
    assert "cuOccupancyMaxPotentialBlockSize" not in [getattr(each, "name", "") for each in heard]
    assert found == reverse.suggest_block(64)
    assert reverse.suggest_block(lambda threads: 0, limit=100) == reverse.suggest_block(limit=100)


def test_the_driver_holds_no_lock_while_the_function_runs(device, add):
    """The function may wait for a thread that calls the driver."""
    stuck = []

    def shared_bytes(threads):
        thread = threading.Thread(target=lambda: device.allocate(8).close(), daemon=True)
        thread.start()
        thread.join(0 if any(stuck) else 10)
        stuck.append(thread.is_alive())
        return 0

    assert add.suggest_block(shared_bytes, limit=96).block in (32, 64, 96) and stuck and not any(stuck)


class Wrong(Exception):
    """An error that the caller's own function raises."""


def raises(threads):
    raise Wrong(threads)


def interrupts(threads):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "function, error, words",
    [
        (raises, Wrong, None),
        (interrupts, KeyboardInterrupt, None),
        (lambda threads: -1, ValueError, r"shared_bytes\(\d+\)=-1"),
        (lambda threads: 1.5, TypeError, r"shared_bytes\(\d+\) must be an int, not a float"),
        (lambda threads: None, TypeError, "must be an int"),
        (lambda threads: 2**70, ValueError, "give a number of bytes"),
        (lambda: 1, TypeError, "positional argument"),
        (lambda threads: 1 << 30, ValueError, "no block of kernel reverse fits"),
    ],
)
def test_what_the_function_raises_is_raised(reverse, function, error, words):
    with pytest.raises(error, match=words):
        reverse.suggest_block(function)
    assert reverse.suggest_block(lambda threads: 0).block > 0


def test_the_number_of_blocks_falls_with_what_they_need(device, reverse):
    most = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    counts = [reverse.max_active_blocks(32, size) for size in (0, 8 << 10, 32 << 10, most)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 1
    assert reverse.max_active_blocks(32, most + 1) == 0 and reverse.max_active_blocks(2048) == 0
    assert reverse.max_active_blocks((32, 8)) == reverse.max_active_blocks(256)
    assert reverse.max_active_blocks(256, disable_caching_override=True) == reverse.max_active_blocks(256)


def test_what_each_block_may_have(device, reverse):
    reverse.attributes.max_dynamic_shared_bytes = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    before = None
    for blocks in (1, 2, 4):
        each = reverse.available_dynamic_shared(blocks, 128)
        assert before is None or each <= before
        before = each
    assert reverse.max_active_blocks(128, before) >= 4


@pytest.mark.parametrize(
    "how, arguments, error, words",
    [
        ("max_active_blocks", (0,), ValueError, "block=0"),
        ("max_active_blocks", (1.0,), TypeError, "block="),
        ("max_active_blocks", (32, -1), ValueError, "shared_bytes=-1"),
        ("max_active_blocks", (32, 2**63), ValueError, "shared_bytes="),
        ("max_active_blocks", (32, "x"), TypeError, "shared_bytes must be an int"),
        ("max_active_blocks", (2**40,), ValueError, "at most 1024"),
        ("max_active_blocks", ((2**20, 2**20),), ValueError, "at most 1024"),
        ("available_dynamic_shared", (0, 32), ValueError, "blocks=0"),
        ("available_dynamic_shared", (-1, 32), ValueError, "blocks=-1"),
        ("available_dynamic_shared", (10**6, 32), ValueError, "at most .* fit on a multiprocessor"),
        ("available_dynamic_shared", (2**63, 32), ValueError, "blocks="),
        ("available_dynamic_shared", (1.0, 32), TypeError, "blocks must be an int"),
        ("available_dynamic_shared", (1, 0), ValueError, "block=0"),
        ("suggest_block", (-1,), ValueError, "shared_bytes=-1"),
        ("suggest_block", ("x",), TypeError, "shared_bytes must be an int"),
        ("suggest_block", (2**30,), ValueError, "no block of kernel add fits"),
        ("max_potential_cluster_size", (0,), ValueError, "block=0"),
        ("max_active_clusters", (32, -1), ValueError, "shared_bytes=-1"),
    ],
)
def test_questions_that_cannot_be_asked(device, add, how, arguments, error, words):
    if "cluster" in how and not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("this device has no clusters")
    with pytest.raises(error, match=words):
        getattr(add, how)(*arguments)


def test_limits_that_cannot_be(add):
    for limit, error in ((-1, ValueError), (2**31, ValueError), (1.0, TypeError)):
        with pytest.raises(error, match="limit"):
            add.suggest_block(limit=limit)


def test_clusters(device, add):
    if not device.attribute("CLUSTER_LAUNCH"):
        with pytest.raises(errors.Unsupported, match="CLUSTER_LAUNCH is 0"):
            add.max_potential_cluster_size(32)
        return
    most = add.max_potential_cluster_size(256)
    assert most >= 8
    counts = [add.max_active_clusters(256, cluster=cluster) for cluster in (1, 2, 4, 8)]
    assert counts == sorted(counts, reverse=True) and counts[-1] > 0
    assert add.max_active_clusters(256, cluster=(2, 2)) == counts[2]
    assert add.max_active_clusters(256, cluster=2, priority=0) == counts[1]
    with pytest.raises(TypeError, match="no option 'colour'"):
        add.max_active_clusters(256, cluster=2, colour=1)


def test_a_cooperative_grid_of_what_is_told_to_fit_does_fit(device, reverse):
    if not device.attribute("COOPERATIVE_LAUNCH"):
        pytest.skip("this device has no cooperative launches")
    fitting = reverse.max_active_blocks(64, 16 << 10) * device.attribute("MULTIPROCESSOR_COUNT")
    out = device.empty(fitting * 64, "uint32")
    reverse.launch(out, grid=fitting, block=64, shared_bytes=16 << 10, cooperative=True)
    assert out.tolist()[-64:] == list(range(63, -1, -1))
    with pytest.raises(errors.InvalidUse, match=r"720.*must fit on the device at once"):
        reverse.launch(out, grid=fitting + 1, block=64, shared_bytes=16 << 10, cooperative=True)
    device.synchronize()
    out.owner.close()


# -- attributes


def test_what_the_driver_tells(add):
    attributes = add.attributes
    assert attributes.max_threads_per_block == attributes["max_threads_per_block"] == 1024
    assert attributes.registers == attributes.num_regs == attributes["num_regs"] > 0
    assert attributes.shared_bytes == attributes.shared_size_bytes == 0
    assert attributes.local_bytes == attributes.local_size_bytes >= 0
    assert attributes.constant_bytes == attributes.const_size_bytes >= 0
    assert attributes.ptx_version == 50 and attributes.binary_version >= 50 and attributes.cache_mode_ca is False
    assert attributes.max_dynamic_shared_bytes == attributes.max_dynamic_shared_size_bytes == 48 << 10
    assert attributes.preferred_shared_carveout == attributes.preferred_shared_memory_carveout == -1
    assert dict(attributes) == dict(attributes.items()) and len(attributes) == len(list(attributes))
    assert list(attributes.values()) == [attributes[name] for name in attributes.keys()]
    assert "registers" in attributes and "num_regs" in attributes and "colour" not in attributes
    assert "registers" in dir(attributes) and "'registers': " in repr(attributes)


def test_names_that_there_are_not(add):
    with pytest.raises(AttributeError, match="no attribute 'colour' in the driver; it has max_threads_per_block, "):
        add.attributes.colour
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        add.attributes.colour = 1
    for use in (
        lambda: add.attributes["colour"],
        lambda: add.attributes.__setitem__("colour", 1),
        lambda: add.attributes[3],
    ):
        with pytest.raises(KeyError):
            use()
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del add.attributes.registers
    assert not hasattr(add.attributes, "__array_interface__")


@pytest.mark.parametrize(
    "name, words",
    [
        ("max_threads_per_block", "__launch_bounds__"),
        ("shared_bytes", "launches have shared_bytes="),
        ("constant_bytes", "what the code declares"),
        ("local_bytes", "spilled registers"),
        ("registers", "--maxrregcount"),
        ("num_regs", "--maxrregcount"),
        ("ptx_version", "a fact about the compiled code"),
        ("binary_version", "a fact about the compiled code"),
        ("cache_mode_ca", "dlcm"),
        ("cluster_size_must_be_set", "the code decides"),
    ],
)
def test_facts_cannot_be_set_and_say_what_decides_them(add, name, words):
    with pytest.raises(AttributeError, match=f"the attribute {name} of kernel add cannot be set: .*{words}"):
        setattr(add.attributes, name, 1)


def test_kernels_of_one_function_have_one_limit_of_shared_memory(device, reverse):
    """A launch requests what it needs, also after another Kernel object has lowered the limit."""
    declared = reverse.module.kernel(reverse.name, ["uint32*"])
    for one, other in ((reverse, declared), (declared, reverse)):
        for lowers in (one, other):
            one.configure(grid=1, block=32, shared_bytes=60000)
            assert other.attributes.max_dynamic_shared_bytes >= 60000
            lowers.attributes.max_dynamic_shared_bytes = 1024
            one.configure(grid=1, block=32, shared_bytes=60000)
            assert one.attributes.max_dynamic_shared_bytes >= 60000


@pytest.mark.parametrize("way", ["launch", "declared", "configured", "graph"])
def test_a_launch_requests_shared_memory_again_after_the_limit_was_lowered(device, reverse, way):
    """The driver refuses a launch with more, and it is the launch that requests it."""
    shape, out = {"grid": 1, "block": 32, "shared_bytes": 60000}, device.empty(32, "uint32")
    kernel = reverse.module.kernel(reverse.name, ["uint32*"]) if way == "declared" else reverse
    launch = kernel.configure(**shape) if way in ("configured", "graph") else partial(kernel.launch, **shape)
    for lowers in (kernel, reverse, kernel):
        if way == "graph":
            with device.graph() as graph:
                graph.kernel(launch, out)
                graph.launch()
                device.synchronize()
        else:
            launch(out)
        assert out.tolist() == list(range(31, -1, -1))
        out.fill(0)
        assert reverse.attributes.max_dynamic_shared_bytes >= 60000
        lowers.attributes.max_dynamic_shared_bytes = 1024
    out.owner.close()


def test_more_dynamic_shared_memory(device, reverse):
    most = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    reverse.attributes.max_dynamic_shared_bytes = most
    assert reverse.attributes.max_dynamic_shared_bytes == most
    reverse.attributes["max_dynamic_shared_size_bytes"] = 1024
    assert reverse.attributes.max_dynamic_shared_bytes == 1024
    out = device.empty(32, "uint32")
    reverse.launch(out, grid=1, block=32, shared_bytes=4096)  # a launch requests what it needs
    assert out.tolist() == list(range(31, -1, -1)) and reverse.attributes.max_dynamic_shared_bytes >= 4096
    out.owner.close()


def test_the_carveout(add):
    for given, told in ((50, 50), ("max_l1", 0), ("max_shared", 100), ("default", -1), (-1, -1)):
        add.attributes.preferred_shared_carveout = given
        assert add.attributes.preferred_shared_carveout == told


def test_attributes_of_clusters(device, add):
    if not device.attribute("CLUSTER_LAUNCH"):
        with pytest.raises(errors.Unsupported, match="CLUSTER_LAUNCH is 0"):
            add.attributes.non_portable_cluster_size_allowed = True
        return
    attributes = add.attributes
    assert attributes.non_portable_cluster_size_allowed is False and attributes.required_cluster is None
    attributes.non_portable_cluster_size_allowed = True
    assert attributes.non_portable_cluster_size_allowed is True
    attributes.cluster_scheduling_policy = "spread"
    assert attributes.cluster_scheduling_policy == attributes.cluster_scheduling_policy_preference == 1
    attributes.required_cluster = (2, 2)
    assert attributes.required_cluster == (2, 2, 1) and attributes.required_cluster_height == 2
    attributes.required_cluster = None
    assert attributes.required_cluster is None


@pytest.mark.parametrize(
    "name, value, error, words",
    [
        ("max_dynamic_shared_bytes", -1, ValueError, r"can have 0 to "),
        ("max_dynamic_shared_bytes", 2**63, ValueError, r"can have 0 to "),
        ("max_dynamic_shared_bytes", 1.0, TypeError, "must be an int"),
        ("max_dynamic_shared_bytes", None, TypeError, "must be an int"),
        ("preferred_shared_carveout", 101, ValueError, r"can have -1 to 100"),
        ("preferred_shared_carveout", -2, ValueError, r"can have -1 to 100"),
        ("preferred_shared_carveout", "most", ValueError, "default, max_l1, max_shared"),
        ("required_cluster_width", -1, ValueError, r"can have 0 to "),
        ("required_cluster_width", 2**40, ValueError, r"can have 0 to "),
        ("required_cluster", 0, ValueError, "at least 1"),
        ("required_cluster", 2**40, ValueError, "no device supports clusters"),
        ("required_cluster", "2", TypeError, "required_cluster="),
        ("non_portable_cluster_size_allowed", 2, TypeError, "give True or False"),
        ("non_portable_cluster_size_allowed", "no", TypeError, "give True or False"),
        ("cluster_scheduling_policy", "best", ValueError, "give one of 'default'"),
        ("cluster_scheduling_policy", 9, ValueError, "give one of 'default'"),
    ],
)
def test_values_that_an_attribute_cannot_have(device, add, name, value, error, words):
    if "cluster" in name and not device.attribute("CLUSTER_LAUNCH"):
        pytest.skip("this device has no clusters")
    before = dict(add.attributes)
    with pytest.raises(error, match=words):
        setattr(add.attributes, name, value)
    assert dict(add.attributes) == before


def test_what_a_driver_is_too_old_for(add):
    version = ctypes.c_int()
    rawcuda.cu.cuDriverGetVersion(ctypes.byref(version))
    for name, since in (("shared_memory_mode", 13040), ("device_node_update_supported", 13030)):
        if version.value < since:
            with pytest.raises(errors.Unsupported, match=f"{name}: the attribute of kernels needs a driver of CUDA 13"):
                getattr(add.attributes, name)
            assert name not in add.attributes


@pytest.mark.parametrize("prefer", ["none", "shared", "l1", "equal", "prefer_l1", 0, 3])
def test_the_cache(add, prefer):
    add.set_cache_config(prefer)
    assert add.max_active_blocks(32) > 0
    add.set_cache_config("none")


@pytest.mark.parametrize(
    "prefer, error", [("more", ValueError), (4, ValueError), (-1, ValueError), (None, TypeError), (True, TypeError)]
)
def test_caches_that_there_are_not(add, prefer, error):
    with pytest.raises(error, match="prefer"):
        add.set_cache_config(prefer)


def test_after_the_module_was_closed(device):
    with device.load(kernels.ADD) as loaded:
        kernel = loaded["add"]
        attributes = kernel.attributes
        assert attributes.registers > 0
    for use in (
        lambda: attributes.registers,
        lambda: attributes.max_dynamic_shared_bytes,
        lambda: setattr(attributes, "max_dynamic_shared_bytes", 0),
        lambda: setattr(attributes, "required_cluster", 2),
        lambda: kernel.suggest_block(),
        lambda: kernel.suggest_block(lambda threads: 0),
        lambda: kernel.max_active_blocks(32),
        lambda: kernel.available_dynamic_shared(1, 32),
        lambda: kernel.max_active_clusters(32),
        lambda: kernel.set_cache_config("l1"),
    ):
        with pytest.raises(errors.Closed):
            use()
    assert "closed" in repr(attributes)
