"""PTX: generated programs, compared between the executors; and damaged texts, which never do more than fail.

A damaged text is a generated program with tokens exchanged, repeated, removed or replaced. The emulator may take it or
refuse it. If it takes it, a launch ends, with a result or a report; and nothing of the text is ever Python.
"""

from __future__ import annotations

import random
import re
import time

import pytest

from tests.attack.conftest import Campaign
from tests.subject import module

pytest.importorskip("numpy")
ptx, space = module("emulator.ptx"), module("emulator.machine.space")
LIMITS = ptx.Limits(turns=20_000, rounds=500, seconds=0.5)
TOKEN = re.compile(r"[%\w.$]+|\s+|[^\w\s]")
WORDS = (
    "0 1 -1 31 32 0xffffffff 18446744073709551615 1e400 0f7fc00000 %r1 %r999 %p1 !%p1 %tid.x @%p1 @!%p1 { } ( ) [ ] "
    "; , : + - .u32 .b64 .f16 .pred .shared .global .sync .v4 .align bra ret bar.sync call ld st exit mad.lo.u32 "
    "__import__ os eval \\ ' \" # // /* */ é \0"
).split(" ")


def test_programs(campaign: Campaign) -> None:
    """Programs without races give the same bits in both executors."""
    from tests.emulator.random_programs import random_data, random_program
    from tests.emulator.test_executors import agree

    def attack(chance: random.Random) -> None:
        seed = chance.randrange(2**40)
        try:
            got = agree(random_program(seed), random_data(seed), block=64, grid=3, as_arrays=None)
        except AssertionError as reason:
            raise AssertionError(f"the program of seed {seed}") from reason
        campaign.done["run as arrays"] += got.last == ""

    campaign.each(attack)


def test_damaged_programs(campaign: Campaign) -> None:
    from tests.emulator.random_programs import random_program

    def attack(chance: random.Random) -> None:
        tokens = TOKEN.findall(random_program(chance.randrange(2**40)))
        for _ in range(chance.choice((1, 1, 2, 5))):
            at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
            kind = chance.randrange(4)
            if kind == 0:
                tokens[at] = chance.choice(WORDS)
            elif kind == 1:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            elif kind == 2:
                del tokens[at]
            else:
                tokens.insert(at, tokens[other])
        text, begun = "".join(tokens), time.monotonic()
        memory = space.Space()
        held = [memory.allocate(4 * 64 * 3), memory.allocate(256)]
        for each in held:
            each.wrote(0, len(each.data))
        try:
            code = ptx.load(text.encode(), memory)
        except ptx.Rejected:
            campaign.done["refused"] += 1
            return
        finally:
            assert time.monotonic() - begun < 60, text
        for entry in code.entries.values():
            packed = bytearray(entry.parameter_bytes)
            for made, (offset, size) in zip(held, entry.parameters):
                packed[offset : offset + size] = made.base.to_bytes(8, "little")[:size]
            try:
                entry.run((3, 1, 1), (8, 1, 1), 0, bytes(packed), limits=LIMITS)
            except space.Fault as fault:
                assert "the emulator itself failed" not in fault.report, text + fault.report
                campaign.done["reported"] += 1
            else:
                campaign.done["run"] += 1
        assert time.monotonic() - begun < 60, text

    campaign.each(attack)
