"""Control flow: random graphs of blocks give the same path as nested code, as numbered blocks, and as the model."""

from __future__ import annotations

import random

import pytest

from tests.null.ptx_client import Machine, kernel, module

STEPS = 60


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
    "seeds", [range(start, start + 60) for start in range(0, 360, 60)], ids=lambda seeds: str(seeds[0])
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
