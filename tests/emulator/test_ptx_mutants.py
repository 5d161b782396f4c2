"""The loader agrees with NVIDIA's assembler, which accepts all PTX in this repository, and rejects what it rejects.

ptxas needs no GPU; it is part of the toolkit, and of nvidia-cuda-nvcc on PyPI.
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulator.ptx_client import Rejected, ptx, space
from tests.subject import CHECKOUT, FOLDER, NAME, module

PTXAS = next((path for path, _ in module("locate").ptxas()), None)
DATA = CHECKOUT / "tests" / "data"
HEAD = re.compile(r"\.version\s+(\d+)\.(\d+)\s+\.target\s+sm_(\d+)(\d)([af]?)")
OLDEST, MUTANTS, SEED = (7, 5), 200, 7

pytestmark = [
    pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)"),
    pytest.mark.skipif(NAME != "rawcuda", reason="the messages of ptxas do not depend on the name of the package"),
]


def verdict(text: str, folder: Path, *options: str) -> str:
    """Return the errors of ptxas for a text, or ""."""
    head = HEAD.search(text)
    target = (int(head[3]), int(head[4])) if head else OLDEST
    arch = f"sm_{head[3]}{head[4]}{head[5]}" if head and target >= OLDEST else "sm_{}{}".format(*OLDEST)
    path = folder / "judged.ptx"
    path.write_text(text)
    done = subprocess.run(
        [str(PTXAS), f"-arch={arch}", *options, str(path), "-o", os.devnull],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return (done.stdout or f"exit status {done.returncode}") if done.returncode else ""


def ours(text: str) -> str:
    """Return the errors of the loader for a text, or ""."""
    head = HEAD.search(text)
    target = max(OLDEST, (int(head[3]), int(head[4]))) if head else OLDEST
    try:
        ptx.load(text.encode(), space.Space(), architecture=target).unload()
    except Rejected as reason:
        return str(reason.log)
    return ""


# -- the PTX in this repository


def committed() -> dict[str, str]:
    """Return all PTX of this repository: in files, and in Python and Markdown texts."""
    found = {
        str(path.relative_to(CHECKOUT)): path.read_text()
        for top in (FOLDER, *(CHECKOUT / name for name in ("tests", "docs", "examples", "benchmarks")))
        for path in top.rglob("*.ptx")
    }
    for top in (FOLDER, CHECKOUT / "docs", CHECKOUT / "examples"):
        for path in (*top.rglob("*.py"), *top.rglob("*.md")):
            for at, text in enumerate(
                re.findall(
                    r"\.version \d\.\d\n\s*\.target sm_\d+[\s\S]*?(?=\"\"\"|'''|```)", path.read_text(errors="replace")
                )
            ):
                if "{{" not in text:  # otherwise a template: the PTX made from it is checked when it is loaded
                    found[f"{path.relative_to(CHECKOUT)}:{at}"] = text
    for name in ("tests.driver.kernels", "tests.emulator.emulator_client"):
        found.update(
            (f"{name}.{key}", text)
            for key, text in vars(importlib.import_module(name)).items()
            if isinstance(text, str) and ".entry" in text
        )
    write = module("gpu.copies.strided_kernel").ptx
    found.update(
        (f"strided_kernel.ptx{variant}", write(*variant))
        for variant in itertools.product((1, 2, 3, 5), (1, 2, 4, 8, 16), (False, True))
    )
    return found


COMMITTED = committed() if NAME == "rawcuda" and PTXAS else {}


@pytest.mark.heavy
@pytest.mark.every_change
@pytest.mark.parametrize("name", sorted(COMMITTED))
def test_ptxas_takes_what_is_here(name: str, tmp_path: Path) -> None:
    text = COMMITTED[name]
    relocatable = ["-c"] if "rdc" in name else []
    assert verdict(text, tmp_path, "-O0", *relocatable) == ""


# -- mutants

TYPES = "u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64 f16 f32 f64 pred".split()
WORDS = (
    "lo hi wide rn rz rm rni ftz sat approx global shared local const param v2 v4 sync idx cc to uni "
    "lt eq and or xor add nc volatile relaxed gpu acquire full aligned down cas exch visible extern"
).split()
OPERANDS = (
    "%r1 %rd1 %f1 %p1 %rs1 %fd1 %tid.x 0 1.5 0f3F800000 _ %nope -1 {%r1,%r2} [%rd1] [%rd1+4] !%p1 %r1|%p1".split()
)
NUMBERS = "0 -1 7 99999 4294967296 0x10 1.0 18446744073709551616".split()
CHARACTERS = ["", ";", ",", "x", ".", "%", "[", "{", "]", "}", "(", '"', "@", "-"]
_INSTRUCTION = re.compile(r"(\s*(?:@!?%p\d+ )?)([a-z][\w.:]*)(\s+)(.*);$")


def kernels() -> list[str]:
    """Divide the committed modules into modules of one kernel, if the kernel is independent."""
    made = []
    for name, text in sorted(COMMITTED.items()):
        if not name.startswith("tests/data") or "rdc" in name:
            continue
        head, *parts = re.split(r"(?m)^(?=\.visible \.entry )", text)
        if len(head) < 2000 and ".func" not in text:
            made += [head + part for part in parts if len(part) < 6000]
        elif len(text) < 60_000:
            made.append(text)
    return made


def mutant(text: str, pick: random.Random) -> tuple[str, str]:
    """Change one thing; return the new text, and the changed line."""
    lines = text.split("\n")
    whole = pick.random() < 0.25  # any line, otherwise an instruction
    at = pick.choice(
        [at for at, line in enumerate(lines) if line.strip() and (whole or _INSTRUCTION.match(line))] or [0]
    )
    line = lines[at]
    lines[at] = (
        changed(line, pick)
        if not whole or pick.random() < 0.5
        else pick.choice(
            ["", line + "\n" + line, re.sub(r"\.([usbf]\d+|pred)\b", "." + pick.choice(TYPES), line, count=1)]
        )
    )
    return "\n".join(lines), lines[at]


def changed(line: str, pick: random.Random) -> str:
    """Change one thing in a line."""
    kind = pick.randrange(10)
    found = _INSTRUCTION.match(line)
    if kind < 7 and found:
        guard, opcode, space_, operands = found.groups()
        words, arguments = opcode.split("."), operands.split(",")
        if kind == 0:
            words = [pick.choice(TYPES) if word in TYPES else word for word in words]
        elif kind == 1 and len(words) > 1:
            del words[pick.randrange(1, len(words))]
        elif kind == 2:
            words.insert(pick.randrange(1, len(words) + 1), pick.choice(WORDS))
        elif kind == 3:
            del arguments[pick.randrange(len(arguments))]
        elif kind == 4:
            arguments.insert(pick.randrange(len(arguments) + 1), pick.choice(OPERANDS))
        elif kind == 5:
            arguments[pick.randrange(len(arguments))] = pick.choice(OPERANDS)
        else:
            pick.shuffle(arguments)
        return f"{guard}{'.'.join(words)}{space_}{','.join(arguments)};"
    if kind == 7:
        places = list(re.finditer(r"\b\d+\b", line))
        with_ = pick.choice(NUMBERS)
    elif kind == 8:
        places, with_ = list(re.finditer(r"[\w$%.]+", line)), ""
    else:
        places, with_ = list(re.finditer(r"(?s).", line)), pick.choice(CHARACTERS)
    if not places:
        return line
    place = pick.choice(places)
    return line[: place.start()] + with_ + line[place.end() :]


def mutants(seed: int) -> Iterator[tuple[str, str]]:
    """Yield mutants without end."""
    pick, texts = random.Random(seed), kernels()
    while True:
        text = pick.choice(texts)
        made, line = mutant(text, pick)
        if made != text:
            yield made, line


def test_mutants(tmp_path: Path) -> None:
    """The loader rejects at least 95 % of the mutants that ptxas rejects, and none that it accepts."""
    refused, missed, wrong = 0, [], []
    for _, (text, line) in zip(range(MUTANTS), mutants(SEED)):
        theirs, mine = verdict(text, tmp_path, "-O0"), ours(text)
        if theirs:
            refused += 1
            if not mine:
                missed.append((line, theirs))
        elif mine:
            wrong.append((line, mine))
    assert not wrong
    assert refused > MUTANTS // 2 and len(missed) <= 0.05 * refused, missed
