"""Files that contain device code: ELF files (cubins, host objects), fatbins and archives.

What it is   readers that check that a file is complete before a driver or a linker gets it, and that list what lies
             in it: the sections and symbols of an ELF file, the parameters of a cubin's kernels, the members of a
             fatbin or an archive.
What not     it interprets no machine code, and loads nothing.
Source       ELF-64 Object File Format; ar(5); fatbinary_section.h of the CUDA toolkit (magic numbers and header). The
             headers of a fatbin's members and the section .nv.info are not documented: nvcc 11 to 13 write them so.
Read next    ../gpu/kernels/image.py, ../compiler/linking.py
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ARCHIVE",
    "CUBIN_MACHINE",
    "ELF",
    "FATBIN",
    "LTOIR",
    "Member",
    "Section",
    "Symbol",
    "archive",
    "cubin_parameters",
    "device_code",
    "fatbin",
    "fatbins",
    "host_fatbins",
    "machine",
    "most_unpacked",
    "sections",
    "symbols",
]

ELF, FATBIN, LTOIR, ARCHIVE = b"\x7fELF", b"\x50\xed\x55\xba", b"\xed\x43\x4e\x7f", b"!<arch>\n"
CUBIN_MACHINE = 190  # EM_CUDA
_NO_BITS, _SYMBOLS = 8, 2  # SHT_NOBITS (.bss, shared memory), SHT_SYMTAB
_FUNCTION, _OBJECTS = 2, (1, 13)  # STT_FUNC; STT_OBJECT and STT_CUDA_OBJECT
_ENTRY = 0x10  # STO_CUDA_ENTRY
_HOST_SECTIONS = ("__nv_relfatbin", ".nv_fatbin")  # the fatbins of a host object, with and without -rdc=true
_MEMBER = struct.Struct("<H2xIQI8xI8xQ8xQ")  # kind, header, size; packed size; architecture; flags; unpacked size
_KINDS = {1: "ptx", 2: "cubin", 8: "ltoir"}
_LZ4, _ZSTD = 0x2000, 0x8000  # flags
_MOST_OF_A_FILE, _BASE = 1 << 30, 16 << 20  # bytes
_DENSEST = 100  # bytes for each packed one; compilers' code packs to a fifth, and to less only by long runs of zeros


class Section:
    """A section of an ELF file: `name`, `kind`, `offset` and `size` in the file, `link`."""

    __slots__ = ("name", "kind", "offset", "size", "link")

    def __init__(self, name: str, kind: int, offset: int, size: int, link: int) -> None:
        self.name, self.kind, self.offset, self.size, self.link = name, kind, offset, size, link


class Symbol:
    """A symbol of an ELF file.

    binding      0 for local, 1 for global, 2 for weak
    section      the number of its section, 0 if the file only refers to it
    is_kernel    whether it is a kernel of a cubin
    is_variable  whether it is a variable of a cubin that the file defines
    is_defined   whether it is a function or variable that the file defines
    """

    __slots__ = ("name", "binding", "section", "size", "is_kernel", "is_variable", "is_defined")

    def __init__(self, name: str, binding: int, kind: int, other: int, section: int, size: int) -> None:
        self.name, self.binding, self.section, self.size = name, binding, section, size
        self.is_defined = bool(section) and (kind == _FUNCTION or kind in _OBJECTS)
        self.is_kernel = kind == _FUNCTION and bool(other & _ENTRY)
        self.is_variable = kind in _OBJECTS and bool(section) and bool(binding)


class Member:
    """A member of a fatbin.

    kind          "ptx", "cubin", "ltoir", or "" for something else
    architecture  90 for sm_90
    code          its bytes; those of PTX and of a cubin are unpacked, if they were asked for
    size          the number of its bytes, with the zeros after PTX, which `code` is without
    """

    __slots__ = ("kind", "architecture", "code", "size")

    def __init__(self, kind: str, architecture: int, code: bytes) -> None:
        self.kind, self.architecture, self.code, self.size = kind, architecture, code, len(code)


# -- ELF files


def machine(data: bytes) -> int:
    """Return the machine of an ELF file, 0 if it is truncated; CUBIN_MACHINE is a GPU."""
    if len(data) >= 20:
        return int(struct.unpack_from("<H", data, 18)[0])
    return 0


def sections(data: bytes, what: str = "cubin") -> list[Section]:
    """Return the sections of an ELF file, after checking that they are inside the file.

    what    the name of such a file in errors
    raises  ValueError  truncated, or not a 64-bit little-endian ELF file
    """
    if len(data) < 64:
        raise ValueError(f"a truncated {what}: it has {len(data)} bytes, but the header alone has 64")
    if data[4:6] != b"\x02\x01":
        raise ValueError(f"an ELF file that is not 64-bit and little-endian is not a {what}")
    if what == "cubin" and machine(data) != CUBIN_MACHINE:
        raise ValueError(
            f"an ELF file for machine {machine(data)} is not a cubin (machine {CUBIN_MACHINE}): a host program or "
            "object file?"
        )
    programs, table = struct.unpack_from("<QQ", data, 32)  # e_phoff, e_shoff
    program_size, programs_count, entry_size, count, names_index = struct.unpack_from(
        "<HHHHH", data, 54
    )  # e_phentsize ...
    if table and not count and table + 64 <= len(data):  # more than 65,279: the first section has the numbers
        count, link = struct.unpack_from("<QI", data, table + 32)
        if names_index == 0xFFFF:
            names_index = link
    if programs + program_size * programs_count > len(data):
        raise ValueError(
            f"a truncated {what}: its segment table ends at byte "
            f"{programs + program_size * programs_count} of {len(data)}"
        )
    if table + entry_size * count > len(data):
        raise ValueError(
            f"a truncated {what}: its section table ends at byte {table + entry_size * count} of {len(data)}"
        )
    if count and (entry_size < 64 or names_index >= count):
        raise ValueError(f"a damaged {what}: its section table is inconsistent")
    headers = []
    for index in range(count):
        name, kind, offset, size, link = struct.unpack_from("<II16xQQI", data, table + index * entry_size)
        if kind == _NO_BITS:
            size = 0
        if offset + size > len(data):
            raise ValueError(f"a truncated {what}: a section ends at byte {offset + size} of {len(data)}")
        headers.append((name, kind, offset, size, link))
    if not headers:
        return []
    if sum(size for _, _, _, size, _ in headers) > 2 * len(data):
        raise ValueError(f"a damaged {what}: its sections overlap")
    start, end = headers[names_index][2], sum(headers[names_index][2:4])
    names = _Names(data, what)
    return [Section(names.at(start + name, end), kind, at, size, link) for name, kind, at, size, link in headers]


class _Names:
    """The names in a file: several may share their bytes, but not so many that reading them takes longer and longer."""

    __slots__ = ("data", "what", "left")

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.left = data, what, 16 * len(data)

    def at(self, start: int, end: int, stop: bytes = b"\0") -> str:
        """Return the name from start to the next stop, or to end.

        raises  ValueError  all names together are much longer than the file
        """
        found = self.data.find(stop, start, end)
        name = self.data[start : end if found < 0 else found]
        self.left -= len(name)
        if self.left < 0:
            raise ValueError(f"a damaged {self.what}: its names are longer than the file")
        return name.decode("utf-8", "replace")


def symbols(data: bytes, what: str = "cubin") -> list[Symbol]:
    """Return the symbols of an ELF file that have names.

    raises  ValueError  as for sections()
    """
    found = []
    listed = sections(data, what)
    texts = _Names(data, what)
    for section in listed:
        if section.kind != _SYMBOLS or section.link >= len(listed):
            continue
        names = listed[section.link]
        for at in range(section.offset, section.offset + section.size - 23, 24):
            name, info, other, index, _, size = struct.unpack_from("<IBBHQQ", data, at)
            text = ""
            if name:
                text = texts.at(names.offset + name, names.offset + names.size)
            if text:
                found.append(Symbol(text, info >> 4, info & 15, other, index, size))
    return found


# -- the parameters of a cubin's kernels: the records of .nv.info.NAME

_INDEXED, _WIDE = 0x17, 0x45  # EIATTR_KPARAM_INFO, and the form for larger parameters
_SIZED = 4  # the format of a record with a size; all others have 4 bytes


def cubin_parameters(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """Return each kernel of a cubin, with the (offset, size) of each parameter in bytes.

    A kernel whose records cannot be read is left out.
    raises  ValueError  as for sections()
    """
    found = {}
    for section in sections(data):
        if section.name.startswith(".nv.info."):
            records = _records(data[section.offset : section.offset + section.size])
            if records is not None:
                found[section.name[9:]] = records
    return found


def _records(data: bytes) -> list[tuple[int, int]] | None:
    parameters: dict[int, tuple[int, int]] = {}
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if at + size > len(data):
            return None
        if attribute in (_INDEXED, _WIDE) and size >= 12:
            _, ordinal, offset, word = struct.unpack_from("<IHHI", data, at)
            parameters[ordinal] = offset, word if attribute == _WIDE else word >> 18
        at += size
    if sorted(parameters) != list(range(len(parameters))):
        return None
    return [parameters[ordinal] for ordinal in range(len(parameters))]


# -- fatbins


def most_unpacked(data: bytes) -> int:
    """Return to how many bytes all members of a file may unpack.

    Readers take up to 20 bytes for each of those of a cubin, and the emulator up to 700 for each character of PTX, so
    a small file must not unpack to much: PTX unpacks to 100 times its packed size at most.
    """
    return min(_MOST_OF_A_FILE, _BASE + _DENSEST * len(data))


def fatbin(data: bytes, kinds: tuple[str, ...] = ("ptx", "cubin"), most: int | None = None) -> list[Member]:
    """Return the members of one or more fatbins that follow each other.

    kinds   of members that are unpacked; the others stay compressed
    most    the largest number of bytes of all members; most_unpacked() if it is not given
    raises  ValueError  truncated or damaged
    """
    found: list[Member] = []
    if most is None:
        most = most_unpacked(data)
    for at, header, end in _fatbins(data):
        for member in _members(data, at + header, end, kinds, most):
            found.append(member)
            most -= member.size
    return found


def fatbins(data: bytes) -> list[bytes]:
    """Divide bytes into the fatbins that follow each other in them.

    raises  ValueError  truncated or damaged
    """
    return [data[at:end] for at, _, end in _fatbins(data)]


def fatbin_header(data: bytes, at: int = 0) -> tuple[int, int]:
    """Return the sizes of the header and of the body of the fatbin that begins here; raises ValueError."""
    if len(data) - at < 16:
        raise ValueError(f"a truncated fatbin: it has {len(data) - at} bytes, but the header alone has 16")
    _, _, header, body = struct.unpack_from("<IHHQ", data, at)
    if header < 16 or header + body > len(data) - at:  # a driver would misread such a header, or read beyond the end
        raise ValueError(f"a truncated fatbin: its header says {header + body} bytes, but it has {len(data) - at}")
    return header, body


def _fatbins(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each fatbin begins, the size of its header, and where it ends."""
    at = 0
    while data[at : at + 4] == FATBIN:
        header, body = fatbin_header(data, at)
        yield at, header, at + header + body
        at += header + body
        at += -at % 8


def _members(data: bytes, at: int, end: int, kinds: tuple[str, ...], left: int) -> Iterator[Member]:
    while at + _MEMBER.size <= end:
        kind, header, size, packed, architecture, flags, plain = _MEMBER.unpack_from(data, at)
        if header < _MEMBER.size or at + header + size > end:
            raise ValueError(f"a damaged fatbin: the member at byte {at} ends at byte {at + header + size} of {end}")
        code = data[at + header : at + header + size]
        if flags & (_LZ4 | _ZSTD) and _KINDS.get(kind) in kinds:
            if plain > left:
                raise ValueError(f"a damaged fatbin: its members say that they have more than {left} bytes")
            if kind == 1 and plain > _DENSEST * size:
                raise ValueError(
                    f"a damaged fatbin: {size} packed bytes say that they are {plain} of PTX, more than {_DENSEST} for "
                    "each; if they are, pack them less (nvcc --compress-mode=none)"
                )
            code = _unpacked(data[at + header : at + header + min(packed, size)], flags, plain)
        member = Member(_KINDS.get(kind, ""), architecture, code)
        if kind == 1:
            member.code = code.rstrip(b"\0")
        yield member
        left -= member.size
        at += header + size


def _unpacked(packed: bytes, flags: int, size: int) -> bytes:
    try:
        if flags & _LZ4:
            unpacked = _unpack_lz4(packed, size)
        else:
            from .zstd import decompress

            unpacked = decompress(packed, size)
    except NotImplementedError as error:  # it was left out of a vendored part
        raise ValueError(f"a member of the fatbin is compressed by Zstandard: {error}") from None
    except ValueError as error:
        raise ValueError(f"a compressed member of the fatbin cannot be unpacked: {error}") from None
    if len(unpacked) != size:
        raise ValueError(f"a damaged fatbin: a member's header says {size} bytes, but it unpacks to {len(unpacked)}")
    return unpacked


def _unpack_lz4(packed: bytes, size: int) -> bytes:
    """Unpack an LZ4 block, a sequence of literals and copies of earlier output, until it has this size or more."""
    made = bytearray()
    at = 0
    try:
        while at < len(packed) and len(made) < size:
            token = packed[at]
            literals, at = _length(packed, at + 1, token >> 4)
            made += packed[at : at + literals]
            at += literals
            if at + 2 > len(packed) or len(made) >= size:
                break
            distance = packed[at] | packed[at + 1] << 8
            length, at = _length(packed, at + 2, token & 15)
            if not 0 < distance <= len(made):
                raise IndexError
            length = min(length + 4, size + 1 - len(made))
            start = len(made) - distance
            part = made[start : start + length]  # shorter than the copy if that overlaps its own output
            made += part * (length // len(part))
            made += part[: length % len(part)]
    except IndexError:
        raise ValueError("damaged LZ4 data") from None
    return bytes(made)


def _length(packed: bytes, at: int, start: int) -> tuple[int, int]:
    """Read an LZ4 length: after 15, bytes are added until one is not 255."""
    if start == 15:
        more = 255
    else:
        more = 0
    while more == 255:
        more = packed[at]
        at, start = at + 1, start + more
    return start, at


# -- host objects and archives


def host_fatbins(data: bytes) -> list[bytes]:
    """Return the contents of a host object's sections of fatbins, in each of which several may follow each other.

    raises  ValueError  truncated or damaged
    """
    return [
        data[section.offset : section.offset + section.size]
        for section in sections(data, "host object")
        if section.name in _HOST_SECTIONS
    ]


def device_code(data: bytes, most: int | None = None) -> list[Member]:
    """Return the members of all fatbins in a host object.

    most    as for fatbin()
    raises  ValueError  truncated or damaged
    """
    found: list[Member] = []
    if most is None:
        most = most_unpacked(data)
    for content in host_fatbins(data):
        members = fatbin(content, most=most)
        found += members
        most -= sum(member.size for member in members)
    return found


def archive(data: bytes) -> list[tuple[str, bytes]]:
    """Return the members of an archive, without its index, as (name, content).

    raises  ValueError  truncated or damaged
    """
    found, names, at = [], _Names(b"", "archive"), len(ARCHIVE)
    while at < len(data):
        header = data[at : at + 60]
        size = header[48:58].strip()
        if len(header) < 60 or header[58:] != b"`\n" or not size.isdigit():
            raise ValueError(f"a truncated or damaged archive: no member begins at byte {at}")
        end = at + 60 + int(size)
        if end > len(data):
            raise ValueError(f"a truncated archive: a member ends at byte {end} of {len(data)}")
        name, content = header[:16].rstrip(), data[at + 60 : end]
        at = end + end % 2
        if name == b"//":
            names = _Names(content, "archive")
        elif name.startswith(b"#1/") and name[3:].isdigit():  # BSD: the name comes before the content
            length = int(name[3:])
            name, content = content[:length].rstrip(b"\0"), content[length:]
        elif name[:1] == b"/" and name[1:].isdigit():  # GNU: a longer name, in the member "//"
            name = names.at(int(name[1:]), len(names.data), b"\n").encode("utf-8", "replace")
        if name not in (b"/", b"//", b"/SYM64/") and not name.startswith(b"__.SYMDEF"):
            found.append((name.rstrip(b"/").decode("utf-8", "replace"), content))
    return found
