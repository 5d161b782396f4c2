"""Kernels of nvcc, launched through the public interface, give the same numbers on the emulator and on a GPU."""

from __future__ import annotations

import array
import random
import struct
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"


@pytest.fixture(scope="module")
def memory_kernels() -> Path:
    return DATA / "memory.sm75.ptx"


def test_vector_add(device, memory_kernels):
    n = 777
    a, b = array.array("f", [i * 0.5 for i in range(n)]), array.array("f", [-i * 0.25 for i in range(n)])
    with device.load(memory_kernels) as loaded:
        out = device.empty(n, "float32")
        loaded["vector_add"].launch(device.upload(a), device.upload(b), out, n, grid=4, block=256)
        assert out.tolist() == [x + y for x, y in zip(a, b)]


def test_tiled_product(device, memory_kernels):
    rng, n = random.Random(4), 48
    a, b = (array.array("f", [rng.randint(-9, 9) for _ in range(n * n)]) for _ in range(2))
    with device.load(memory_kernels) as loaded:
        out = device.empty(n * n, "float32")
        loaded["matmul_tiled"].launch(device.upload(a), device.upload(b), out, n, grid=(3, 3), block=(16, 16))
        assert out.tolist() == [sum(a[i * n + k] * b[k * n + j] for k in range(n)) for i in range(n) for j in range(n)]


def test_a_structure_by_value_and_dynamic_shared_memory(device, memory_kernels):
    point = struct.pack("<bxhidd", 5, -300, 70000, 1.25, -8.0)
    with device.load(memory_kernels) as loaded:
        out = device.empty(3 * 24, "uint8")
        loaded["structures"].launch(out, point, 3, grid=1, block=3)
        rows = [struct.unpack_from("<bxhidd", bytes(out.tolist()), 24 * i) for i in range(3)]
        assert rows == [(5 + i, -300, 69999, 1.25 + i * 0.5, (1.25, -8.0)[i & 1]) for i in range(3)]
        data = device.upload(array.array("i", range(40)))
        loaded["reverse_dynamic"].launch(data, 40, grid=1, block=40, shared_bytes=160)
        assert data.tolist() == list(range(39, -1, -1))


def test_recursion_and_function_pointers(device, memory_kernels):
    with device.load(memory_kernels) as loaded:
        out = device.empty(10, "int32")
        loaded["recursion"].launch(out, grid=1, block=10)
        assert out.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
        floats, doubles = device.empty(4, "float32"), device.empty(4, "float64")
        loaded["globals"].launch(floats, doubles, grid=1, block=4)
        assert floats.tolist()[1:3] == [-4.5 + 5.0625, 12.0] and doubles.tolist() == [0.25, 0.5, 0.25, 0.25]


def test_warps_and_atomics(device):
    with device.load(DATA / "together.sm75.ptx") as loaded:
        values = array.array("i", [(i * 7) % 11 for i in range(64)])
        out = device.empty(64, "int32")
        loaded["scan_warp"].launch(device.upload(values), out, grid=1, block=64)
        assert out.tolist() == [sum(values[i // 32 * 32 : i + 1]) for i in range(64)]
        bins = device.upload(array.array("I", [0] * 16))
        data = array.array("B", [random.Random(5).randrange(256) for _ in range(500)])
        loaded["histogram"].launch(device.upload(data), bins, 500, grid=2, block=64)
        assert bins.tolist() == [sum(v & 15 == k for v in data) for k in range(16)]


def test_a_grid_that_meets(device):
    with device.load(DATA / "together.sm75.ptx") as loaded:
        data = device.upload(array.array("i", range(20)))
        loaded["grid_wide"].launch(data, 20, grid=3, block=8, cooperative=True)
        assert data.tolist() == [i + 1 + (20 - i) * 10 for i in range(20)]


@pytest.mark.parametrize("kernel,count", [("i32_to_f32", 8), ("f32_sqrt", 8)])
def test_arithmetic(device, kernel, count):
    given = array.array("i", [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31), 123456789, -7])
    if kernel == "f32_sqrt":
        given = array.array("f", [0.0, 1.0, 2.0, 3.0, 1e-40, 1e38, 16777216.0, 0.1])
    with device.load(DATA / "arithmetic.sm75.ptx") as loaded:
        x, out = device.upload(given), device.empty(count, "float32")
        loaded[kernel].launch(out, x, x, x, count, grid=1, block=32)
        single = struct.Struct("<f")
        want = [single.unpack(single.pack(v**0.5 if kernel == "f32_sqrt" else float(v)))[0] for v in given]
        assert out.tolist() == want
