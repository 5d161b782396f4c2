"""Random instructions from the rows of the opcode table: ptxas accepts and rejects the same ones as the table.

This finds rows that accept too much or too little, which mutants of real kernels seldom test.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.test_ptx_mutants import ours, verdict
from tests.subject import module

forms = module("emulator.ptx.translating.table.forms")
TABLE = module("emulator.ptx.translating.table.opcodes").TABLE

REGISTERS = {16: "%h", 32: "%r", 64: "%rd", 128: "%q", 8: "%h", 1: "%p"}
DECLARED = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>; .reg .f64 %fd<9>; "
    ".reg .b128 %q<4>; .shared .align 16 .b8 s[256]; .local .align 16 .b8 l[256];"
)
STRANGE = (
    "ftz sat rn rz relu global shared volatile cta sync wide lo hi NaN approx u32 f32 b64 s16 f16x2 xorsign abs".split()
)
ADDRESSES = {"shared": "[s]", "local": "[l]", "const": "[c]", "param": "[a]"}
# meaningless forms that ptxas accepts, and forms that depend on the order of modifiers in ptxas
KNOWN = {"testp", "vabsdiff4", "mad24", "bar", "barrier", "fma", "fns", "isspacep", "setmaxnreg", "set"}


def register(type: str, pick: random.Random) -> str:
    """Return the name of a register of a type."""
    stem = {"f32": "%f", "f64": "%fd"}.get(type) or REGISTERS[module("emulator.ptx.reading.syntax").BITS.get(type, 32)]
    return stem + str(pick.randrange(1, 4))


def operand(slot: Any, type: str, shape: Any, pick: random.Random) -> str:
    """Return an operand that a slot of a row accepts, and sometimes another one."""
    vector, first = shape.chosen.get("vec"), shape.type
    if type == "mem":
        space = (shape.chosen.get("space") or shape.chosen.get("atomspace") or "").partition("::")[0]
        return ADDRESSES.get(space, "[%rd1]")
    if type == "any" and first:
        return (
            "{" + ",".join(register(first, pick) for _ in range(int(vector[1:]))) + "}"
            if vector
            else register(first, pick)
        )
    if type == "constant":
        return pick.choice(["0", "1", "3", "24", "128"])
    if type == "pair":
        return register("b32" if shape.form.opcode == "match" else first, pick) + pick.choice(["", "|%p2"])
    if not slot.written and pick.random() < 0.12:
        return pick.choice(["1", "0f3F800000", "1.0", "-5", "0x1ffffffff"])
    if pick.random() < 0.06:
        return pick.choice(["%r3", "%rd3", "%f3", "%fd3", "%p3", "%h3", "_"])
    return register(type, pick)


def instructions(pick: random.Random) -> Iterator[tuple[str, str]]:
    """Yield (opcode, text) without end, for every row in turn."""
    rows = [
        forms.Form(row)
        for opcode in TABLE.opcodes()
        if opcode not in ("bra", "brx", "call")
        for row in TABLE._rows[opcode]
    ]
    while True:
        for form in rows:
            words = [
                pick.choice(sorted(words))
                for _, words, required in form.choices
                if pick.random() < (1 if required else 0.3)
            ]
            types = [pick.choice(sorted(group)) for group in form.types]
            shape = form.fit(tuple(words + types))
            if isinstance(shape, str):
                continue  # one word fits two places
            modifiers = words + types
            chance = pick.random()
            if chance < 0.15 and modifiers:
                del modifiers[pick.randrange(len(modifiers))]
            elif chance < 0.3:
                modifiers.insert(pick.randrange(len(modifiers) + 1), pick.choice(STRANGE))
            operands: list[str] = []
            for slot, type in zip(form.slots, shape.wanted):
                if slot.optional and pick.random() < 0.6:
                    break
                operands.append(operand(slot, type, shape, pick))
            if operands and pick.random() < 0.05:
                operands.pop()
            yield form.opcode, ".".join([form.opcode, *modifiers]) + " " + ",".join(operands) + ";"


def text_of(instruction: str, target: str) -> str:
    """Return a module with one instruction."""
    return (
        f".version 9.0\n.target sm_{target}\n.address_size 64\n"
        f".global .align 16 .b8 g[256]; .const .align 16 .b8 c[64];\n"
        f".visible .entry k(.param .u64 a) {{ {DECLARED}\n{instruction}\nret;\n}}\n"
    )


@pytest.mark.heavy
@pytest.mark.parametrize("target", ["75", "90a", "100a"])
def test_rows_are_as_wide_as_ptxas(target: str, tmp_path: Path) -> None:
    taken, refused, missed, wrong = 0, 0, [], []
    for _, (opcode, instruction) in zip(range(1500), instructions(random.Random(target))):
        text = text_of(instruction, target)
        theirs, mine = verdict(text, tmp_path, "-O0"), ours(text)
        taken, refused = taken + (not theirs), refused + bool(theirs)
        # ptxas takes an int as bits here only
        mixed = re.match(r"\w+[.\w]*\.f32\.b?f16 .*,-?(0x)?\d\w*[,;]", instruction)
        # ptxas takes a second space or scope here, which means nothing
        stray = re.match(r"cp\.async\.bulk.*\.cta[. ]|fence\.proxy.*\.shared[. ]", instruction)
        if instruction.startswith("red.async"):  # ptxas 13.0 takes some without their barrier, against the document
            continue
        if "not emulated" not in mine and opcode not in KNOWN and not (mixed and "Arguments mismatch" in mine):
            missed += [(instruction, theirs)] if theirs and not mine else []
            wrong += [(instruction, mine)] if mine and not theirs and not stray else []
    assert not wrong
    assert taken > 250 and refused > 300 and len(missed) <= 0.005 * refused, missed


@pytest.mark.heavy
@pytest.mark.parametrize("target", ["75", "90a", "100a"])
def test_modifiers_have_the_orders_of_ptxas(target: str, tmp_path: Path) -> None:
    """No order that ptxas refuses is taken; what ptxas takes is taken, too, except for the state spaces of copies."""
    pick = random.Random(target)
    taken, missed, wrong = 0, [], []
    for _, (opcode, instruction) in zip(range(2000), instructions(pick)):
        words, _, rest = instruction.partition(" ")
        modifiers = words.split(".")[1:]
        pick.shuffle(modifiers)
        shuffled = ".".join([opcode, *modifiers]) + " " + rest
        if shuffled == instruction or opcode == "tensormap" or ours(text_of(instruction, target)):
            continue  # (which field of a tensor map a second type is for depends on the order here)
        theirs, mine = verdict(text_of(shuffled, target), tmp_path, "-O0"), ours(text_of(shuffled, target))
        if mine and not theirs and opcode != "cp":
            wrong.append((shuffled, mine))
        elif theirs and not mine and not verdict(text_of(instruction, target), tmp_path, "-O0"):
            missed.append((shuffled, theirs))
        taken += not theirs
    assert taken > 100 and not wrong and not missed
