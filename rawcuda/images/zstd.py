"""Zstandard: the compression of fatbins by nvcc 13, for Pythons whose standard library does not have it.

What it is   `decompress`, in plain Python: about 1 MB per second, and up to 100 times slower for data of no compiler.
What not     no compression, no dictionaries
Source       RFC 8878, "Zstandard Compression and the 'application/zstd' Media Type"; the specification of XXH64
Read next    containers.py
"""

from __future__ import annotations

import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[int, int, int]  # symbol, bits to read, and what to add to them for the next state

__all__ = ["decompress"]

_MAGIC, _SKIPPABLE = 0xFD2FB528, 0x184D2A50
_MOST = 1 << 31  # bytes of output
_BLOCK = 1 << 17  # the largest block, packed and unpacked
_COPIES = 16  # the most for each byte of a frame that was read: a copy may need no bit. Compilers write up to 4.2
_FRAMES = 1000  # the most that follow each other: each is looked for in what the one before has left

# For each code of a literal length or a match length: the number of its bits, and the number that is added to them.
_LITERAL_BITS = [0] * 16 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
_LITERAL_BASES = [*range(16), 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, *(1 << bits for bits in range(7, 17))]
_MATCH_BITS = [0] * 32 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
_MATCH_BASES = [*range(3, 35), 35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, *(3 + (1 << bits) for bits in range(7, 17))]

# The predefined distributions, which a block need not contain, and the bits of their states.
_LITERAL_DEFAULT = (
    [4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1],
    6,
)
_MATCH_DEFAULT = ([1, 4, 3, 2, 2, 2, 2, 2, 2] + [1] * 37 + [-1] * 7, 6)
_OFFSET_DEFAULT = ([1, 1, 1, 1, 1, 1, 2, 2, 2] + [1] * 15 + [-1] * 5, 5)


def decompress(data: bytes, most: int = _MOST) -> bytes:
    """Return the content of one or more frames.

    most    the largest number of bytes that are unpacked
    raises  ValueError  damaged, with a dictionary, of more than 1,000 frames; or, in plain Python, of more than 2 GB,
                        or with so many copies of earlier output that it would take more time than its length explains
    """
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return _decompress(data, most)
    found, frames = bytearray(), 0
    try:
        while data:
            frames = _counted(frames)
            frame = zstd.ZstdDecompressor()
            found += frame.decompress(data, min(most - len(found) + 1, sys.maxsize))
            if len(found) > most:
                raise _too_much(most)
            if not frame.eof:
                raise ValueError("damaged Zstandard data")
            data = frame.unused_data
    except zstd.ZstdError as error:
        raise ValueError(f"damaged Zstandard data: {error}") from None
    return bytes(found)


def _counted(frames: int) -> int:
    """Count a frame."""
    if frames == _FRAMES:
        raise ValueError(f"Zstandard data of more than {_FRAMES} frames")
    return frames + 1


def _too_much(most: int) -> ValueError:
    return ValueError(f"Zstandard data of more than {most} bytes")


def _decompress(data: bytes, most: int = _MOST) -> bytes:
    made, at, frames = bytearray(), 0, 0
    try:
        while at < len(data):
            frames = _counted(frames)
            at = _frame(data, at, made, most)
    except (IndexError, KeyError, OverflowError):
        raise ValueError("damaged Zstandard data") from None
    return bytes(made)


def _frame(data: bytes, at: int, made: bytearray, most: int) -> int:
    """Append the content of a frame, and return its end."""
    magic, start = int.from_bytes(data[at : at + 4], "little"), at
    if magic & ~15 == _SKIPPABLE:
        return at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    if magic != _MAGIC:
        raise ValueError("this is not Zstandard data")
    descriptor = data[at + 4]
    at += 5
    is_single = descriptor >> 5 & 1
    if descriptor & 3:
        raise ValueError("Zstandard data with a dictionary")
    if descriptor & 8:  # reserved
        raise ValueError("damaged Zstandard data")
    at += 0 if is_single else 1  # the window's size
    width = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    wanted = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
    at += width
    state = _State(len(made))
    while True:
        header = int.from_bytes(data[at : at + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        at += 3
        if at > len(data):
            raise IndexError
        if kind != 2 and len(made) + size > most:
            raise _too_much(most)
        if size > _BLOCK or kind == 3:
            raise ValueError("damaged Zstandard data")
        if kind == 1:  # one byte, repeated
            made += data[at : at + 1] * size
            at += 1
        else:
            block = data[at : at + size]
            if len(block) != size:
                raise ValueError("damaged Zstandard data")
            if kind == 0:
                made += block
            else:
                state.block(block, made, _COPIES * (at + size - start))
            at += size
        if len(made) > most:
            raise _too_much(most)
        if header & 1:
            if width and len(made) - state.start != wanted:
                raise ValueError("damaged Zstandard data")
            if descriptor & 4:
                if data[at : at + 4] != _checksum(bytes(made[state.start :])):
                    raise ValueError("damaged Zstandard data")
                at += 4
            return at


_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MASK = (1 << 64) - 1


def _checksum(data: bytes) -> bytes:
    """Return the checksum of a frame's content: the lower half of XXH64."""
    first, second, third, fourth, fifth = _PRIMES
    found, at, end = fifth, len(data) // 32 * 32, len(data) // 8 * 8
    if at:
        sums = [first + second & _MASK, second, 0, -first & _MASK]
        for numbers in struct.iter_unpack("<4Q", data[:at]):
            sums = [_mixed(each, number) for each, number in zip(sums, numbers)]
        found = sum(_turned(each, by) for each, by in zip(sums, (1, 7, 12, 18)))
        for each in sums:
            found = ((found ^ _mixed(0, each)) * first + fourth) & _MASK
    found = found + len(data) & _MASK
    for (number,) in struct.iter_unpack("<Q", data[at:end]):
        found = (_turned(found ^ _mixed(0, number), 27) * first + fourth) & _MASK
    rest = data[end:]
    if len(rest) >= 4:
        found ^= int.from_bytes(rest[:4], "little") * first & _MASK
        found, rest = (_turned(found, 23) * second + third) & _MASK, rest[4:]
    for byte in rest:
        found = _turned(found ^ byte * fifth & _MASK, 11) * first & _MASK
    found = (found ^ found >> 33) * second & _MASK
    found = (found ^ found >> 29) * third & _MASK
    return (found ^ found >> 32).to_bytes(8, "little")[:4]


def _mixed(before: int, number: int) -> int:
    return _turned(before + number * _PRIMES[1] & _MASK, 31) * _PRIMES[0] & _MASK


def _turned(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> 64 - by) & _MASK


class _Backwards:
    """A stream of bits that is read backwards: from the highest set bit of the last byte, which is not part of it."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise ValueError("damaged Zstandard data")
        self.data = data
        self.left = 8 * len(data) - 9 + data[-1].bit_length()

    def take(self, count: int) -> int:
        """Return the next bits; missing ones are 0."""
        self.left -= count
        first = self.left >> 3
        if first >= 0:  # (to shift all bits would take time in proportion to their number)
            word = int.from_bytes(self.data[first : first + 9], "little")
            return word >> (self.left & 7) & (1 << count) - 1
        if self.left < -64:
            raise IndexError
        return int.from_bytes(self.data[:8], "little") << -self.left & (1 << count) - 1


class _State:
    """The state that a block takes over from the one before: the tables and the last offsets.

    start  the length of the output before the frame
    """

    def __init__(self, start: int) -> None:
        self.start, self.copies = start, 0
        self.huffman: tuple[list[tuple[int, int]], int] | None = None
        self.tables: list[tuple[list[Row], int] | None] = [None, None, None]
        self.offsets = [1, 4, 8]

    def block(self, data: bytes, made: bytearray, most: int) -> None:
        """Append the content of a compressed block, if it and those before it have at most this number of copies."""
        literals, at = self._literals(data)
        count = data[at]
        at += 1
        if count >= 255:
            count, at = int.from_bytes(data[at : at + 2], "little") + 0x7F00, at + 2
        elif count >= 128:
            count, at = (count - 128 << 8) + data[at], at + 1
        self.copies += count
        if self.copies > most:
            raise ValueError(
                f"Zstandard data with more than {_COPIES} copies for each byte, which plain Python does not unpack: "
                "use Python 3.14, or do not compress it (nvcc --compress-mode=none)"
            )
        if count:
            at = self._read_tables(data, at)
            self._sequences(data[at:], count, literals, made)
        else:
            made += literals

    # -- literals

    def _literals(self, data: bytes) -> tuple[bytes, int]:
        kind, form = data[0] & 3, data[0] >> 2 & 3
        if kind < 2:
            size, at = ((data[0] >> 3, 1), (int.from_bytes(data[:2], "little") >> 4, 2))[form & 1]
            if form == 3:
                size, at = int.from_bytes(data[:3], "little") >> 4, 3
            if kind == 0:
                return data[at : at + size], at + size
            return data[at : at + 1] * size, at + 1
        bits, at = ((10, 3), (10, 3), (14, 4), (18, 5))[form]
        sizes = int.from_bytes(data[:at], "little") >> 4
        size, packed = sizes & (1 << bits) - 1, sizes >> bits & (1 << bits) - 1
        end = at + packed
        if kind == 2:
            at = self._read_huffman(data, at)
        if form == 0:
            return self._decoded(data[at:end], size), end
        jumps = [int.from_bytes(data[at + 2 * k : at + 2 * k + 2], "little") for k in range(3)]
        at += 6
        made, each = b"", (size + 3) // 4
        for number in range(4):
            if number < 3:
                stop = at + jumps[number]
            else:
                stop = end
            made += self._decoded(data[at:stop], each if number < 3 else size - 3 * each)
            at = stop
        return made, end

    def _decoded(self, data: bytes, size: int) -> bytes:
        if self.huffman is None:
            raise IndexError
        table, most = self.huffman
        stream, made = _Backwards(data), bytearray()
        if size > stream.left:  # a symbol has at least one bit
            raise IndexError
        number, left, mask = int.from_bytes(data, "little"), stream.left, (1 << most) - 1
        for _ in range(size):
            left -= most
            symbol, bits = table[(number >> left if left >= 0 else number << -left) & mask]
            made.append(symbol)
            left += most - bits
        if left:
            raise IndexError
        return bytes(made)

    def _read_huffman(self, data: bytes, at: int) -> int:
        """Read the weights of the symbols, and make the table of codes."""
        header = data[at]
        at += 1
        if header >= 128:
            count = header - 127
            weights = [data[at + k // 2] >> (0 if k & 1 else 4) & 15 for k in range(count)]
            at += (count + 1) // 2
        else:
            weights = _packed_weights(data[at : at + header])
            at += header
        total = sum(1 << weight >> 1 for weight in weights)
        most = total.bit_length()
        weights.append(((1 << most) - total).bit_length())
        if 1 << weights[-1] >> 1 != (1 << most) - total or most > 11:
            raise IndexError
        table: list[tuple[int, int]] = []
        for weight in range(1, most + 1):
            for symbol, its in enumerate(weights):
                if its == weight:
                    table += [(symbol, most + 1 - weight)] * (1 << weight >> 1)
        self.huffman = table, most
        return at

    # -- sequences

    def _read_tables(self, data: bytes, at: int) -> int:
        modes = data[at]
        at += 1
        kinds = ((6, _LITERAL_DEFAULT, 9), (4, _OFFSET_DEFAULT, 8), (2, _MATCH_DEFAULT, 9))
        for number, (shift, default, most) in enumerate(kinds):
            mode = modes >> shift & 3
            if mode == 0:
                self.tables[number] = _table(*default)
            elif mode == 1:
                self.tables[number] = [(data[at], 0, 0)], 0
                at += 1
            elif mode == 2:
                distribution, bits, at = _distribution(data, at, most)
                self.tables[number] = _table(distribution, bits)
        return at

    def _sequences(self, data: bytes, count: int, literals: bytes, made: bytearray) -> None:
        tables = [table for table in self.tables if table is not None]
        if len(tables) < 3:
            raise IndexError
        (literal_table, literal_bits), (offset_table, offset_bits), (match_table, match_bits) = tables
        stream, offsets, used = _Backwards(data), self.offsets, 0
        end = len(made) + _BLOCK
        take = stream.take
        literal_state, offset_state, match_state = take(literal_bits), take(offset_bits), take(match_bits)
        for number in range(count):
            code, offset_width, offset_next = offset_table[offset_state]
            match_code, match_width, match_next = match_table[match_state]
            literal_code, literal_width, literal_next = literal_table[literal_state]
            value = (1 << code) + take(code)
            length = _MATCH_BASES[match_code] + take(_MATCH_BITS[match_code])
            run = _LITERAL_BASES[literal_code] + take(_LITERAL_BITS[literal_code])
            offset = _offset(offsets, value, run)
            if number < count - 1:
                literal_state = literal_next + take(literal_width)
                match_state = match_next + take(match_width)
                offset_state = offset_next + take(offset_width)
            made += literals[used : used + run]
            used += run
            place = len(made) - offset
            if used > len(literals) or place < self.start or len(made) + length > end:
                raise IndexError
            if offset >= length:
                made += made[place : place + length]
            else:  # the copy overlaps its own output
                made += (made[place:] * (length // offset + 1))[:length]
        if stream.left:
            raise IndexError
        made += literals[used:]


def _offset(offsets: list[int], value: int, run: int) -> int:
    """Return the offset for a value, and remember it; the values 1 to 3 stand for one of the last three offsets."""
    if value > 3:
        offset = value - 3
        offsets[:] = offset, *offsets[:2]
        return offset
    which = value - 1 + (run == 0)
    if which == 3:
        offset = offsets[0] - 1
        offsets[:] = offset, *offsets[:2]
    else:
        offset = offsets.pop(which)
        offsets.insert(0, offset)
    if offset <= 0:
        raise IndexError
    return offset


def _packed_weights(data: bytes) -> list[int]:
    """Read weights that are compressed with a table of their own, with two states that alternate."""
    distribution, bits, at = _distribution(data, 0, 6)
    table, _ = _table(distribution, bits)
    stream = _Backwards(data[at:])
    states = [stream.take(bits), stream.take(bits)]
    weights: list[int] = []
    turn = 0
    while len(weights) < 255:
        symbol, width, following = table[states[turn]]
        weights.append(symbol)
        if stream.left < width:
            weights.append(table[states[1 - turn]][0])
            return weights
        states[turn] = following + stream.take(width)
        turn = 1 - turn
    raise IndexError


def _distribution(data: bytes, at: int, most: int) -> tuple[list[int], int, int]:
    """Read a distribution: return the count of each symbol, the bits of a state, and where the description ends."""
    number, place = int.from_bytes(data[at : at + 512], "little"), 4
    bits = 5 + (number & 15)
    if bits > most:
        raise IndexError
    left, found = (1 << bits) + 1, []
    while left > 1:
        width = left.bit_length()
        spare = (1 << width) - 1 - left  # this number of values needs one bit less
        value = number >> place & (1 << width - 1) - 1
        if value < spare:
            place += width - 1
        else:
            value = number >> place & (1 << width) - 1
            if value >= 1 << width - 1:
                value -= spare
            place += width
        count = value - 1
        found.append(count)
        left -= abs(count)
        if count == 0:
            while True:
                repeat = number >> place & 3
                place += 2
                found += [0] * repeat
                if repeat != 3:
                    break
        if len(found) > 256 or place > 4096:
            raise IndexError
    if left != 1:
        raise IndexError
    return found, bits, at + (place + 7) // 8


def _table(distribution: list[int], bits: int) -> tuple[list[Row], int]:
    """Make the table of states of a distribution."""
    size = 1 << bits
    symbols = [0] * size
    high = size - 1
    for symbol, count in enumerate(distribution):
        if count == -1:
            symbols[high] = symbol
            high -= 1
    place, step = 0, (size >> 1) + (size >> 3) + 3
    for symbol, count in enumerate(distribution):
        for _ in range(count):
            symbols[place] = symbol
            place = place + step & size - 1
            while place > high:
                place = place + step & size - 1
    following = [max(count, 1) if count else 0 for count in distribution]
    rows = []
    for symbol in symbols:
        state = following[symbol]
        following[symbol] += 1
        width = bits - state.bit_length() + 1
        rows.append((symbol, width, (state << width) - size))
    return rows, bits
