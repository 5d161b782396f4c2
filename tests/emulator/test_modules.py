"""Modules, attributes of kernels, launches with attributes, occupancy, libraries, fatbins."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess

import pytest

from tests.emulator.emulator_client import HEAD, KERNELS, Client, Failed
from tests.subject import module

words, containers = module("emulator.interface.thunks"), module("images.containers")
OUT = ctypes.c_uint64()
INFO, INFO_SIZE, ERROR, ERROR_SIZE, WALL_TIME = 3, 4, 5, 6, 2
NAMES = {"store", "step", "spin", "nothing", "small", "exact", "trap", "wild"}


@pytest.fixture
def client():
    made = Client()
    yield made
    assert not made.emulator.kept_exceptions


def _load_with_logs(client, image, room=2000):
    """Load with both logs; return (code, info log, its size, error log, its size, time)."""
    info, error = ctypes.create_string_buffer(b"?" * room, room), ctypes.create_string_buffer(b"?" * room, room)
    options = (ctypes.c_int * 5)(INFO_SIZE, INFO, ERROR_SIZE, ERROR, WALL_TIME)
    values = (ctypes.c_uint64 * 5)(room, ctypes.addressof(info), room, ctypes.addressof(error), 0)
    code = client.code("cuModuleLoadDataEx", OUT, image, 5, options, values)
    (time,) = struct.unpack("<f", struct.pack("<Q", values[4])[:4])
    return code, info, values[0], error, values[2], time


# -- loading


def test_the_logs_of_a_good_module(client):
    code, _, info_size, error, error_size, time = _load_with_logs(client, KERNELS.encode())
    assert code == 0 and error_size == 0 and error.value == b"" and info_size < 2000
    assert 0 < time < 60_000
    client.do("cuModuleUnload", OUT.value)
    assert not client.live()


def test_the_log_of_a_bad_module_names_the_line(client):
    image = HEAD + ".visible .entry k()\n{\n  nonsense.u32 %r1;\n  ret;\n}\n"
    code, _, info_size, error, size, _ = _load_with_logs(client, image.encode())
    assert code == 218 and info_size == 0
    assert size == len(error.value) > 10
    assert "6" in error.value.decode()  # the line
    assert client.emulator.explain(218) == error.value.decode()
    assert not client.live()


@pytest.mark.parametrize("room", [1, 2, 10])
def test_a_log_is_cut_to_its_buffer(client, room):
    code, _, _, error, size, _ = _load_with_logs(client, HEAD.encode() + b"no more PTX", room)
    assert code == 218
    assert size == room - 1 == len(error.value)  # and nothing is after the final zero


def test_options_must_make_sense(client):
    assert client.code("cuModuleLoadDataEx", OUT, KERNELS.encode(), 1, 0, 0) == 1
    options, values = (ctypes.c_int * 1)(99), (ctypes.c_uint64 * 1)()
    assert client.code("cuModuleLoadDataEx", OUT, KERNELS.encode(), 1, options, values) == 1


def test_a_module_from_a_file(client, tmp_path):
    path = tmp_path / "kernels.ptx"
    path.write_text(KERNELS)
    loaded = client.get("cuModuleLoad", str(path).encode())
    assert client.get("cuModuleGetFunction", loaded, b"store")
    client.do("cuModuleUnload", loaded)


def test_a_module_is_gone_when_it_is_unloaded(client):
    loaded = client.load(KERNELS)
    function = client.get("cuModuleGetFunction", loaded, b"nothing")
    size = ctypes.c_uint64()
    table = client.get("cuModuleGetGlobal_v2", size, loaded, b"table")
    assert size.value == 16
    assert struct.unpack("<4I", client.download(table, 16)) == (1, 2, 3, 4)
    client.do("cuMemcpyHtoD_v2", table, struct.pack("<I", 9), 4)
    assert client.number(table) == 9
    assert client.code("cuMemFree_v2", table) == 1  # it belongs to the module
    assert client.live() == {"module": 1}
    client.do("cuModuleUnload", loaded)
    assert client.code("cuModuleUnload", loaded) == 400
    assert client.code("cuModuleGetFunction", OUT, loaded, b"nothing") == 400
    assert client.launch(function, []) == 400
    assert client.code("cuMemcpyDtoH_v2", ctypes.create_string_buffer(16), table, 16) == 1


def test_what_another_thread_does_while_an_unload_waits(monkeypatch):
    """It first uses the library in another context; or unloads the same library, or module."""
    client = Client(devices=2)
    code, meanwhile = ctypes.create_string_buffer(KERNELS.encode()), []
    queues = client.emulator._machine.queues

    def wait(context, complete=queues.complete_context):
        complete(context)
        while meanwhile:
            meanwhile.pop()()

    def use_elsewhere():
        client.do("cuCtxPushCurrent_v2", other)
        client.do("cuLibraryGetModule", OUT, library)
        client.do("cuCtxPopCurrent_v2", OUT)

    monkeypatch.setattr(queues, "complete_context", wait)
    other = client.get("cuDevicePrimaryCtxRetain", 1)
    for what in ("use", "unload"):
        library = client.get("cuLibraryLoadData", code, 0, 0, 0, 0, 0, 0)
        client.get("cuLibraryGetModule", library)
        meanwhile.append(use_elsewhere if what == "use" else lambda: client.do("cuLibraryUnload", library))
        assert client.code("cuLibraryUnload", library) == (0 if what == "use" else 400)
        assert not client.live().keys() & {"library", "module"}
    loaded = client.load(KERNELS)
    meanwhile.append(lambda: client.do("cuModuleUnload", loaded))
    assert client.code("cuModuleUnload", loaded) == 400


def test_variables_are_in_the_memory_of_the_device(client):
    free, total = ctypes.c_uint64(), ctypes.c_uint64()

    def free_now():
        client.do("cuMemGetInfo_v2", free, total)
        return free.value

    before, size = free_now(), 1 << 30
    variables = f".visible .global .align 4 .b8 large[{size}];\n.visible .global .attribute(.managed) .u32 shared;\n"
    loaded = client.load(HEAD + variables)
    assert free_now() == before - size
    client.emulator._machine.repair()  # as after an interrupt
    assert free_now() == before - size
    taken = client.allocate(before - size)
    assert client.code("cuModuleLoadData", OUT, (HEAD + variables).encode()) == 2
    client.do("cuModuleUnload", loaded)
    assert free_now() == size
    client.do("cuMemFree_v2", taken)
    client.load(HEAD + variables)
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    client.do("cuDevicePrimaryCtxRetain", OUT, 0)
    assert free_now() == before


def test_either_of_a_variable_s_address_and_size_may_be_left_out(client):
    loaded, size = client.load(KERNELS), ctypes.c_uint64()
    client.do("cuModuleGetGlobal_v2", 0, size, loaded, b"table")
    assert size.value == 16
    client.do("cuModuleGetGlobal_v2", OUT, 0, loaded, b"table")
    assert client.code("cuModuleGetGlobal_v2", 0, 0, loaded, b"table") == 1


def test_dump_writes_the_source_and_says_where(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Client(dump=True).load(KERNELS)
    (written,) = tmp_path.glob("ptx-*.py")
    assert str(written) in capsys.readouterr().err
    assert written.read_text()


# -- kernels


def test_all_kernels_are_listed(client):
    loaded = client.load(KERNELS)
    count = client.get_int("cuModuleGetFunctionCount", loaded)
    assert count == len(NAMES)
    handles = (ctypes.c_uint64 * (count + 2))()
    client.do("cuModuleEnumerateFunctions", handles, count + 2, loaded)
    assert not any(handles[count:])
    found = set()
    for handle in handles[:count]:
        name = ctypes.c_char_p()
        client.do("cuFuncGetName", name, handle)
        found.add(name.value.decode())
        assert client.get("cuModuleGetFunction", loaded, name.value) == handle
        assert client.get("cuFuncGetModule", handle) == loaded
    assert found == NAMES
    two = (ctypes.c_uint64 * 3)()
    client.do("cuModuleEnumerateFunctions", two, 2, loaded)
    assert all(two[:2]) and not two[2]


def test_parameters_of_a_kernel(client):
    get = client.kernels()
    offset, size = ctypes.c_uint64(), ctypes.c_uint64()
    found = []
    for index in range(2):
        client.do("cuFuncGetParamInfo", get("store"), index, offset, size)
        found.append((offset.value, size.value))
    assert found == [(0, 8), (8, 4)]
    client.do("cuFuncGetParamInfo", get("store"), 1, offset, 0)
    assert client.code("cuFuncGetParamInfo", get("store"), 2, offset, size) == 1
    assert client.code("cuFuncGetParamInfo", get("nothing"), 0, offset, size) == 1
    assert client.code("cuFuncGetParamInfo", get("store"), 0, 0, size) == 1


def test_attributes_of_a_kernel(client):
    get = client.kernels()
    attribute = lambda number, name="store": client.get_int("cuFuncGetAttribute", number, get(name))  # noqa: E731
    assert attribute(0) == 1024 and attribute(0, "small") == 64 and attribute(0, "exact") == 64
    assert attribute(1) == 0 and attribute(4) > 0
    assert attribute(5) == 50  # of the PTX's .target
    assert attribute(6) == 90
    assert attribute(8) == 48 << 10
    client.do("cuFuncSetAttribute", get("store"), 8, 100 << 10)
    assert client.launch(get("store"), [client.allocate(4), bytes(4)], shared=100 << 10) == 0
    assert client.code("cuFuncSetAttribute", get("store"), 8, 228 << 10) == 1
    assert client.code("cuFuncSetAttribute", get("store"), 4, 10) == 1
    assert client.code("cuFuncGetAttribute", OUT, 16, get("store")) == 1
    client.do("cuFuncSetAttribute", get("store"), 9, 50)
    assert attribute(9) in (-1, 50)


# -- launches


def _config(grid=(1, 1, 1), block=(1, 1, 1), stream=0, attributes=()):
    """Pack a CUlaunchConfig; return it, and the objects to which it points."""
    array = ctypes.create_string_buffer(
        b"".join(words.LAUNCH_ATTRIBUTE.pack(number, value) for number, value in attributes) or b"\0"
    )
    return words.LAUNCH_CONFIG.pack(*grid, *block, 0, stream, ctypes.addressof(array), len(attributes)), array


@pytest.mark.parametrize(
    "attributes, grid, code",
    [
        ([], (1, 1, 1), 0),
        ([(8, struct.pack("<i", -3))], (1, 1, 1), 0),
        ([(0, b"")], (1, 1, 1), 0),
        ([(2, struct.pack("<i", 1))], (1, 1, 1), 0),
        ([(2, struct.pack("<i", 1))], (60000, 1, 1), 720),
        ([(2, struct.pack("<i", 0))], (600, 1, 1), 0),
        ([(4, struct.pack("<3I", 2, 1, 1))], (4, 1, 1), 0),
        ([(4, struct.pack("<3I", 2, 2, 1))], (4, 2, 1), 0),
        ([(4, struct.pack("<3I", 2, 1, 1))], (3, 1, 1), 1),
        ([(4, struct.pack("<3I", 0, 1, 1))], (4, 1, 1), 1),
        ([(4, struct.pack("<3I", 16, 1, 1))], (16, 1, 1), 912),
        ([(99, b"")], (1, 1, 1), 1),
        ([(15, b"")], (1, 1, 1), 1),
        ([(1, struct.pack("<QQfii", 4096, 4096, 0.5, 2, 1))], (1, 1, 1), 0),
        ([(1, struct.pack("<QQfii", 4096, 1 << 40, 0.5, 2, 1))], (1, 1, 1), 1),
        ([(1, struct.pack("<QQfii", 4096, 4096, 1.5, 2, 1))], (1, 1, 1), 1),
        ([(1, struct.pack("<QQfii", 4096, 4096, 0.5, 2, 2))], (1, 1, 1), 1),
        ([(3, struct.pack("<i", 1))], (1, 1, 1), 1),
        ([(5, struct.pack("<i", 3))], (1, 1, 1), 1),
        ([(6, struct.pack("<i", 1))], (1, 1, 1), 0),
        ([(7, struct.pack("<Qii", 12345, 0, 0))], (1, 1, 1), 400),
        ([(12, struct.pack("<Qi", 0, 0))], (1, 1, 1), 400),
        ([(8, struct.pack("<i", -6))], (1, 1, 1), 1),
        ([(8, struct.pack("<i", 1))], (1, 1, 1), 1),
        ([(9, struct.pack("<2B", 3, 0))], (1, 1, 1), 0),
        ([(9, struct.pack("<2B", 4, 0))], (1, 1, 1), 1),
        ([(10, struct.pack("<i", 2))], (1, 1, 1), 1),
        ([(4, struct.pack("<3I", 2, 1, 1)), (11, struct.pack("<3I", 4, 1, 1))], (4, 1, 1), 0),
        ([(4, struct.pack("<3I", 2, 1, 1)), (11, struct.pack("<3I", 3, 1, 1))], (6, 1, 1), 1),
        ([(4, struct.pack("<3I", 2, 1, 1)), (11, struct.pack("<3I", 0, 1, 1))], (6, 1, 1), 1),
        ([(13, struct.pack("<i", 1))], (1, 1, 1), 1),
        ([(14, struct.pack("<i", 101))], (1, 1, 1), 1),
        ([(16, struct.pack("<i", 2))], (1, 1, 1), 1),
        ([(4, struct.pack("<3I", 2, 1, 1)), (2, struct.pack("<i", 1)), (8, b"")], (4, 1, 1), 0),
        ([(4, struct.pack("<3I", 0, 1, 1)), (11, struct.pack("<3I", 2, 1, 1))], (4, 1, 1), 1),
        ([(11, struct.pack("<3I", 2, 2, 1)), (4, struct.pack("<3I", 2, 0, 1))], (4, 1, 1), 1),
    ],
)
def test_launches_with_attributes(client, attributes, grid, code):
    config, kept = _config(grid, attributes=attributes)
    assert client.code("cuLaunchKernelEx", config, client.kernels()("nothing"), 0, 0) == code
    assert client.code("cuCtxSynchronize") == 0
    del kept


def test_a_kernel_may_allow_larger_clusters(client):
    nothing = client.kernels()("nothing")
    client.do("cuFuncSetAttribute", nothing, 14, 1)
    config, kept = _config((16, 1, 1), attributes=[(4, struct.pack("<3I", 16, 1, 1))])
    client.do("cuLaunchKernelEx", config, nothing, 0, 0)
    assert client.get_int("cuOccupancyMaxPotentialClusterSize", nothing, config) == 16
    assert client.get_int("cuOccupancyMaxActiveClusters", nothing, config) > 0
    del kept


def test_ex_takes_its_stream_and_arguments(client):
    store, memory, stream = client.kernels()("store"), client.allocate(4), client.stream()
    cells = ctypes.c_uint64(memory), ctypes.c_uint32(77)
    parameters = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, cells))
    config, kept = _config(stream=stream)
    client.do("cuLaunchKernelEx", config, store, parameters, 0)
    client.do("cuStreamSynchronize", stream)
    assert client.number(memory) == 77
    assert client.code("cuLaunchKernelEx", 0, store, parameters, 0) == 1
    del kept


def test_arguments_are_copied_at_the_call():
    client = Client("lazy")
    store, memory = client.kernels()("store"), client.allocate(4)
    cells = ctypes.c_uint64(memory), ctypes.c_uint32(5)
    parameters = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, cells))
    client.do("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0)
    cells[0].value, cells[1].value = 0, 6
    client.do("cuCtxSynchronize")
    assert client.number(memory) == 5


def test_progress_is_told():
    told = []
    client = Client(progress=lambda done, total: told.append((done, total)))
    assert client.emulator.progress
    assert client.launch(client.kernels()("nothing"), [], grid=(3000, 1, 1), block=(32, 1, 1)) == 0
    assert all(0 <= done <= total == 3000 for done, total in told)


# -- occupancy, calculated by hand from the published tables for compute capability 9.0


@pytest.mark.parametrize(
    "threads, shared, blocks",
    [
        (1024, 0, 2),
        (512, 0, 4),
        (256, 0, 8),
        (32, 0, 32),
        (1, 0, 32),
        (33, 0, 32),
        (96, 0, 21),
        (256, 48 << 10, 4),
        (1024, 200 << 10, 1),
        (1025, 0, 0),
        (64, 227 << 10, 1),
        (64, 228 << 10, 0),
        (32, 32 << 10, 6),  # each block costs 1 KiB more
    ],
)
def test_occupancy(client, threads, shared, blocks):
    nothing = client.kernels()("nothing")
    if shared > 48 << 10:
        assert client.get_int("cuOccupancyMaxActiveBlocksPerMultiprocessor", nothing, threads, shared) == 0
        client.do("cuFuncSetAttribute", nothing, 8, 227 << 10)
    assert client.get_int("cuOccupancyMaxActiveBlocksPerMultiprocessor", nothing, threads, shared) == blocks


def test_the_best_block_size(client):
    get, grid, block = client.kernels(), ctypes.c_int(), ctypes.c_int()
    client.do("cuOccupancyMaxPotentialBlockSize", grid, block, get("nothing"), 0, 0, 0)
    assert (grid.value, block.value) == (8, 1024)
    client.do("cuOccupancyMaxPotentialBlockSize", grid, block, get("nothing"), 0, 0, 200)
    assert block.value <= 200 and grid.value * block.value >= 4 * 1900
    client.do("cuOccupancyMaxPotentialBlockSize", grid, block, get("small"), 0, 0, 0)
    assert block.value == 64
    asked = []
    shared_of = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(lambda threads: asked.append(threads) or threads * 256)
    client.do(
        "cuOccupancyMaxPotentialBlockSizeWithFlags",
        grid,
        block,
        get("nothing"),
        ctypes.cast(shared_of, ctypes.c_void_p).value,
        0,
        0,
        0,
    )
    assert asked and block.value < 1024
    client.do("cuFuncSetAttribute", get("nothing"), 8, 227 << 10)
    free = client.get("cuOccupancyAvailableDynamicSMemPerBlock", get("nothing"), 2, 256)
    assert client.get_int("cuOccupancyMaxActiveBlocksPerMultiprocessor", get("nothing"), 256, free) == 2
    assert client.get_int("cuOccupancyMaxActiveBlocksPerMultiprocessor", get("nothing"), 256, free + 1024) == 1


# -- fatbins


def _member(kind, architecture, content, *, flags=0x11, packed=0, plain=0):
    header = struct.pack("<HHIQ", kind, 0x101, 64, len(content)) + struct.pack(
        "<12I", packed, 0, 0, architecture, 0, 0, flags, 0, 0, 0, plain, 0
    )
    return header + content


def _fatbin(*members):
    body = b"".join(members)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


PLAIN = (KERNELS + "\0" * (-len(KERNELS) % 8)).encode()


def _lz4(content):
    """Pack as LZ4 does in the worst case: only literals, except for one match that overlaps itself."""
    run = b"//" + b"-" * 30 + b"\n"
    literals = run[:3]
    out = bytearray([3 << 4 | 15]) + literals + b"\x01\0" + bytes([len(run) - 1 - 3 - 4 - 15])
    rest = run[-1:] + content
    out += bytes([0xF0]) + b"\xff" * ((len(rest) - 15) // 255) + bytes([(len(rest) - 15) % 255]) + rest
    return bytes(out), len(run) + len(content)


def test_the_ptx_of_a_fatbin_is_found(client):
    image = _fatbin(
        _member(2, 90, b"\x7fELF" + bytes(60)),
        _member(1, 80, PLAIN.replace(b"nothing", b"older__")),
        _member(1, 90, PLAIN),
    )
    for name in ("cuModuleLoadFatBinary", "cuModuleLoadData"):
        loaded = client.get(name, image)
        assert client.get("cuModuleGetFunction", loaded, b"nothing")  # of the newest architecture
        client.do("cuModuleUnload", loaded)
    kept = ctypes.create_string_buffer(image, len(image))
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(kept), 0)
    client.do("cuModuleUnload", client.get("cuModuleLoadData", wrapper))


def test_compressed_ptx_is_unpacked(client):
    packed, size = _lz4(PLAIN)
    assert containers._unpack_lz4(packed, size) == b"//" + b"-" * 30 + b"\n" + PLAIN
    loaded = client.get(
        "cuModuleLoadData", _fatbin(_member(1, 90, packed, flags=0x2011, packed=len(packed), plain=size))
    )
    assert client.get("cuModuleGetFunction", loaded, b"store")


@pytest.mark.parametrize(
    "image",
    [
        _fatbin(),
        _fatbin(_member(2, 90, b"\x7fELF" + bytes(60))),
    ],
)
def test_a_fatbin_without_ptx_is_209(client, image):
    with pytest.raises(Failed, match="209"):
        client.get("cuModuleLoadFatBinary", image)
    assert "no PTX" in client.emulator.explain(209)


def test_damaged_compression_is_200(client):
    image = _fatbin(_member(1, 90, b"\x10A\x09\0AAAAAAAA", flags=0x2011, packed=12, plain=100))
    assert client.code("cuModuleLoadFatBinary", OUT, image) == 200
    image = _fatbin(_member(1, 90, b"1234", flags=0x8011, packed=4, plain=9))[:-2]
    assert client.code("cuModuleLoadFatBinary", OUT, image) == 200


def test_ptx_compressed_with_zstd_is_unpacked(client):
    packed = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(PLAIN))  # a frame with one block, as it is
    packed += (len(PLAIN) << 3 | 1).to_bytes(3, "little") + PLAIN
    image = _fatbin(_member(1, 90, packed, flags=0x8011, packed=len(packed), plain=len(PLAIN)))
    assert client.get("cuModuleGetFunction", client.get("cuModuleLoadData", image), b"store")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("options", [["--no-compress"], ["--compress-mode=speed"]])
def test_fatbins_and_cubins_that_nvcc_makes(client, tmp_path, options):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void put(int *p, int v) { *p = v; }')
    make = [
        "nvcc",
        *options,
        "-gencode",
        "arch=compute_80,code=[sm_80,compute_80]",
        "-gencode",
        "arch=compute_90,code=[compute_90]",
    ]
    subprocess.run([*make, "-fatbin", "-o", "k.fatbin", "k.cu"], cwd=tmp_path, check=True)
    subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", "k.cubin", "k.cu"], cwd=tmp_path, check=True)
    loaded = client.get("cuModuleLoadData", (tmp_path / "k.fatbin").read_bytes())
    memory = client.allocate(4)
    assert client.launch(client.get("cuModuleGetFunction", loaded, b"put"), [memory, struct.pack("<i", 6)]) == 0
    assert client.number(memory) == 6
    assert client.code("cuModuleLoadData", OUT, (tmp_path / "k.cubin").read_bytes()) in (200, 209)
    assert client.code("cuModuleLoad", OUT, str(tmp_path / "k.fatbin").encode()) == 0
