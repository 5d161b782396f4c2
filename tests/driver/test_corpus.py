"""Compiled kernels give right results: copies, threads that synchronize, control flow, variables.

test_corpus_numbers.py has the arithmetic.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from tests.driver.corpus import Build, builds, built, rng, under_its_own_name  # noqa: E402
from tests.shared import wrap  # noqa: E402

pytestmark = under_its_own_name

# -- copies


@builds("copies")
@pytest.mark.parametrize(
    "kernel,width",
    [
        ("copy_1", 1),
        ("copy_2", 2),
        ("copy_4", 4),
        ("copy_8", 8),
        ("copy_16", 16),
        ("copy_long2", 16),
        ("copy_char4", 4),
        ("copy_short4", 8),
    ],
)
def test_copies(built: Build, kernel: str, width: int) -> None:
    for stride in (1, 3):
        source = np.frombuffer(rng(kernel).getrandbits(8 * 300 * width).to_bytes(300 * width, "little"), "u1").reshape(
            300, width
        )
        target = np.zeros((100, width), "u1")
        assert (
            built.run(kernel, target, source, 100, stride, grid=2, block=32)[0] == source[: 100 * stride : stride]
        ).all()


@builds("copies")
def test_qualifiers(built: Build) -> None:
    source = np.arange(64, dtype="f4")
    got, _, flag = built.run("qualifiers", np.zeros(64, "f4"), source, np.zeros(1, "i4"), 64, grid=2, block=32)
    assert flag[0] == 7 and (got == source * 21 + (np.arange(64) // 4 * 4 + 3) + 7).all()


@builds("copies")
def test_packed_records(built: Build) -> None:
    kind = np.dtype([("tag", "u1"), ("number", "<i4"), ("small", "<u2"), ("wide", "<f8")])
    source = np.zeros(40, kind)
    source["tag"], source["number"], source["small"], source["wide"] = (
        np.arange(40),
        np.arange(40) * -9999,
        np.arange(40) * 17,
        np.arange(40) / 3,
    )
    raw = built.run("packed_records", np.zeros(40 * kind.itemsize, "u1"), source.view("u1"), 40, grid=2, block=32)[0]
    want = source.copy()
    want["number"] += want["tag"]
    want["small"] ^= 0x0F0F
    want["wide"] *= 2
    assert raw.tobytes() == want[::-1].tobytes()


@builds("copies")
def test_structures_by_value(built: Build) -> None:
    class Inner(ctypes.Structure):
        _fields_ = [("c", ctypes.c_byte), ("s", ctypes.c_short * 3)]

    class Outer(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("inner", Inner * 2), ("d", ctypes.c_double), ("tail", ctypes.c_ubyte * 5)]

    inner = Inner(-5, (ctypes.c_short * 3)(3, -2, 500))
    outer = Outer(
        -77,
        (Inner * 2)(inner, Inner(9, (ctypes.c_short * 3)(7, 8, -9))),
        1234.75,
        (ctypes.c_ubyte * 5)(250, 1, 2, 3, 99),
    )
    odd = bytes([1, 2, 250, 4, 5, 6, 7])
    got = built.run(
        "by_value",
        np.zeros(32, "i4"),
        bytes(outer),
        odd,
        -3,
        -300,
        1,
        struct.pack("<3f", 1.5, 2.5, 3.5),
        bytes(inner),
        -8.9,
        block=32,
    )
    for i, value in enumerate(got.tolist()):
        mine = outer.a + outer.inner[i % 2].c + outer.inner[i % 2].s[i % 3] + 1234 + outer.tail[i % 5]
        letter = odd[i % 7] - 256 * (odd[i % 7] > 127)
        assert value == mine * 3 + letter - 3 - 300 + 1 + 20 + inner.c * inner.s[i % 3] - 8


@builds("copies")
def test_big_parameters(built: Build) -> None:
    values = np.arange(300, dtype="i4") ** 2
    got = built.run("big_parameter", np.zeros(100, "i4"), values.tobytes(), 100, block=32)
    assert got.tolist() == [int(values[i * 7 % 300]) for i in range(100)]
    got = built.run("changed_parameter", np.zeros(8, "i4"), values.tobytes(), block=8)
    assert got.tolist() == [i * i + 5 + 9 for i in range(8)]


@builds("copies")
def test_local_arrays(built: Build) -> None:
    source = np.array([rng(i).randrange(-1000, 1000) for i in range(8 * 16)], "i4")
    assert (
        built.run("local_sort", np.zeros(128, "i4"), source, grid=2, block=4)[0].reshape(8, 16)
        == np.sort(source.reshape(8, 16))
    ).all()
    words = np.array([rng(i).getrandbits(64) for i in range(8)], "u8")
    for turn in (0, 3, 9):
        halves = np.roll(words.view("u1").reshape(8, 8), -(turn & 7), 1).copy().view("u2")
        halves[:, turn & 3] += 0x101
        assert (
            built.run("local_bytes", np.zeros(8, "u8"), words, turn, grid=2, block=4)[0].tolist()
            == halves.view("u8").ravel().tolist()
        )


@builds("copies")
def test_templates(built: Build) -> None:
    got = built.run("matrix_power", np.zeros((4, 3, 3), "i8"), 50, block=4)
    for k in range(4):
        matrix = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], object)
        want = np.eye(3, dtype=object)
        for _ in range(50 + k):
            want = want @ matrix
        assert [wrap(int(x), 64, True) for x in want.ravel()] == got[k].ravel().tolist()


@builds("copies")
def test_bounds_strides_and_clocks(built: Build) -> None:
    assert built.loaded["bounded"].attributes["max_threads_per_block"] == 64
    assert built.run("bounded", np.zeros(96, "i4"), grid=2, block=48).tolist() == list(range(96))
    got = built.run("strides_3d", np.zeros(4 * 6 * 4, "i4"), 24, 4, 1, grid=(2, 3, 2), block=(2, 2, 2)).reshape(4, 6, 4)
    x, y, z = np.indices((4, 6, 4))
    assert (got == x + 100 * y + 10000 * z).all()
    after, _, now = built.run("clocks", np.zeros(3, "i8"))
    assert after == 1 and now == 1


# -- threads that synchronize


@builds("threads")
def test_transposes(built: Build) -> None:
    for kernel, code, parts in (
        ("transpose_float", "f4", 1),
        ("transpose_byte", "u1", 1),
        ("transpose_double2", "f8", 2),
    ):
        source = np.arange(37 * 21 * parts).astype(code).reshape(21, 37, parts)
        got = built.run(kernel, np.zeros((37, 21, parts), code), source, 37, 21, grid=(3, 2), block=(16, 16))[0]
        assert (got == source.transpose(1, 0, 2)).all()


@builds("threads")
def test_reductions(built: Build) -> None:
    for kernel, code in (("reduce_int", "i4"), ("reduce_float", "f4"), ("reduce_double", "f8"), ("reduce_long", "i8")):
        source = np.arange(1000).astype(code) * 3 - 700
        got = built.run(kernel, np.zeros(4, code), source, 1000, grid=4, block=64)[0]
        assert got.tolist() == [sum(source[(np.arange(1000) // 64 % 4) == b].tolist()) for b in range(4)]
    source = np.array([rng(i).randrange(-(10**6), 10**6) for i in range(256)], "i4")
    assert (
        built.run("tree_reduce", np.array([-(2**31)], "i4"), source, grid=4, block=64, shared=256)[0][0] == source.max()
    )


@builds("threads")
def test_scan(built: Build) -> None:
    source = np.array([rng(i).randrange(-50, 50) for i in range(192)], "i4")
    got = built.run("scan_block", np.zeros(192, "i4"), source, grid=2, block=96, shared=96 * 8 + 2)[0]
    sums = source.reshape(2, 96).cumsum(1)
    assert (got.reshape(2, 96) == sums * 2 - sums[:, -1:]).all()


@builds("threads")
def test_matrix_product(built: Build) -> None:
    a, b = (np.array([rng(k + i).randrange(-8, 8) for i in range(256)], "f4").reshape(16, 16) for k in (0, 1000))
    assert (
        built.run("matrix_product", np.zeros((16, 16), "f4"), a, b, 16, grid=(2, 2), block=(8, 8))[0] == a @ b
    ).all()


@builds("threads")
def test_histogram(built: Build) -> None:
    source = np.frombuffer(rng("h").getrandbits(8 * 2000).to_bytes(2000, "little"), "u1")
    got = built.run("histogram_shared", np.zeros(64, "u4"), source, 2000, grid=3, block=64)[0]
    assert (got == np.bincount(source >> 2, minlength=64)).all()


@builds("threads")
def test_shuffles(built: Build) -> None:
    v = [rng(i).randrange(-1000, 1000) for i in range(32)]
    got = built.run("shuffles", np.zeros((32, 10), "i4"), np.array(v, "i4"), block=32)[0].tolist()
    for t in range(32):
        up = t - 2 if t % 16 >= 2 else t
        down = t + 3 if t % 4 + 3 < 4 else t
        assert got[t] == [
            v[5],
            v[t // 8 * 8 + (t + 3) % 8],
            v[up],
            v[down],
            v[t ^ 7],
            v[t ^ 20] if (t ^ 20) // 16 <= t // 16 else v[t],
            v[31 - t],
            v[max(t - 1, 0)],
            v[31],
            v[3] if t % 2 else 0,
        ], t


@builds("threads")
def test_votes(built: Build) -> None:
    v = [rng(i).randrange(95) for i in range(32)]
    got = built.run("votes", np.zeros((32, 12), "u4"), np.array(v, "i4"), block=32)[0].tolist()
    ballot = sum((x & 1) << i for i, x in enumerate(v))
    for t in range(32):
        match = lambda f: sum(1 << i for i, x in enumerate(v) if f(x) == f(v[t]))
        want = [
            ballot,
            any(x > 90 for x in v),
            1,
            match(lambda x: x & 3),
            0xFFFFFFFF,
            1,
            match(lambda x: x & 1),
            sum(1 << i for i in range(10) if v[i] & 2) if t < 10 else 0,
            got[t][8],
            bin(ballot).count("1"),
            2,
            0,
        ]
        assert got[t] == want and got[t][8] <= 32, t


@builds("threads")
def test_reductions_of_warps(built: Build) -> None:
    v = [rng(i).randrange(-(2**31), 2**31) for i in range(64)]
    got = built.run("warp_reduce", np.zeros((64, 7), "i4"), np.array(v, "i4"), block=64)[0]
    if "sm75" in built.name:
        assert not got.any()  # removed by the compiler below sm_80
        return
    for t in range(64):
        warp = v[t // 32 * 32 :][:32]
        unsigned = [x & 0xFFFFFFFF for x in warp]
        every, some, odd = -1, 0, 0
        for x in unsigned:
            every, some, odd = every & x, some | x, odd ^ x
        best = max(unsigned[:7]) if t % 32 < 7 else 0
        assert got[t].tolist() == [wrap(x, 32, True) for x in (sum(warp), min(warp), max(warp), every, some, odd, best)]


@builds("threads")
def test_cooperative_groups(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(64)]
    got = built.run("groups", np.zeros((64, 6), "i4"), np.array(v, "i4"), block=64)[0].tolist()
    for t in range(64):
        tile = v[t // 8 * 8 :][:8]
        assert got[t][:5] == [sum(tile), min(tile), sum(tile[: t % 8 + 1]), v[t ^ 3], t // 8 * 100 + t % 8]
        assert (got[t][5] > 0) == v[t] % 2


@builds("threads")
def test_grid_sync(built: Build) -> None:
    want = list(range(48))
    for _ in range(3):
        want = [want[i] + want[(i + 1) % 48] for i in range(48)]
    assert built.run("grid_sync", np.arange(48, dtype="i4"), 3, grid=3, block=16, cooperative=True).tolist() == want


@builds("threads")
def test_asynchronous_copies(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(5 * 128)]
    got = built.run("pipeline", np.zeros(32, "i4"), np.array(v, "i4"), 5, block=32)[0]
    assert got.tolist() == [
        sum(v[k * 128 + (t * 4 + j * 33) % 128] * (k + 1) for k in range(5) for j in range(4)) for t in range(32)
    ]


@builds("threads")
def test_last_block_named_barriers_aggregation(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(256)]
    assert built.run(
        "last_block", np.zeros(1, "i4"), np.array(v, "i4"), np.zeros(1, "i4"), np.zeros(4, "i4"), grid=4, block=64
    )[0][0] == sum(v)
    got = built.run("named_barriers", np.zeros(128, "i4"), block=128).tolist()
    assert got == [(t // 64 * 64 + 63 - t % 64) ** 2 for t in range(128)]
    counter, out, _ = built.run("aggregate", np.zeros(1, "i4"), np.zeros(256, "i4"), np.array(v, "i4"), block=256)
    chosen = [x for x in v if x % 3 == 0]
    assert counter[0] == len(chosen) and sorted(out[: len(chosen)].tolist()) == sorted(chosen)


# -- control


@builds("flow")
def test_loops(built: Build) -> None:
    def collatz(x: int) -> int:
        steps = 0
        while x != 1:
            x = 3 * x + 1 if x & 1 else x >> 1
            steps += 1
        return steps

    given = [rng(i).randrange(1, 5000) for i in range(70)]
    assert built.run("collatz", np.zeros(70, "i4"), np.array(given, "u4"), 70, grid=2, block=64)[0].tolist() == [
        collatz(x) for x in given
    ]

    def nested(i: int, n: int) -> int:
        total = 0
        for a in range(n):
            if a == i:
                continue
            for b in range(a, n):
                if b % 5 == i % 5:
                    continue
                if b > a + 6:
                    break
                c = 0
                while True:
                    total += c
                    if total > 500:
                        return total
                    c += 1
                    if not c < b:
                        break
        return total

    assert built.run("nested_loops", np.zeros(40, "i4"), 14, block=40).tolist() == [nested(i, 14) for i in range(40)]


@builds("flow")
def test_mandelbrot(built: Build) -> None:
    got = built.run("mandelbrot", np.zeros((8, 12), "i4"), 12, 8, 30, grid=(2, 1), block=(8, 8))
    y, x = np.mgrid[0:8, 0:12]
    c = (x * 3.0 / 12 - 2) + 1j * (y * 2.0 / 8 - 1)
    z, count = np.zeros_like(c), np.zeros((8, 12), int)
    for _ in range(30):
        inside = abs(z) < 2
        count += inside
        z = np.where(inside, z * z + c, z)
    assert (got != count).sum() <= 2  # a point on the edge may be inside or outside


@builds("flow")
def test_switches(built: Build) -> None:
    given = [(k * 7) % 12 for k in range(60)]
    got = built.run("dense_switch", np.full(60, -99, "i4"), np.array(given, "i4"), 60, block=64)[0].tolist()
    for i, (v, have) in enumerate(zip(given, got)):
        r = i
        if v == 0:
            r = r * 3 + 1
        elif v in (1, 2):
            r = (r ^ 0x5A5A if v == 1 else r) - v
        elif v == 3:
            k = 0
            while k < r and k % 7 != 5:
                r += k
                k += 1
        elif v == 4:
            r = bin(r).count("1")
        elif v == 5:
            r = -99
        elif v == 6:
            r = r << 5 | r >> 3
        elif v == 7:
            r = -r
        elif v == 8:
            r %= 10
        elif v == 9:
            r = 77 if r & 1 else 78
        else:
            r = -1
        assert have == r, (i, v)
    given = [-5, 1000000, 1 << 40, 120, 0, -(1 << 40)]
    assert built.run("sparse_switch", np.zeros(6, "i4"), np.array(given, "i8"), 6, block=32)[0].tolist() == [
        1,
        2,
        3,
        4,
        5,
        5,
    ]


@builds("flow")
def test_recursion(built: Build) -> None:
    def ackermann(m: int, n: int) -> int:
        return n + 1 if m == 0 else n + 2 if m == 1 else 2 * n + 3

    assert built.run("recursion", np.zeros(24, "i4"), block=24).tolist() == [
        ackermann(t % 3, t // 3) for t in range(24)
    ]
    assert built.run("mutual", np.zeros(24, "i4"), block=24).tolist() == [2 if t % 2 == 0 else 1 for t in range(24)]
    data = np.array([rng(i).randrange(1000) for i in range(8 * 25)], "i4")
    assert (built.run("quicksort", data, 25, grid=2, block=4).reshape(8, 25) == np.sort(data.reshape(8, 25))).all()


@builds("flow")
def test_pointers_to_functions(built: Build) -> None:
    functions = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - (b & 1)]
    which = [t % 3 for t in range(30)]
    assert built.run("pointers", np.zeros(30, "i4"), np.array(which, "i4"), block=30)[0].tolist() == [
        functions[t % 3](t, t + 3) for t in range(30)
    ]
    for k in range(3):
        assert built.run("chosen", np.zeros(8, "i4"), k, block=8).tolist() == [
            functions[k](t, functions[k](2, 3)) for t in range(8)
        ]
    assert built.run("virtuals", np.zeros(12, "i4"), block=12).tolist() == [
        (i * i + i, i * 5 - i, i)[i % 3] for i in range(12)
    ]


@builds("flow")
def test_lambdas_and_early_ends(built: Build) -> None:
    got = built.run("lambdas", np.zeros(4, "f8"), 1.5, block=4)
    want = [sum(((k + 0.5) * (1 + i) / 16) ** 2 * 1.5 + i for k in range(16)) * (1 + i) / 16 for i in range(4)]
    assert np.allclose(got, want, rtol=1e-12)
    assert built.run("early", np.full(64, -1, "i4"), 20, block=64)[:20].tolist() == [t ^ 1 for t in range(20)]
    assert built.run("heap", np.zeros(5, "i4"), block=5).tolist() == [54 * t for t in range(5)]


@builds("flow")
def test_printf(built: Build, capfd: Any) -> None:
    word = np.frombuffer(b"word\0", "u1").copy()
    built.run("printing", 1234, math.pi, word, block=2)
    counts = built.run("count_printed", np.zeros(2, "i4"), 5)
    ctypes.CDLL(None).fflush(None) if sys.platform != "win32" else None
    text = capfd.readouterr().out
    wide = (
        f"{math.pi:f}|{math.pi:.3f}|{math.pi:10.2e}|{math.pi:g}|{1234 << 33}|deadbeefcafe|word|%|"
        f"{wrap(1234 + 200, 8, True)}|   ab|\n"
    )
    for thread in range(2):
        assert f"{thread}| 1234|1234 |01234|+1234|1234|4d2|4D2|2322|{'ab'[thread]}\n" in text
    assert text.count(wide) == 2 and text.count("plain\n") == 2 and "5 5 1.500000\n" in text
    assert counts.tolist() == [3, 0]


@builds("flow")
@pytest.mark.parametrize("kernel,code", [("asserting", 710), ("trapping", None)])
def test_what_ends_a_context(built: Build, library: Any, python: Any, kernel: str, code: Any) -> None:
    """An assertion and a trap make the context unusable, so each is tested in its own process."""
    result = python(
        """
        import sys
        from pathlib import Path
        from tests.subject import rawcuda
        from tests.driver.corpus import load
        build = load(Path(sys.argv[1]), sys.argv[3] == "emulated")
        try:
            build.loaded[sys.argv[2]].launch(5, grid=1, block=32)
            build.device.synchronize()
        except rawcuda.ContextLost as error:
            print("code", error.code)
    """,
        str(built.path),
        kernel,
        "emulated" if library else "real",
        check=True,
    )
    assert "code" in result.stdout and (code is None or f"code {code}" in result.stdout), result.stdout
    assert kernel == "trapping" or 'Assertion `threadIdx.x < n && "too many"` failed.' in result.stdout + result.stderr


# -- variables

WANT = [
    42,
    1.5,
    1e-40 * 1e40,
    0,
    0.1,
    -1e300,
    5e-324,
    ord("q"),
    17,
    10,
    -2,
    5,
    0,
    0xFEDCBA98,
    254,
    1,
    2,
    1,
    3,
    42,
    ord("m"),
    7,
    ord("a"),
    2.5,
    0.75,
    2.0**40,
    -1,
    -2.25,
    11,
    0,
    0,
    0,
    5,
    6,
]


@builds("variables")
def test_initialisers(built: Build) -> None:
    got = built.run("read_all", np.zeros(len(WANT), "f8"))
    want = [*WANT[:2], 0.0 if built.fast else WANT[2], *WANT[3:]]  # fast arithmetic flushes 1e-40
    assert np.allclose(got, want, rtol=1e-4, atol=0), [(at, g, w) for at, (g, w) in enumerate(zip(got, want)) if g != w]


def variable(built: Build, name: str, code: str) -> Any:
    """Read a variable of a module."""
    memory = built.loaded.global_(name)
    made = np.zeros(memory.nbytes // np.dtype(code).itemsize, code)
    memory.copy_to(made)
    return made


@builds("variables")
def test_variables_change(built: Build) -> None:
    before = variable(built, "plain", "i4")[0], variable(built, "managed_value", "i4")[0]
    built.run("change", 3, block=1)
    assert (
        variable(built, "plain", "i4")[0] == before[0] + 4
        and variable(built, "managed_value", "i4")[0] == before[1] * 3
    )
    restored = np.array([before[0]], "i4")
    built.loaded.global_("plain").copy_from(restored)
    built.loaded.global_("managed_value").copy_from(np.array([before[1]], "i4"))
    built.loaded.global_("numbers").copy_from(np.array([1.5, -2.25, 3.0, 1e-40, 1e30, 0, 0, 0], "f4"))
    assert variable(built, "plain", "i4")[0] == before[0]


@builds("variables")
def test_addresses(built: Build) -> None:
    got = built.run("addresses", np.zeros(4, "u8")).tolist()
    at = [built.loaded.global_(name).ptr for name in ("plain", "numbers", "text", "head")]
    assert got == [at[0], at[1] + 12, at[2], at[3]]
    assert built.run("follow", np.zeros(1, "i4"), at[3])[0] == 12
    assert bytes(variable(built, "text", "u1")) == b'corpus "quoted"\n\0'
    index = np.array([3, 1, 0, 2], "i4")
    assert built.run("lookup", np.zeros(4, "f4"), index, block=4)[0].tolist() == [1.0, -1.75, 1.75, 3.75]


@builds("variables")
def test_address_spaces(built: Build) -> None:
    got = built.run("spaces", np.zeros(7, "i4")).tolist()
    assert got == [1, 1, 1, 1, 1, 0, 9]
    got = built.run("module_shared", np.zeros(20, "i4"), block=20, shared=80)
    assert got.tolist() == [(19 - t) * 7 + 80 for t in range(20)]


# -- kernels in Python


def arrays(*given: Any) -> list[Any]:
    """Return arguments as numba passes them: for an array two pointers, count, size, data, extents, strides."""
    made: list[Any] = []
    for each in given:
        if isinstance(each, np.ndarray):
            made += [None, None, each.size, each.itemsize, each, *each.shape, *each.strides]
        else:
            made.append(each)
    return made


def only(built: Build) -> str:
    """Return the name of the only kernel of a build."""
    (name,) = built.kernels
    return str(name)


@builds("numba_saxpy")
def test_numba_saxpy(built: Build) -> None:
    x, y = np.arange(100, dtype="f4"), np.arange(100, dtype="f4") * 3
    assert (built.run(only(built), *arrays(np.zeros(100, "f4"), x, y, 2.5), grid=2, block=64)[0] == 2.5 * x + y).all()


@builds("numba_block_sum")
def test_numba_sum(built: Build) -> None:
    x = np.arange(192, dtype="f8")
    assert (built.run(only(built), *arrays(np.zeros(3), x), grid=3, block=64)[0] == x.reshape(3, 64).sum(1)).all()


@builds("numba_functions")
def test_numba_functions(built: Build) -> None:
    x = np.linspace(-5, 5, 40)
    got = built.run(only(built), *arrays(np.zeros((40, 5)), x), grid=1, block=64)[0]
    want = np.stack([np.sin(x), np.exp(x), np.sqrt(abs(x)), x**3, np.arctan2(x, 2.0)], 1)
    assert np.allclose(got, want, rtol=1e-14, atol=1e-16)


@builds("numba_integers")
def test_numba_integers(built: Build) -> None:
    r = rng("numba")
    x, y = (
        np.array([r.randrange(-9999, 9999) for _ in range(60)], "i4"),
        np.array([r.randrange(-99, 99) for _ in range(60)], "i4"),
    )
    got = built.run(only(built), *arrays(np.zeros(60, "i4"), x, y), grid=1, block=64)[0]
    for a, b, have in zip(x.tolist(), y.tolist(), got.tolist()):
        assert have == (
            a // b * 1000 + a % b + bin(a & 0xFFFFFFFF).count("1") + 32 - (b & 0xFFFFFFFF).bit_length() if b else 0
        ), (a, b)


@builds("triton_add")
def test_triton_add(built: Build) -> None:
    x, y = np.arange(300, dtype="f4"), np.arange(300, dtype="f4") * 3
    assert (built.run("add", np.zeros(300, "f4"), x, y, 300, None, None, grid=3, block=64)[0] == x + y).all()


@builds("triton_softmax")
def test_triton_softmax(built: Build) -> None:
    x = np.array([[rng((i, j)).uniform(-9, 9) for j in range(50)] for i in range(3)], "f4")
    got = built.run("softmax", np.zeros((3, 50), "f4"), x, 50, None, None, grid=3, block=64, shared=1024)[0]
    want = np.exp(x - x.max(1, keepdims=True).astype("f8"))
    assert np.allclose(got, want / want.sum(1, keepdims=True), rtol=1e-5)


@builds("triton_product")
def test_triton_product(built: Build) -> None:
    x, y = (np.array([rng(i + k).randrange(-8, 8) for i in range(16 * 48)], "f4") for k in (0, 9999))
    x, y = x.reshape(16, 48), y.reshape(48, 16)
    assert (
        built.run("product", np.zeros((16, 16), "f4"), x, y, 48, None, None, block=64, shared=8192)[0] == x @ y
    ).all()


@builds("triton_scan_and_count")
def test_triton_scan(built: Build) -> None:
    x = np.array([rng(i).randrange(-50, 50) for i in range(128)], "i4")
    sums, bins, _ = built.run(
        "scan_and_count", np.zeros(128, "i4"), np.zeros(8, "i4"), x, None, None, block=64, shared=2048
    )
    assert (sums == x.cumsum()).all() and (bins == np.bincount(x & 7, minlength=8)).all()
