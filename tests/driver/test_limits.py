"""Limits and preferences of a context, and the facts about a device."""

import threading

import pytest

from tests.subject import module, rawcuda

errors = module("errors")


def test_limits(device):
    limits = device.limits
    before = limits.stack_size
    limits.stack_size = before + 1024
    try:
        assert device.limits.stack_size >= before + 1024
    finally:
        limits.stack_size = before
    everything = dict(limits)
    assert everything["stack_size"] == limits["stack_size"] == limits.stack_size
    assert {"stack_size", "printf_fifo_size", "malloc_heap_size"} <= set(everything) == set(limits)
    assert "limits of <Device 0>" in repr(limits)
    for name, value in everything.items():
        assert isinstance(value, int) and getattr(limits, name) == value
    limits.max_l2_fetch_granularity = 32
    limits.persisting_l2_cache_size = 0
    limits.reset_persisting_l2_cache()


def test_limits_in_another_thread_and_context(device):
    failed = []

    def work():
        try:
            with rawcuda.devices()[-1].current():
                assert device.limits.stack_size > 0
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed


def test_preferences(device):
    limits = device.limits
    before = limits.cache_config
    for preferred in ("l1", "shared", "equal", "none"):
        limits.cache_config = preferred
        assert limits.cache_config in (preferred, "none")  # some devices have no choice
    limits.cache_config = before
    assert limits.shared_memory_config in ("default", "four_byte", "eight_byte")
    limits.shared_memory_config = "four_byte"


@pytest.mark.parametrize(
    "name, value, error, words",
    [
        ("stack_size", -1, ValueError, "stack_size=-1"),
        ("stack_size", 2**64, ValueError, "stack_size="),
        pytest.param("stack_size", 10**6000, ValueError, "an int of", id="huge"),
        ("stack_size", 1.0, TypeError, "must be an int"),
        ("stack_size", True, TypeError, "must be an int"),
        ("stack_size", "1 KB", TypeError, "must be an int"),
        ("stack_size", 2**40, (errors.InvalidUse, errors.OutOfMemory), "cuCtxSetLimit"),
        ("malloc_heap_size", 2**62, (errors.InvalidUse, errors.OutOfMemory), "cuCtxSetLimit"),
        ("stack_sice", 1024, AttributeError, "did you mean stack_size"),
        ("keys", 1, AttributeError, "no limit 'keys'"),
        ("cache_config", "l2", ValueError, "give one of 'none', 'shared', 'l1', 'equal'"),
        ("cache_config", 1, ValueError, "give one of"),
        ("shared_memory_config", "two_byte", ValueError, "give one of"),
    ],
)
def test_bad_limits(device, name, value, error, words):
    before = dict(device.limits)
    with pytest.raises(error, match=words):
        setattr(device.limits, name, value)
    assert dict(device.limits) == before


def test_a_limit_that_the_device_lacks(device):
    if device.compute_capability < (9, 0):
        pytest.skip("this device has the limit")
    for use in (
        lambda limits: limits.dev_runtime_sync_depth,
        lambda limits: setattr(limits, "dev_runtime_sync_depth", 3),
    ):
        with pytest.raises(
            rawcuda.Unsupported, match=r"compute capability \d+\.\d, has no limit dev_runtime_sync_depth"
        ):
            use(device.limits)
    assert "dev_runtime_sync_depth" not in dict(device.limits)
    with pytest.raises(KeyError):
        device.limits["stack"]


def test_limits_of_a_closed_device():
    device = rawcuda.Device(0)
    limits = device.limits
    device.close()
    for use in (lambda: limits.stack_size, lambda: device.limits, lambda: setattr(limits, "stack_size", 1024)):
        with pytest.raises(errors.Closed):
            use()


# -- facts


def test_attributes_are_a_mapping(device):
    attributes = device.attributes
    assert (
        attributes["WARP_SIZE"]
        == attributes.warp_size
        == attributes["warp_size"]
        == device.attribute("WARP_SIZE")
        == 32
    )
    everything = dict(attributes)
    assert len(everything) == len(attributes) > 100 and everything["WARP_SIZE"] == 32
    assert "MAX" not in everything and not any(name.startswith("CU_") for name in everything)
    assert "WARP_SIZE" in attributes and "WARPS" not in attributes and 10 not in attributes
    assert attributes.get("WARPS") is None and attributes.get("WARPS", 3) == 3
    with pytest.raises(KeyError, match="WARP_SIZE"):
        attributes["WARP_SICE"]
    with pytest.raises(rawcuda.NotFound):
        attributes[None]
    with pytest.raises(AttributeError, match="WARP_SIZE"):
        attributes.warp_sice
    assert "warp_size" in dir(attributes) and "attributes of <Device" in repr(attributes)


def test_address_on_the_bus(device):
    for each in rawcuda.devices():
        address = each.pci_bus_id
        assert len(address.split(":")) == 3 and rawcuda.Device.from_pci_bus_id(address) == each
    with pytest.raises(ValueError, match="no visible device has the address 'ffff:ff:1f.0': there are .*:"):
        rawcuda.Device.from_pci_bus_id("ffff:ff:1f.0")
    for wrong in ("", "x", "\0"):
        with pytest.raises(ValueError, match="no visible device"):
            rawcuda.Device.from_pci_bus_id(wrong)
    for wrong in (None, 3, b"0000:01:00.0"):
        with pytest.raises(TypeError, match="is a str"):
            rawcuda.Device.from_pci_bus_id(wrong)


def test_compute_mode(device):
    assert device.compute_mode in ("default", "exclusive_process")


def test_priorities(device):
    lowest, highest = device.stream_priorities
    assert lowest >= highest
    with (
        device.stream(priority=highest) as high,
        device.stream(highest) as again,
        device.stream(priority=-(2**31)) as most,
    ):
        assert high.priority == again.priority == most.priority == highest
    with device.stream(priority=lowest) as low, device.stream(priority=2**31 - 1) as least:
        assert low.priority == least.priority == lowest


@pytest.mark.emulator_only("Emulator.fail()")
@pytest.mark.parametrize("code", [1, 201, 215, 801])
def test_a_limit_that_the_driver_does_not_know_is_left_out(device, library, code):
    """Drivers answer so about limits that are newer than themselves."""
    names = list(device.limits)
    library.fail("cuCtxGetLimit", 2, code)
    assert list(device.limits) == [names[0], *names[2:]]
    library.fail("cuCtxGetLimit", 1, 999)
    with pytest.raises(errors.CudaError):
        list(device.limits)


def test_what_is_no_limit_fails_with_the_code_of_the_driver(device, monkeypatch):
    """Also with 215, CUDA_ERROR_UNSUPPORTED_LIMIT, in which no limit is named here."""
    limits = device.limits

    def fail(*arguments):
        raise errors.CudaError("as a driver", code=215, name="CUDA_ERROR_UNSUPPORTED_LIMIT", call="a call")

    for call, use in {
        "GetCacheConfig": lambda: limits.cache_config,
        "SetCacheConfig": lambda: setattr(limits, "cache_config", "l1"),
        "GetSharedMemConfig": lambda: limits.shared_memory_config,
        "SetSharedMemConfig": lambda: setattr(limits, "shared_memory_config", "default"),
        "ResetPersistingL2Cache": limits.reset_persisting_l2_cache,
    }.items():
        monkeypatch.setitem(vars(device._primary.calls), f"cuCtx{call}", fail)
        with pytest.raises(errors.CudaError, match="as a driver"):
            use()
