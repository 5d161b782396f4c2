"""Control flow: random graphs of blocks give the same path as nested code, as numbered blocks, and as the model."""

from __future__ import annotations

import random
import struct
import sys
from typing import Any

import pytest

from tests.emulator.ptx_client import HEAD, Machine, kernel, module, rejection
from tests.shared import sampled

STEPS = 60
flow = module("emulator.ptx.translating.flow")


def graph(seed: int) -> list[list[int]]:
    """Return a random graph: for each block one, two or three targets; -1 is the end."""
    rng = random.Random(seed)
    count = rng.randint(1, 14)
    style = rng.choice(("any", "forward", "near", "loops"))
    made = []
    for number in range(count):

        def pick() -> int:
            if style == "forward" and rng.random() < 0.85:
                return rng.choice([*range(number + 1, count), -1])
            if style == "near":
                return max(-1, min(count - 1, number + rng.randint(-2, 3)))
            if style == "loops" and rng.random() < 0.3:
                return rng.randint(0, number)
            if style == "loops":
                return min(number + rng.randint(1, 2), count - 1) if number < count - 1 else -1
            return rng.randint(-1, count - 1)

        made.append([pick() for _ in range(rng.choice((1, 2, 2, 2, 3)))])
    return made


def walk(blocks: list[list[int]], start: int) -> tuple[int, int]:
    """Follow the graph as the kernel does: a hash of the path decides each branch."""
    value, number, steps = start, 0, 0
    while number != -1:
        steps += 1
        value = (value * 31 + number + 1) & 0xFFFFFFFF
        if steps > STEPS:
            break
        targets = blocks[number]
        bits = value >> 3
        number = targets[0] if len(targets) == 1 else targets[bits & 1] if len(targets) == 2 else targets[bits % 3]
    return value, steps


def text(blocks: list[list[int]], waits: bool) -> str:
    """Return the graph as PTX, with the blocks in random order."""
    lines = ["mov.u32 %r1, %tid.x;", "mov.u32 %r2, 0;", "bra B0;"]
    order = list(range(len(blocks)))
    random.Random(len(blocks)).shuffle(order)
    for number in order:
        targets = [f"B{target}" if target >= 0 else "END" for target in blocks[number]]
        lines += [
            f"B{number}:",
            "add.u32 %r2, %r2, 1;",
            f"mad.lo.u32 %r1, %r1, 31, {number + 1};",
            f"setp.gt.u32 %p1, %r2, {STEPS};",
            "@%p1 bra END;",
            "shr.u32 %r3, %r1, 3;",
        ]
        if waits and number % 3 == 0:
            lines.append("nanosleep.u32 20;")
        if len(targets) == 1:
            lines.append(f"bra.uni {targets[0]};")
        elif len(targets) == 2:
            lines += [
                "and.b32 %r3, %r3, 1;",
                "setp.eq.u32 %p2, %r3, 1;",
                f"@%p2 bra {targets[1]};",
                f"bra {targets[0]};",
            ]
        else:
            lines += [
                "rem.u32 %r3, %r3, 3;",
                f"T{number}: .branchtargets {', '.join(targets)};",
                f"brx.idx %r3, T{number};",
            ]
    lines += [
        "END:",
        "mov.u32 %r4, %tid.x;",
        "mul.wide.u32 %d1, %r4, 8;",
        "add.u64 %d1, %out, %d1;",
        "st.global.v2.u32 [%d1], {%r1, %r2};",
    ]
    return kernel("\n".join(lines))


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "waiting"])
@pytest.mark.parametrize(
    "seeds", sampled(range(start, start + 60) for start in range(0, 360, 60)), ids=lambda seeds: str(seeds[0])
)
def test_random_graphs(seeds: range, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = module("emulator.ptx.translating.unit")
    nested = 0
    for seed in seeds:
        blocks = graph(seed)
        want = [number for thread in range(8) for number in walk(blocks, thread)]
        source = text(blocks, waits)
        for numbered in (False, True):
            with monkeypatch.context() as patch:
                if numbered:
                    patch.setattr(unit, "plan", lambda blocks: None)
                here = Machine(source)
            nested += not numbered and here.code._unit.prepared["k"].plan is not None
            out = here.buffer("I", [0] * 16)
            here.run("k", out, block=8)
            assert out.values() == want, f"seed {seed}, {'numbered' if numbered else 'nested'}"
    assert nested > len(seeds) // 4


def blocks_with(targets: list[list[int]]) -> Any:
    made = [flow.Block(number) for number in range(len(targets))]
    for block, given in zip(made, targets):
        block.targets = given
        block.kind = ("go", "if", "switch")[min(len(given), 3) - 1] if given else "end"
    return made


def dominators(targets: list[list[int]]) -> dict[int, int]:
    """Return the immediate dominator of each block, for a graph without jumps back."""
    order = flow.reverse_postorder(blocks_with(targets))
    rank = {number: at for at, number in enumerate(order)}
    before: list[list[int]] = [[] for _ in targets]
    for number in order:
        for target in dict.fromkeys(targets[number]):
            before[target].append(number)
    return flow._dominators(order, rank, before).above  # type: ignore[no-any-return]


def reached(targets: list[list[int]], without: int) -> set[int]:
    found, work = {without}, [0]
    while work:
        number = work.pop()
        if number not in found:
            found.add(number)
            work += targets[number]
    return found - {without}


@pytest.mark.parametrize("seed", range(40))
def test_the_dominators_are_those_of_their_definition(seed: int) -> None:
    """A block dominates others if they cannot be reached without it."""
    rng = random.Random(seed)
    n = 40
    near = rng.randrange(2, n)
    targets = [[min(n - 1, at + rng.randrange(1, near)) for _ in range(rng.randrange(1, 4))] for at in range(n - 1)]
    targets.append([])
    everything = reached(targets, -1)
    above = dominators(targets)
    assert above.keys() == everything and above[0] == 0
    dominated = {number: everything - reached(targets, number) for number in everything}
    for number in everything - {0}:
        over = [each for each in everything if number in dominated[each] and each != number]
        assert above[number] == min(over, key=lambda each: len(dominated[each]))


def test_dominators_far_above_are_found_in_few_steps() -> None:
    """A chain, and blocks to which both one of its upper blocks and one of its lower blocks jump."""

    def steps(n: int) -> int:
        count = 0

        def line(frame: Any, event: str, _: object) -> Any:
            nonlocal count
            count += 1
            return line

        chain = [[at + 1] for at in range(2 * n)]
        for at in range(n):
            chain[at].append(2 * n + 1 + at)
            chain[2 * n - 1 - at].append(2 * n + 1 + at)
        was = sys.gettrace()
        sys.settrace(lambda frame, *_: line if frame.f_code.co_filename == flow.__file__ else None)
        try:
            above = dominators([*chain, [], *([] for _ in range(n))])
        finally:
            sys.settrace(was)
        assert all(above[2 * n + 1 + at] == at for at in range(n))
        return count

    few, many = steps(100), steps(1000)
    assert many < 20 * few, (few, many)


def test_loops_nested_and_left_at_every_level() -> None:
    """The innermost of three loops jumps to the head of each loop, and out of each."""
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r6, 0;
A:  add.u32 %r2, %r2, 1; setp.gt.u32 %p1, %r2, 40; @%p1 bra OUT_A;
B:  add.u32 %r2, %r2, 3; setp.gt.u32 %p1, %r2, 60; @%p1 bra OUT_B;
C:  mad.lo.u32 %r1, %r1, 5, %r2; add.u32 %r2, %r2, 1; setp.gt.u32 %p1, %r2, 90; @%p1 bra END;
    and.b32 %r3, %r1, 7;
    setp.eq.u32 %p2, %r3, 0; @%p2 bra A;
    setp.eq.u32 %p2, %r3, 1; @%p2 bra B;
    setp.eq.u32 %p2, %r3, 2; @%p2 bra C;
    setp.eq.u32 %p2, %r3, 3; @%p2 bra OUT_C;
    setp.eq.u32 %p2, %r3, 4; @%p2 bra OUT_B;
    setp.eq.u32 %p2, %r3, 5; @%p2 bra OUT_A;
    bra C;
OUT_C: add.u32 %r6, %r6, 1; bra B;
OUT_B: add.u32 %r6, %r6, 100; bra A;
OUT_A: add.u32 %r6, %r6, 10000; setp.lt.u32 %p1, %r2, 80; @%p1 bra C;
END: mov.u32 %r4, %tid.x; mul.wide.u32 %d1, %r4, 8; add.u64 %d1, %out, %d1; st.global.v2.u32 [%d1], {%r1, %r6};
"""
    here = Machine(kernel(body))
    out = here.buffer("I", [0] * 32)
    here.run("k", out, block=16)

    def walked(r1: int) -> tuple[int, int]:
        r2, r6, at = 0, 0, "A"
        while at != "END":
            if at == "A":
                r2 += 1
                at = "OUT_A" if r2 > 40 else "B"
            elif at == "B":
                r2 += 3
                at = "OUT_B" if r2 > 60 else "C"
            elif at == "C":
                r1 = (r1 * 5 + r2) & 0xFFFFFFFF
                r2 += 1
                at = "END" if r2 > 90 else {0: "A", 1: "B", 2: "C", 3: "OUT_C", 4: "OUT_B", 5: "OUT_A"}.get(r1 & 7, "C")
            elif at == "OUT_C":
                r6, at = r6 + 1, "B"
            elif at == "OUT_B":
                r6, at = r6 + 100, "A"
            else:
                r6 += 10000
                at = "C" if r2 < 80 else "END"
        return r1, r6

    assert out.values() == [number for t in range(16) for number in walked(t)]


def test_source_is_nested_where_it_can_be() -> None:
    """A counted loop with a condition becomes a `for` and an `if`, without numbered blocks."""
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, 0;
L:  and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra EVEN;
    add.u32 %r2, %r2, %r1;
EVEN: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 10; @%p2 bra L;
    st.global.u32 [%out], %r2;
"""
    here = Machine(kernel(body))
    assert "at ==" not in here.code.source and here.code.source.count("for _ in fuel:") == 1
    out = here.buffer("I", 1)
    here.run("k", out)
    assert out.values() == [25]


# -- operands and parameters that stand for several instructions or registers


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_a_register_plus_a_constant(executor: str) -> None:
    """The sum wraps around at the width of its register, and the register keeps its value, in a loop too."""
    body = """
    mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 16; add.u64 %d1, %out, %d1;
    mov.u64 %d2, -1; mov.u16 %h1, 65535; mov.u32 %r2, 0;
L:  add.u32 %r2, %r2 + 2, 1; setp.lt.u32 %p1, %r2 + -1, 8; @%p1 bra L;
    st.global.u64 [%d1], %d2 + 3;
    st.global.u16 [%d1+8], %h1 + 65538;
    cvt.u16.u32 %h2, %r1 + 5;
    st.global.u16 [%d1+10], %h2;
    st.global.u32 [%d1+12], %r2;
"""
    here = Machine(kernel(body), executor=executor)
    out = here.buffer("B", [0] * 16 * 40)
    here.run("k", out, block=40)
    assert [struct.unpack_from("<QHHI", out.raw(), 16 * t) for t in range(40)] == [(2, 1, t + 5, 9) for t in range(40)]


VECTORS = f"""{HEAD}
.func (.reg .v2 .u32 r, .reg .u32 s) turned(.reg .v2 .u32 x, .reg.v4.u16 y)
{{
    .reg .u32 %r<4>;
    mov.u32 r.x, x.y;
    mov.u32 r.y, x.x;
    cvt.u32.u16 %r1, y.x; cvt.u32.u16 %r2, y.w;
    sub.u32 s, %r2, %r1;
    ret;
}}
.visible .entry k(.param .u64 out)
{{
    .reg .v2 .u32 v, o;
    .reg .v4 .u16 w;
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .b64 %out;
    ld.param.u64 %out, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 16; add.u64 %d1, %out, %d1;
    mov.u32 v.x, %r1; add.u32 v.y, %r1, 100;
    cvt.u16.u32 w.x, %r1; mov.u16 w.y, 0; mov.u16 w.z, 0; mov.u16 w.w, 1000;
    call (o, %r2), turned, (v, w);
    st.global.v2.u32 [%d1], o;
    st.global.u32 [%d1+8], %r2;
    ret;
}}
"""


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_vectors_of_registers_as_parameters(executor: str) -> None:
    here = Machine(VECTORS, executor=executor)
    out = here.buffer("I", [0] * 4 * 40)
    here.run("k", out, block=40)
    assert out.values() == [number for t in range(40) for number in (t + 100, t, 1000 - t, 0)]


@pytest.mark.parametrize(
    "old,new,words",
    [
        ("turned, (v, w)", "turned, (v.x, v.y, w)", "An element of a vector, 'v.x', cannot be an argument of a call"),
        ("turned, (v, w)", "turned, (%r1, %r2, w)", "Only one of '%r1' and 'x.x' belongs to a vector"),
        ("(o, %r2), turned", "(%r2, %r3, o), turned", "wrong number of parameters"),
        ("(o, %r2), turned", "(%r2, %r3, %r1), turned", "Only one of '%r2' and 'r.x' belongs to a vector"),
        (".reg.v4.u16 y", ".reg.v4.u64 y", "wider than 128 bits, or of predicates"),
        (".reg .v2 .u32 x", ".reg .v2 .pred x", "wider than 128 bits, or of predicates"),
        (".reg .u32 s)", ".reg .b16x2 s)", "a type"),
    ],
)
def test_vectors_of_registers_that_do_not_fit(old: str, new: str, words: str) -> None:
    assert old in VECTORS and words in rejection(VECTORS.replace(old, new)).log
