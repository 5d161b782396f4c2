"""What a compiler computes from constants, the device computes from memory: conversions of values in range."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from .texture_kernels import needs_compiler

pytestmark = [needs_compiler, pytest.mark.once]
DOUBLES = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, -0.75, 100.25, 65519.99, 16777217.0, 1e-40, 1.0000000596046448, -1e-3, 3.9e9]
TYPES = {
    "signed char": ("b", -128, 127), "unsigned char": ("B", 0, 255), "short": ("h", -(2**15), 2**15 - 1),
    "unsigned short": ("H", 0, 2**16 - 1), "int": ("i", -(2**31), 2**31 - 1), "unsigned": ("I", 0, 2**32 - 1),
    "long long": ("q", -(2**63), 2**63 - 1), "unsigned long long": ("Q", 0, 2**64 - 1), "float": ("f", -3e38, 3e38),
    "double": ("d", -1e308, 1e308),
}  # fmt: skip
WHOLE = [0, 1, -1, 127, -128, 255, 32767, 65535, 16777217, 33554431, -(2**31), 2**32 - 1, 2**53 + 1, 2**62 + 2**38 + 1]


def literal(value: float, type: str) -> str:
    """Return a value as an expression of CUDA C."""
    return f"({type}){float.hex(value)}" if isinstance(value, float) else f"({type}){value}LL"


def cases() -> list[tuple[str, float, str]]:
    """Return source type, value and result type of each conversion."""
    made = []
    for source, (code, low, high) in TYPES.items():
        for value in DOUBLES if code in "fd" else WHOLE:
            if code == "f":
                value = struct.unpack("<f", struct.pack("<f", value))[0]
            for target, (_, least, most) in TYPES.items():
                if low <= value <= high and least <= value <= most:
                    made.append((source, value, target))
    return made


def test_what_the_compiler_folds_is_what_the_device_converts(device: Any) -> None:
    all_cases = cases()
    lines, given = [], bytearray()
    for number, (source, value, target) in enumerate(all_cases):
        lines.append(f"*({target} *)(folded + {8 * number}) = ({target})({literal(value, source)});")
        lines.append(
            f"*({target} *)(converted + {8 * number}) = ({target})*(volatile const {source} *)(in + {8 * number});"
        )
        given += struct.pack(f"<{TYPES[source][0]}", value).ljust(8, b"\0")
    text = 'extern "C" __global__ void k(char *folded, char *converted, const char *in) {\n' + "\n".join(lines) + "\n}"
    with device.compile(text) as module:
        out = [device.upload(bytes(8 * len(all_cases))) for _ in range(2)]
        module["k"].launch(*out, device.upload(bytes(given)), grid=1, block=1)
        folded, converted = (each.download() for each in out)
    one, other = bytes(folded), bytes(converted)
    wrong = [
        (case, one[8 * at : 8 * at + 8].hex(), other[8 * at : 8 * at + 8].hex())
        for at, case in enumerate(all_cases)
        if one[8 * at : 8 * at + 8] != other[8 * at : 8 * at + 8]
    ]
    assert len(all_cases) > 400 and not wrong, wrong[:10]
