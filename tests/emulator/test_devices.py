"""The emulator's devices: how many, which are visible, and which reach each other."""

from __future__ import annotations

import itertools
import mmap
import struct
import sys
from types import SimpleNamespace

import pytest

from tests.conftest import Python
from tests.emulator.emulator_client import Client
from tests.emulator.test_ptx_linear import steps
from tests.subject import module

devices, emulator = module("emulator.entries.hardware.device_entries"), module("emulator")
UUIDS = [devices.uuid_of(index) for index in range(4)]


@pytest.mark.parametrize(
    "text, chosen",
    [
        ("0,1,2,3", [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        ("3", [3]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("4", []),
        ("0,4,1", [0]),
        ("0,-1,1", [0]),
        ("1,,2", [1]),
        ("0, 2", [0, 2]),
        ("+1", [1]),
        ("1x,2y", [1, 2]),
        ("x1", []),
        ("0,0", []),
        ("0,1,0", []),
        ("0,9,0", [0]),
        ("NoDevFiles", []),
        ("99999999999999999999", []),
        ("٣", []),
        (UUIDS[2], [2]),
        (f"{UUIDS[3]},{UUIDS[0]}", [3, 0]),
        (UUIDS[1][:12], [1]),
        ("GPU-", []),
        (f"{UUIDS[1]},{UUIDS[1][:14]}", []),
        (f"{UUIDS[1]},0", [1]),
        (f"0,{UUIDS[1]}", [0]),
        (f"{UUIDS[1]},GPU-ffffffff-no,{UUIDS[2]}", [1]),
        ("MIG-1", []),
    ],
)
def test_which_devices_are_visible(text: str, chosen: list[int]) -> None:
    """As drivers do it; PyTorch's torch.cuda counts devices by the same rules."""
    assert devices.visible(text, UUIDS) == chosen


def test_the_uuids_begin_differently() -> None:
    assert len({uuid[:8] for uuid in UUIDS}) == 4


SHOW = """
    from tests.subject import rawcuda
    for device in rawcuda.devices():
        device.allocate(16).fill(1)
        device.synchronize()
        print(device.ordinal, device.uuid, device.pci_bus_id, device.attribute("PCI_BUS_ID"))
"""


def test_the_environment_chooses_and_numbers(python: Python) -> None:
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=4", "CUDA_VISIBLE_DEVICES": "3,1"}
    result = python(SHOW, env=env, check=True)
    assert result.stdout.splitlines() == [f"0 {UUIDS[3]} 0000:04:00.0 4", f"1 {UUIDS[1]} 0000:02:00.0 2"]
    result = python(SHOW, env={**env, "CUDA_VISIBLE_DEVICES": UUIDS[2][:10]}, check=True)
    assert result.stdout.splitlines() == [f"0 {UUIDS[2]} 0000:03:00.0 3"]


def test_mig_instances(python: Python) -> None:
    """An instance has a UUID of its own, which cuDeviceGetUuid_v2 returns; nvidia-smi writes "MIG-" before it."""
    instances = [devices.uuid_of(index, True) for index in range(2)]
    assert not {uuid[4:] for uuid in instances} & {uuid[4:] for uuid in UUIDS}
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=2,mig"}
    for text, uuids in (("0,1", instances), (instances[1], instances[1:]), (instances[0][:12], instances[:1])):
        result = python(SHOW, env={**env, "CUDA_VISIBLE_DEVICES": text}, check=True)
        assert [line.split()[1] for line in result.stdout.splitlines()] == uuids
    result = python(SHOW, env={**env, "CUDA_VISIBLE_DEVICES": UUIDS[0]})
    assert result.returncode == 1 and "CUDA_ERROR_NO_DEVICE (100)" in result.stderr


def test_which_driver_it_stands_for(python: Python) -> None:
    code = """
        from tests.subject import rawcuda
        from tests.driver.kernels import ADD
        device = rawcuda.Device(0)
        print(rawcuda.cu.version)
        for version in ("8.2", "8.4", "8.5", "99.0"):
            try:
                print(len(device.load(ADD.replace(".version 6.3", f".version {version}")).names))
            except rawcuda.CudaError as error:
                print(error.code)
        try:
            rawcuda.cu.cuCtxSynchronize_v2(None)
        except rawcuda.SymbolNotFound as error:
            print("13.0" in str(error))
        library = rawcuda.Library(ADD)
        print(len(library.module(device).names))
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "cuda=12.4"}
    assert python(code, env=env, check=True).stdout.split() == ["12040", "1", "1", "222", "222", "True", "1"]
    env["RAWCUDA_EMULATOR"] = "cuda=11.4"  # without libraries
    assert python(code, env=env, check=True).stdout.split() == ["11040", "222", "222", "222", "222", "True", "1"]
    assert python(code, env={"RAWCUDA_DRIVER": "emulator"}).stdout.split()[:5] == ["13000", "1", "1", "1", "222"]
    for cuda in (10000, 99000):
        with pytest.raises(ValueError, match="must be 11000"):
            emulator.Emulator(cuda=cuda)


def test_no_device_is_left(python: Python) -> None:
    for text in ("", "7", "0,0"):
        env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=2", "CUDA_VISIBLE_DEVICES": text}
        result = python("from tests.subject import rawcuda\nprint(rawcuda.devices())", env=env)
        assert result.returncode == 1 and "CUDA_ERROR_NO_DEVICE (100)" in result.stderr
        assert f"CUDA_VISIBLE_DEVICES is {text!r}" in result.stderr


def test_peers_of_hidden_devices(python: Python) -> None:
    """In pairs, 0 and 1 belong together, also if they have other numbers now."""
    code = """
        from tests.subject import rawcuda
        one, two, three = rawcuda.devices()
        print(one.can_reach(two), one.can_reach(three), two.can_reach(three))
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=4,peers=pairs", "CUDA_VISIBLE_DEVICES": "1,2,0"}
    assert python(code, env=env, check=True).stdout.split() == ["False", "True", "False"]
    for peers, answer in (("off", "False"), ("on", "True")):
        env["RAWCUDA_EMULATOR"] = f"devices=4,peers={peers}"
        assert python(code, env=env, check=True).stdout.split() == [answer] * 3


def test_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("peers", "peers=", "peers=maybe", "devices=4,peers=on=off"):
        monkeypatch.setenv("RAWCUDA_EMULATOR", text)
        with pytest.raises(ValueError, match="peers=on/off/pairs"):
            emulator.Emulator.from_environment()
    with pytest.raises(ValueError, match="must be 'on', 'off' or 'pairs'"):
        emulator.Emulator(peers="all")


MANAGED = """
    import ctypes, sys, warnings
    from tests.subject import rawcuda
    device = rawcuda.Device(0)
    stream, other = device.stream(), device.allocate(64)
    memory = device.allocate(16, kind="managed")
    view = memory.view("int32")
    print(device.attribute("CONCURRENT_MANAGED_ACCESS"))
    def read():
        memory.fill(2, stream=stream)
        stream.synchronize()
        other.fill(1, stream=stream)  # work that does not use the managed memory
        return {used}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        print(read(), read())
    print(len(told), *[(each.category.__name__, "the host may not use" in str(each.message)) for each in told])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect()")
@pytest.mark.parametrize(
    "used",
    ["bytes(view.memoryview())[0]", "bytes(memory.view().memoryview())[0]", "numpy.asarray(view)[0] & 255"]
    + ["numpy.from_dlpack(view)[0] & 255", "rawcuda.view(view).memoryview()[0] & 255"],
)
def test_managed_memory_without_concurrent_access(python: Python, used: str) -> None:
    """The package waits for all work before it gives managed memory to the host, and says so once."""
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0"}
    numpy = pytest.importorskip("numpy").__name__ if "numpy" in used else "sys"
    result = python(MANAGED.format(used=used).replace("import ctypes", f"import {numpy}, ctypes"), env=env)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["0", "2 2", "1 ('RuntimeWarning', True)"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect()")
def test_managed_memory_while_another_device_works(python: Python) -> None:
    """Without concurrent access, the host waits for the work of every device, also for that of other software."""
    code = """
        import ctypes
        from tests.subject import module, rawcuda
        one, two = rawcuda.devices()
        memory, other, stream = one.allocate(64, kind="managed").fill(3), two.allocate(64), two.stream()
        other.fill(1, stream=stream)
        print(ctypes.string_at(memory.view().__array_interface__["data"][0], 1)[0])
        driver, types = module("driver").current(), module("headers.cuda_h")
        made, theirs, place = types.CUcontext(), types.CUstream(), types.CUdeviceptr()
        del other, stream
        two.close()
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(made), 1)
        driver.cuCtxPushCurrent_v2(made)
        driver.cuStreamCreate(ctypes.byref(theirs), 1)
        driver.cuMemAlloc_v2(ctypes.byref(place), 64)
        driver.cuMemsetD8Async(place, 1, 64, theirs)
        print(ctypes.string_at(memory.view().__array_interface__["data"][0], 1)[0])
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0,devices=2"}
    assert python(code, env=env, check=True).stdout.split() == ["3", "3"]


def test_managed_memory_after_an_error_of_another_device(python: Python) -> None:
    """The work that the error has ended is not pending."""
    code = """
        from tests.subject import rawcuda
        one, two = rawcuda.devices()
        memory = one.allocate(64, kind="managed").fill(3)
        two.load(".version 6.0\\n.target sm_50\\n.address_size 64\\n.visible .entry fails() { trap; }")["fails"].launch(
            grid=1, block=1
        )
        print(memory.view().__array_interface__["shape"], flush=True)
        try:
            two.synchronize()
        except rawcuda.ContextLost:
            print("lost")
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0,devices=2"}
    assert python(code, env=env, check=True).stdout.split("\n") == ["(64,)", "lost", ""]


def test_prefetches_and_advice_without_concurrent_access() -> None:
    """Advice about a device needs concurrent access of that device, and a prefetch of that of its stream, too."""
    client = Client(cma=False)
    memory, own = client.get("cuMemAllocManaged", 4096, 1), client.stream()
    assert [client.code("cuMemPrefetchAsync", memory, 64, device, own) for device in (0, -1)] == [101, 101]
    for advice, place in itertools.product(range(1, 7), (0, -1)):
        wanted = 101 * (advice in (3, 5, 6) and place == 0)
        assert client.code("cuMemAdvise", memory, 64, advice, place) == wanted, (advice, place)
    run, place, first = struct.pack("<2Q", memory, 64), struct.pack("<2i", 1, 0), bytes(8)
    assert client.code("cuMemDiscardBatchAsync", run[:8], run[8:], 1, 0, own) == 101
    assert client.code("cuMemPrefetchBatchAsync", run[:8], run[8:], 1, place, first, 1, 0, own) == 101
    assert "CONCURRENT_MANAGED_ACCESS" in str(client.emulator.explain(101))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect()")
def test_an_access_of_the_host_while_work_is_pending(python: Python) -> None:
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0"}
    code = MANAGED.format(used="ctypes.string_at(memory.ptr, 1)[0]")
    result = python(code, env=env)
    assert result.returncode < 0 and "Segmentation fault" in result.stderr, result.stderr
    assert "access of the host to managed memory while work is pending" in result.stderr
    for word in ("lazy", "cma=0"):  # with concurrent access; in the eager mode no work is pending
        result = python(code, env={**env, "RAWCUDA_EMULATOR": word}, check=True)
        assert result.stdout.split()[1:3] == ["2", "2"]


@pytest.mark.skipif(not module("emulator.machine.sharing").is_supported(), reason="files in memory are of Linux")
def test_work_on_managed_memory_that_a_thread_of_the_emulator_runs(python: Python) -> None:
    """It runs the work before a shared event, and has the access meanwhile, which the program has not."""
    code = """
        import ctypes, time
        from tests.subject import rawcuda
        d = rawcuda.Device(0)
        memory, s, other, e = d.allocate(64, kind="managed"), d.stream(), d.stream(), d.event(shareable=True)
        pending = d.allocate(64)
        pending.fill(2, stream=other)  # nothing waits for this
        memory.fill(3, stream=s)
        e.record(s)
        time.sleep(0.5)
        print("alive", flush=True)
        {used}
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0"}
    result = python(code.format(used="print(e.query(), memory.view().tolist()[0])"), env=env, check=True)
    assert result.stdout.split() == ["alive", "True", "3"]
    result = python(code.format(used="ctypes.string_at(memory.ptr, 1)"), env=env)
    assert result.returncode < 0 and result.stdout == "alive\n" and "string_at" in result.stderr, result.stderr


def test_work_on_managed_memory_at_the_end_of_a_program(python: Python) -> None:
    """The emulator runs it, with access to the memory, and reports what failed."""
    code = """
        from tests.subject import rawcuda
        d = rawcuda.Device(0)
        memory, s = d.allocate(64, kind="managed"), d.stream()
        memory.fill(3, stream=s)
        {more}
        print("end")
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,cma=0"}
    assert python(code.format(more=""), env=env, check=True).stdout == "end\n"
    ptx = ".version 6.0\\n.target sm_50\\n.address_size 64\\n.visible .entry fails() { trap; }"
    kernel = f"d.load('{ptx}')['fails'].launch(grid=1, block=1, stream=s)"
    result = python(code.format(more=kernel), env=env)
    assert result.returncode == 1 and "has not waited for it" in result.stderr, result.stderr


def test_the_access_is_taken_from_live_managed_memory_with_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other allocations are not looked at, and mprotect() is looked up once."""
    host_access, memory = module("emulator.machine.host_access"), module("emulator.machine.space").Space()
    access, page, looked, places = host_access.HostAccess(SimpleNamespace(space=memory)), mmap.PAGESIZE, [], []
    access._said = True
    library = host_access.ctypes.CDLL
    monkeypatch.setattr(host_access.ctypes, "CDLL", lambda *given: looked.append(given) or library(*given))
    made = [memory.allocate_host(64, kind="managed") for _ in range(3)]
    memory.free(made[1].base)
    assert memory.managed == {made[0].base: 64, made[2].base: 64}

    def both(_: object) -> None:
        access._take()
        access._give()

    both(None)
    few = steps(None, both)
    for _ in range(1000):
        memory.allocate(1)
    assert steps(None, both) == few and len(looked) <= 1
    memory.free(made[0].base)
    memory.free(made[2].base)
    memory.managed.update({9 * page: 1, 8 * page: page, 10 * page: page + 1, 20 * page: 5})
    monkeypatch.setattr(host_access, "_protect", lambda *given: places.append(given))
    both(None)
    together = [(8 * page, 4 * page), (20 * page, page)]
    assert places == [(*place, 0) for place in together] + [(*place, 3) for place in reversed(together)]


def test_a_library_that_is_compiled_later(python: Python) -> None:
    """The driver writes its log into the buffers that it was given when the library was loaded."""
    code = """
        import gc
        from tests.subject import rawcuda
        from tests.driver.kernels import ADD
        device, library = rawcuda.Device(0), rawcuda.Library(ADD.replace("add.f32", "add.f33"))
        gc.collect()
        for _ in range(2):
            try:
                library.module(device)
            except rawcuda.CompileFailed as error:
                print("'.f33'" in error.log and error.log.endswith("errors"), error.code, "add.f33" in error.source)
        library.close()
        library = rawcuda.Library(ADD)
        print(len(library.module(device).names))
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "deferred"}
    assert python(code, env=env, check=True).stdout.split() == ["True", "218", "True"] * 2 + ["1"]
