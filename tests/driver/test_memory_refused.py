"""Memory on a device that lacks a feature, with an older driver, and in a child of fork()."""

import pytest

from tests.subject import module, rawcuda

errors = module("errors")

LACKING = {
    "pool": ("MEMORY_POOLS_SUPPORTED", lambda device: device.memory_pool()),
    "current pool": ("MEMORY_POOLS_SUPPORTED", lambda device: device.pool),
    "pinned pool": ("HOST_MEMORY_POOLS_SUPPORTED", lambda device: device.memory_pool(kind="pinned")),
    "pool on a node": (
        "HOST_NUMA_MEMORY_POOLS_SUPPORTED",
        lambda device: device.memory_pool(kind="pinned", location="numa:0"),
    ),
    "virtual memory": ("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", lambda device: device.virtual_memory(1)),
    "register": ("HOST_REGISTER_SUPPORTED", lambda device: device.register(bytearray(8))),
    "register read-only": (
        "READ_ONLY_HOST_REGISTER_SUPPORTED",
        lambda device: rawcuda.Memory.register(b"12345678", device=device, read_only=True),
    ),
    "advice": (
        "CONCURRENT_MANAGED_ACCESS",
        lambda device: device.allocate(8, kind="managed").advise("set_preferred_location", device),
    ),
    "prefetch": (
        "CONCURRENT_MANAGED_ACCESS",
        lambda device: device.allocate(8, kind="managed").prefetch(device),
    ),
}


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.parametrize("how", ["0", "unknown"])
def test_the_attribute_that_says_so_is_named(device, monkeypatch, name, how):
    lacking, use = LACKING[name]
    real = type(device).attribute

    def attribute(self, which):
        if which != lacking:
            return real(self, which)
        if how == "unknown":  # the driver is older than the attribute
            raise errors.InvalidUse("no such attribute")
        return 0

    monkeypatch.setattr(type(device), "attribute", attribute)
    with pytest.raises(errors.Unsupported, match=lacking):
        use(device)


def test_pools_of_managed_memory_need_a_newer_driver(device, monkeypatch):
    monkeypatch.setattr(type(device._primary.driver), "version", 12090)
    with pytest.raises(errors.Unsupported, match="from CUDA 13.0 on, and this driver is of CUDA 12.9"):
        device.memory_pool(kind="managed")


def test_in_a_child_of_fork(python):
    """What belongs to the parent is not released in the child, where nothing new can be made."""
    told = python(
        """
        import os
        from tests.subject import rawcuda
        if not hasattr(os, "fork"):
            print("0"); raise SystemExit
        device = rawcuda.Device(0)
        pool, virtual = device.memory_pool(), device.virtual_memory(1)
        memory, managed = pool.allocate(8), device.allocate(8, kind="managed")
        memory.fill(3)
        virtual.fill(4)
        device.synchronize()
        child = os.fork()
        if not child:
            failed = 0
            for use in (
                lambda: device.memory_pool(),
                lambda: pool.allocate(8),
                lambda: pool.trim(),
                lambda: pool.attributes.used_mem_current,
                lambda: rawcuda.VirtualMemory(device, 1),
                lambda: virtual.grow(1 << 22),
                lambda: virtual.map(virtual.granularity, virtual.granularity),
                lambda: managed.prefetch("host"),
                lambda: managed.preferred_location,
                lambda: rawcuda.copy_batch([(memory, memory), (virtual, virtual)]),
            ):
                try:
                    use()
                    failed += 1
                except rawcuda.ForkedAfterInit:
                    pass
                except ValueError as error:
                    failed += "reserved" not in str(error)
            for each in (memory, virtual, pool, managed):
                each.close()
            os._exit(failed)
        status = os.waitpid(child, 0)[1]
        assert memory.view().tolist() == [3] * 8 and virtual.view()[0].tolist() == 4
        for each in (memory, virtual, pool, managed):
            each.close()
        print(status)
        """,
        check=True,
    ).stdout
    assert told.strip() == "0"
