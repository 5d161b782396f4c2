"""A shared object (ELF64) of functions that jump to code which all of them share, and of a table in writable memory.

What it is   `write`, which returns the bytes of the file.
How          three segments: headers, symbols and hash table (read); code (read, execute); the dynamic section and the
             table (read, write). Each begins on a page of its own. A page counts as 64 KiB, the largest page size of
             arm64 kernels. Two words of the table are addresses of libdl's functions, which the loader fills in. The
             loader needs no section headers, but linkers need them.
Source       System V Application Binary Interface, chapters 4 and 5; its supplements for AMD64 and AArch64
Read next    symbol_table.py, loading.py
"""

from __future__ import annotations

import struct

from . import symbol_table as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["SYMBOL", "write"]

SYMBOL = "emulated_library_table"  # the symbol with which a process finds the table of an object that it has loaded
_PAGE = 0x10000
_MACHINES = {"x86_64": (62, 6), "aarch64": (183, 1025)}  # e_machine, and the type of a relocation GLOB_DAT
_STUB = 16  # bytes
_FUNCTION, _OBJECT = 0x12, 0x11  # global


def write(machine: str, code: ModuleType, soname: str, names: list[str], table: bytearray, version: str = "") -> bytes:
    """Return a shared object that exports functions of these names.

    machine  "x86_64" or "aarch64"
    code     intel.py or arm.py
    table    the result of table.build(); its distance to the functions is filled in here
    version  that of the functions, or "" if they have none: programs that were linked with a version ask for it
    Why long  it lays out one file from its beginning to its end, and each part needs the places of those before it
    """
    number, glob_dat = _MACHINES[machine]
    strings = _Strings()
    imported = [(strings.add(name), 0x12, 0, 0, 0, 0) for name in ("dlsym", "dlopen")]
    needed, own = strings.add("libdl.so.2"), strings.add(soname)
    named = [strings.add(name) for name in [*names, SYMBOL]]
    if version:
        definitions = _versions([(soname, own), (version, strings.add(version))])
    else:
        definitions = b""
    everything = ["", "dlsym", "dlopen", *names, SYMBOL]

    # the first segment
    hashed = _hash_table(everything)
    at_hash = 64 + 5 * 56 + 8
    at_symbols = _aligned(at_hash + len(hashed))
    at_strings = at_symbols + 24 * len(everything)
    at_relocations = _aligned(at_strings + len(strings.text))
    at_versions = at_relocations + 2 * 24
    if version:
        versions = struct.pack(f"<{len(everything)}H", 0, 1, 1, *[2] * len(names), 1)
    else:
        versions = b""
    at_definitions = _aligned(at_versions + len(versions))
    end = at_definitions + len(definitions)
    # the second
    at_code = _aligned(end)
    code_size = _aligned(len(code.shared(0)))
    text_size = code_size + _STUB * len(names)
    # the third
    at_dynamic = _aligned(at_code + text_size)
    dynamic_size = 16 * (15 if version else 12)
    at_table = at_dynamic + dynamic_size
    stubs, base = at_code + code_size + _PAGE, at_table + 2 * _PAGE
    struct.pack_into("<I", table, layout.STUBS, base - stubs)
    text = code.shared(base - at_code - _PAGE).ljust(code_size, b"\0")
    text += b"".join(code.WHOLE.get(name) or code.stub(i, -code_size - _STUB * i) for i, name in enumerate(names))

    symbols = [(0,) * 6, *imported]
    symbols += [(named[i], _FUNCTION, 0, 5, stubs + _STUB * i, _STUB) for i in range(len(names))]
    symbols += [(named[-1], _OBJECT, 0, 7, base, len(table))]
    relocations = b"".join(
        struct.pack("<QQq", base + word, (index << 32) + glob_dat, 0)
        for index, word in ((1, layout.DLSYM), (2, layout.DLOPEN))
    )
    dynamic = (
        *((1, needed), (14, own), (4, at_hash), (5, at_strings), (6, at_symbols), (10, len(strings.text)), (11, 24)),
        *((7, at_relocations), (8, len(relocations)), (9, 24)),
        # DT_VERSYM, DT_VERDEF, DT_VERDEFNUM
        *(((0x6FFFFFF0, at_versions), (0x6FFFFFFC, at_definitions), (0x6FFFFFFD, 2)) if version else ()),
        *((0x6FFFFFFB, 8), (0, 0)),  # DT_FLAGS_1: never unloaded
    )
    file = bytearray(at_table + len(table))
    for at, piece in (
        (at_hash, hashed),
        (at_symbols, b"".join(struct.pack("<IBBHQQ", *symbol) for symbol in symbols)),
        (at_strings, strings.text),
        (at_relocations, relocations),
        (at_versions, versions),
        (at_definitions, definitions),
        (at_code, text),
        (at_dynamic, b"".join(struct.pack("<QQ", *entry) for entry in dynamic)),
        (at_table, table),
    ):
        file[at : at + len(piece)] = piece

    readable, executable, writable = 4, 5, 6
    segments = (
        (1, readable, 0, 0, end, _PAGE),
        (1, executable, at_code, at_code + _PAGE, text_size, _PAGE),
        (1, writable, at_dynamic, at_dynamic + 2 * _PAGE, len(file) - at_dynamic, _PAGE),
        (2, writable, at_dynamic, at_dynamic + 2 * _PAGE, dynamic_size, 8),
        (0x6474E551, writable, 0, 0, 0, 16),  # GNU_STACK: not executable
    )
    headers = [struct.pack("<IIQQQQQQ", k, flags, at, va, va, n, n, align) for k, flags, at, va, n, align in segments]
    at_sections = _aligned(_add_section_names(file))
    file += bytes(at_sections - len(file))
    sections = (
        (".hash", 5, 2, at_hash, at_hash, len(hashed), 2, 0, 8, 4),
        (".dynsym", 11, 2, at_symbols, at_symbols, 24 * len(symbols), 3, 1, 8, 24),
        (".dynstr", 3, 2, at_strings, at_strings, len(strings.text), 0, 0, 1, 0),
        (".rela.dyn", 4, 2, at_relocations, at_relocations, len(relocations), 2, 0, 8, 24),
        (".text", 1, 6, at_code + _PAGE, at_code, text_size, 0, 0, 16, 0),
        (".dynamic", 6, 3, at_dynamic + 2 * _PAGE, at_dynamic, dynamic_size, 3, 0, 8, 16),
        (".data", 1, 3, base, at_table, len(table), 0, 0, 16, 0),
        (".shstrtab", 3, 0, 0, at_table + len(table), len(_SECTIONS), 0, 0, 1, 0),
        # the last, so that the numbers of the others do not depend on them
        (".gnu.version", 0x6FFFFFFF, 2, at_versions, at_versions, len(versions), 2, 0, 2, 2),
        (".gnu.version_d", 0x6FFFFFFD, 2, at_definitions, at_definitions, len(definitions), 3, 2, 8, 0),
    )[: None if version else -2]
    file += bytes(64)
    for section in sections:
        file += struct.pack("<IIQQQQIIQQ", _SECTIONS.index(section[0].encode() + b"\0"), *section[1:])
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    file[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, number, 1, 0, 64, at_sections, 0, 64, 56, 5, 64, 1 + len(sections), 8
    )
    file[64 : 64 + 5 * 56] = b"".join(headers)
    return bytes(file)


_SECTIONS = b"\0.hash\0.dynsym\0.dynstr\0.rela.dyn\0.text\0.dynamic\0.data\0.shstrtab\0.gnu.version\0.gnu.version_d\0"


def _add_section_names(file: bytearray) -> int:
    file += _SECTIONS
    return len(file)


def _aligned(offset: int) -> int:
    return -(-offset // 16) * 16


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.text = b"\0"

    def add(self, text: str) -> int:
        """Add a string and return its offset."""
        at = len(self.text)
        self.text += text.encode() + b"\0"
        return at


def _hash_table(names: list[str]) -> bytes:
    """Return the hash table of symbols, without the first three, which this object does not define."""
    buckets = [0] * max(1, len(names) // 2)
    chain = [0] * len(names)
    for index, name in enumerate(names):
        if index >= 3:
            place = _hash(name) % len(buckets)
            chain[index], buckets[place] = buckets[place], index
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _versions(names: list[tuple[str, int]]) -> bytes:
    """Return the definitions of versions: that of the object itself, and that of the functions.

    names  the name of each, and its offset in the string table
    """
    made = b""
    for index, (name, offset) in enumerate(names, 1):
        last = index == len(names)
        made += struct.pack("<4H3I2I", 1, int(index == 1), index, 1, _hash(name), 20, 0 if last else 28, offset, 0)
    return made


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value
