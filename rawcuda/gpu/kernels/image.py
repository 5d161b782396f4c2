"""Code images: telling PTX, cubin and fatbin apart, checking that they are complete, and listing their kernels.

What it is   a check before the driver gets an image: the driver is not told the length, so it would read beyond the end
             of a truncated image; and what the image says about its kernels and variables.
What not     it checks neither the architecture nor the code: the driver does.
Source       ELF-64 Object File Format; fatbinary_section.h of the CUDA toolkit (magic numbers and header)
Read next    signature.py
"""

from __future__ import annotations

from ...errors import PtxError
from ...images.containers import ELF, FATBIN, cubin_parameters, fatbin, fatbin_header, sections, symbols
from . import signature
from .signature import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...images.outline import Declaration

__all__ = ["cubin_kernels", "kernels", "prepare", "signatures", "variables"]

_FATBIN_WRAPPER = b"\xb1\x43\x62\x46"


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
                f"the code is not PTX: character {error.start} is {code[error.start]!r}, half of a "
                "surrogate pair; to load a cubin, give bytes"
            ) from None
    elif isinstance(code, (bytes, bytearray, memoryview)):
        data = bytes(code)
    else:
        raise TypeError(
            f"code must be PTX (str or bytes), a cubin or fatbin (bytes), or an os.PathLike, not {type(code).__name__}"
        )
    if data[:4] == ELF and not isinstance(code, str):
        sections(data)
        return "cubin", data + b"\0"
    if data[:4] == FATBIN and not isinstance(code, str):
        fatbin_header(data)
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
        hint = ""
        if b"__global__" in data:
            hint = ": CUDA C must be compiled first, by Device.compile() or nvcc -ptx"
        raise ValueError(f"the code is not PTX (no .version), cubin or fatbin{hint}")
    return "ptx", data + b"\0"


def cubin_kernels(data: bytes) -> list[str]:
    """List the kernels of a cubin, by its symbols or else by its sections ".text.NAME".

    raises  ValueError  truncated
    """
    listed = symbols(data)
    if listed:
        return [symbol.name for symbol in listed if symbol.is_kernel]
    return [section.name[6:] for section in sections(data) if section.name.startswith(".text.")]


def signatures(kind: str, data: bytes) -> dict[str, list[Parameter]]:
    """Return the parameters of each kernel that an image describes; PTX contains types, a cubin only sizes."""
    try:
        if kind == "ptx":
            return signature.kernels(data.rstrip(b"\0").decode("utf-8", "replace"))
        if kind == "cubin":
            return {
                name: [Parameter("", offset, size, "") for offset, size in found]
                for name, found in cubin_parameters(data).items()
            }
        found = {}
        for member in sorted(fatbin(data), key=lambda member: member.kind == "ptx"):  # PTX last: it contains more
            if member.kind in ("ptx", "cubin"):
                found.update(signatures(member.kind, member.code))
        return found
    except (PtxError, ValueError):  # the driver has accepted the code, so only this reader fails
        return {}


def kernels(kind: str, data: bytes) -> list[str] | None:
    """List the kernels of an image in its order; None if a part of it cannot be read."""
    if kind == "ptx":
        return list(signatures(kind, data))
    if kind == "cubin":
        return cubin_kernels(data)
    found: list[str] = []
    try:
        for member in fatbin(data):
            if member.kind in ("ptx", "cubin"):
                found += kernels(member.kind, member.code) or []
    except ValueError:
        return None
    return list(dict.fromkeys(found)) or None


def variables(kind: str, data: bytes) -> dict[str, Declaration | int]:
    """Return the variables that the driver can find, by name: their declarations in PTX, or their sizes."""
    from ...images.outline import declarations

    found: dict[str, Declaration | int] = {}
    try:
        if kind == "ptx":
            for each in declarations(data.rstrip(b"\0").decode("utf-8", "replace")):
                if each.kind in ("global", "const") and each.defined:
                    found[each.name] = each
        elif kind == "cubin":
            for symbol in symbols(data):
                if symbol.is_variable:
                    found[symbol.name] = symbol.size
        else:
            for member in sorted(fatbin(data), key=lambda member: member.kind == "ptx"):
                if member.kind in ("ptx", "cubin"):
                    found.update(variables(member.kind, member.code))
    except ValueError:
        return {}
    return found
