"""Integer arithmetic that needs more than a Python operator, for the expressions of the opcode table.

Every integer is unsigned and truncated to the width of its register. Functions take and return such integers, unless
their name contains "signed".

Source       PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions"
Read next    rounding.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

__all__ = [
    "bit_mask", "clamp", "divide", "dot2", "dot4", "find_bit", "find_nth", "funnel", "halves", "insert_field",
    "packed", "permute",
    "remainder", "reverse", "sign_extend", "signed24", "signed_field", "signed_halves", "zero_extend",
]  # fmt: skip

M32 = 0xFFFFFFFF
_cell = bytearray(4)
_I4, _S1 = memoryview(_cell).cast("I"), memoryview(_cell).cast("b")


def _bytes(value: int) -> list[int]:
    _I4[0] = value
    return list(_cell)


def _signed_bytes(value: int) -> list[int]:
    _I4[0] = value
    return _S1.tolist()


_BYTES = {"u32": _bytes, "s32": _signed_bytes}


def clamp(value: int, low: int, high: int) -> int:
    """Clamp a value to two limits."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def divide(a: int, b: int) -> int:
    """Divide signed integers, rounding towards zero; a division by zero returns all ones."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    if (a < 0) == (b < 0):
        return quotient
    return -quotient


def remainder(a: int, b: int) -> int:
    """Return the remainder of a signed division, with the dividend's sign; division by zero returns the dividend."""
    if b == 0:
        return a
    rest = abs(a) % abs(b)
    if a < 0:
        return -rest
    return rest


def signed24(value: int) -> int:
    """Read the low 24 bits as a signed integer."""
    return (value & 0xFFFFFF ^ 0x800000) - 0x800000


def _signed(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return (value & (1 << bits) - 1 ^ half) - half


def reverse(value: int, bits: int) -> int:
    """Reverse the order of the bits."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def find_bit(value: int, bits: int, shiftamt: str) -> int:
    """Return the position of the highest set bit, or with shiftamt its distance from the top; all ones for 0."""
    if not value:
        return M32
    place = value.bit_length() - 1
    if shiftamt:
        return bits - 1 - place
    return place


def find_nth(value: int, start: int, offset: int) -> int:
    """Return the position of the offset-th set bit from bit start on, upwards or downwards (fns)."""
    offset = _signed(offset, 32)
    if start > 31:
        return M32
    if offset == 0:
        if value >> start & 1:
            return start
        return M32
    if offset > 0:
        step, left = (1, offset)
    else:
        step, left = (-1, -offset)
    place = start
    while 0 <= place < 32:
        if value >> place & 1:
            left -= 1
            if not left:
                return place
        place += step
    return M32


def signed_field(value: int, start: int, length: int, bits: int) -> int:
    """Extract a bit field and extend its sign; above the top the sign bit repeats (bfe.s32, bfe.s64)."""
    if not length:
        return 0
    wide = _signed(value, bits) >> min(start, bits)
    if length < bits:
        return _signed(wide, length)
    return wide


def insert_field(field: int, into: int, start: int, length: int, bits: int) -> int:
    """Insert the low bits of a number into another (bfi)."""
    if start >= bits:
        return into
    cover = (1 << min(length, bits)) - 1 << start & (1 << bits) - 1
    return into & ~cover | field << start & cover


def bit_mask(start: int, length: int, mode: str) -> int:
    """Return a mask of consecutive ones (bmsk)."""
    if mode == "wrap":
        start, length = start & 31, length & 31
    if start > 31 or not length:
        return 0
    return (1 << min(length, 32)) - 1 << start & M32


def zero_extend(value: int, length: int, mode: str) -> int:
    """Return the low bits, zero-extended (szext.u32)."""
    if mode == "wrap":
        length = length & 31
    else:
        length = min(length, 32)
    return value & (1 << length) - 1


def sign_extend(value: int, length: int, mode: str) -> int:
    """Return the low bits, sign-extended (szext.s32)."""
    if mode == "wrap":
        length = length & 31
    else:
        length = min(length, 32)
    if length:
        return _signed(value, length) & M32
    return 0


def funnel(a: int, b: int, amount: int, direction: str, mode: str) -> int:
    """Shift the 64 bits b:a and return the upper (left) or the lower (right) half (shf)."""
    if mode == "clamp":
        amount = min(amount, 32)
    else:
        amount = amount & 31
    both = b << 32 | a
    return (both << amount >> 32 if direction == "l" else both >> amount) & M32


def permute(a: int, b: int, selector: int, mode: str) -> int:
    """Select four bytes of b:a (prmt)."""
    source = (b << 32 | a).to_bytes(8, "little")
    if mode:
        selector = SELECTORS[mode][selector & 3]
    source += source.translate(_SIGNS)  # which the upper bit of a selector chooses
    return (
        source[selector & 15]
        | source[selector >> 4 & 15] << 8
        | source[selector >> 8 & 15] << 16
        | source[selector >> 12 & 15] << 24
    )


_SIGNS = bytes(128) + bytes([0xFF] * 128)
_PICKS = {
    "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
    "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
    "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
    "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
    "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}
SELECTORS = {
    mode: [sum(byte << 4 * at for at, byte in enumerate(row)) for row in rows] for mode, rows in _PICKS.items()
}


def halves(pick: Callable[[int, int], int], a: int, b: int) -> int:
    """Apply a function to both unsigned halves."""
    return pick(a >> 16, b >> 16) << 16 | pick(a & 0xFFFF, b & 0xFFFF)


def signed_halves(pick: Callable[[int, int], int], a: int, b: int, relu: str) -> int:
    """Apply a function to both signed halves."""
    a, b = a ^ 0x80008000, b ^ 0x80008000  # unsigned numbers in the same order
    high, low = pick(a >> 16, b >> 16), pick(a & 0xFFFF, b & 0xFFFF)
    if relu:
        high, low = max(high, 0x8000), max(low, 0x8000)
    return (high << 16 | low) ^ 0x80008000


def packed(type: str, above: int, a: int, b: int) -> int:
    """Saturate two signed numbers and pack them below the bits of a third (cvt.pack)."""
    bits = int(type[1:])
    if type[0] == "u":
        low, high = (0, (1 << bits) - 1)
    else:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1)
    pair = (clamp(a, low, high) % (1 << bits)) << bits | clamp(b, low, high) % (1 << bits)
    return (above << 2 * bits | pair) & M32


def dot4(a: int, b: int, first: str, second: str) -> int:
    """Multiply four bytes with four bytes and add the products (dp4a)."""
    p, q, r, s = _BYTES[first](a)
    t, u, v, w = _BYTES[second](b)
    return p * t + q * u + r * v + s * w


def dot2(a: int, b: int, first: str, second: str, half: str) -> int:
    """Multiply two 16-bit numbers with two of four bytes and add the products (dp2a)."""
    low, high = a & 0xFFFF, a >> 16
    if first == "s32":
        low, high = (low ^ 0x8000) - 0x8000, (high ^ 0x8000) - 0x8000
    p, q, r, s = _BYTES[second](b)
    if half == "hi":
        return low * r + high * s
    return low * p + high * q
