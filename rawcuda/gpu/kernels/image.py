"""Code images: telling PTX, cubin and fatbin apart, checking that they are complete, and listing a cubin's kernels.

What it is   a check before the driver gets an image: the driver is not told the length, so it would read beyond the end
             of a truncated image.
What not     it checks neither the architecture nor the code: the driver does.
Source       ELF-64 Object File Format; fatbinary_section.h of the CUDA toolkit (magic numbers and header)
Read next    signature.py
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

__all__ = ["prepare", "cubin_kernels"]

_ELF, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"
_EM_CUDA = 190
_NOBITS = 8  # a section without bytes in the file (.bss, shared memory)


def prepare(code: str | bytes | bytearray | memoryview) -> tuple[str, bytes]:
    """Return an image's kind, "ptx", "cubin" or "fatbin", and its bytes for the driver, followed by a NUL.

    raises  TypeError   neither str nor bytes
            ValueError  empty, truncated, the name of a file, or an unknown format
    """
    if isinstance(code, str):
        try:
            data = code.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the code is not PTX: character {error.start} is {code[error.start]!r}, half of a pair, which no text "
                "has; to load a cubin, give bytes"
            ) from None
    elif isinstance(code, (bytes, bytearray, memoryview)):
        data = bytes(code)
    else:
        raise TypeError(
            f"code must be PTX (str or bytes), a cubin or fatbin (bytes), or an os.PathLike, not {type(code).__name__}"
        )
    if data[:4] == _ELF and not isinstance(code, str):
        _sections(data)
        return "cubin", data + b"\0"
    if data[:4] == _FATBIN and not isinstance(code, str):
        _check_fatbin(data)
        return "fatbin", data + b"\0"
    if data[:4] == _FATBIN_WRAPPER:
        raise ValueError(
            "this is a fatbin wrapper, which only points to the fatbin: give the fatbin itself (nvcc -fatbin)"
        )
    data = data.rstrip(b"\0")
    if not data.strip():
        raise ValueError("the code is empty")
    if b"\0" in data:
        raise ValueError(f"the code is neither PTX (it has a NUL at byte {data.index(0)}) nor a cubin or fatbin")
    if b".version" not in data:
        if b"\n" not in data and len(data) < 4096:
            raise ValueError(f"{data.decode('utf-8', 'replace')!r} is not PTX; to load a file, give a pathlib.Path")
        hint = ": CUDA C must be compiled first, by Device.compile() or nvcc -ptx" if b"__global__" in data else ""
        raise ValueError(f"the code is not PTX (no .version), cubin or fatbin{hint}")
    return "ptx", data + b"\0"


def _check_fatbin(data: bytes) -> None:
    if len(data) < 16:
        raise ValueError(f"a truncated fatbin: it has {len(data)} bytes, but the header alone has 16")
    _, _, header, body = struct.unpack_from("<IHHQ", data)
    if header + body > len(data):
        raise ValueError(f"a truncated fatbin: its header says {header + body} bytes, but it has {len(data)}")


def _sections(data: bytes) -> list[tuple[str, int, int]]:
    """Return a cubin's sections as (name, offset, size in the file), after checking that they are inside the image.

    raises  ValueError  truncated, or not a 64-bit little-endian ELF file
    """
    if len(data) < 64:
        raise ValueError(f"a truncated cubin: it has {len(data)} bytes, but the header alone has 64")
    if data[4:6] != b"\x02\x01":
        raise ValueError("an ELF file that is not 64-bit and little-endian is not a cubin")
    (machine,) = struct.unpack_from("<H", data, 18)  # e_machine
    if machine != _EM_CUDA:
        raise ValueError(
            f"an ELF file for machine {machine} is not a cubin (machine {_EM_CUDA}): a host program or object file?"
        )
    programs, table = struct.unpack_from("<QQ", data, 32)  # e_phoff, e_shoff
    program_size, programs_count, entry_size, count, names_index = struct.unpack_from(
        "<HHHHH", data, 54
    )  # e_phentsize ...
    if programs + program_size * programs_count > len(data):
        raise ValueError(
            "a truncated cubin: its segment table ends at byte "
            f"{programs + program_size * programs_count} of {len(data)}"
        )
    if table + entry_size * count > len(data):
        raise ValueError(
            f"a truncated cubin: its section table ends at byte {table + entry_size * count} of {len(data)}"
        )
    if count and (entry_size < 64 or names_index >= count):
        raise ValueError("a damaged cubin: its section table is inconsistent")
    headers = []
    for index in range(count):
        name, kind, offset, size = struct.unpack_from("<II16xQQ", data, table + index * entry_size)
        size = 0 if kind == _NOBITS else size
        if offset + size > len(data):
            raise ValueError(f"a truncated cubin: a section ends at byte {offset + size} of {len(data)}")
        headers.append((name, offset, size))
    if not headers:
        return []
    start, end = headers[names_index][1], sum(headers[names_index][1:])
    return [
        (data[start + name : end].split(b"\0", 1)[0].decode("utf-8", "replace"), offset, size)
        for name, offset, size in headers
    ]


def cubin_kernels(data: bytes) -> list[str]:
    """List the kernels of a cubin by its sections ".text.NAME", which include device functions that were not inlined.

    raises  ValueError  truncated
    """
    names = [name for name, _, _ in _sections(data)]
    return [name[6:] for name in names if name.startswith(".text.")]
