"""The linking of images for a device: by nvJitLink, or by the linker of the driver.

What it is   `link_for`, which chooses the linker and returns one image that the device can load.
What not     it does not load code (module.py) or read images (compiler/linking.py).
The choice   nvJitLink is used if it is installed, if its major version is not newer than the driver's (otherwise the
             driver could not load its cubin), and if it knows the device and the PTX. Only nvJitLink can link LTO-IR.
             A driver that runs no machine code (the emulator) links PTX itself, and nvJitLink turns LTO-IR into PTX for
             it.
Source       CUDA Driver API, "Module Management" (cuLink*)
Read next    module.py
"""

from __future__ import annotations

import ctypes
import re

from ...compiler.linking import (
    NO_SYMBOLS,
    check_symbols,
    duplicates,
    link_failed,
    link_with,
    linkers,
    read_inputs,
    read_options,
    undefined,
)
from ...compiler.nvjitlink import Input, NvJitLink
from ...compiler.request import Target
from ...errors import CudaError, InvalidUse, LinkerNotFound, LinkFailed, Unsupported
from ...headers import cuda_h
from ...headers.status import INVALID_VALUE
from ...ownership import Owned
from ..core.handles import LINK, make
from .module import Logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...driver import Driver
    from ..devices.device import Device

__all__ = ["link_for"]

_KINDS = {"cubin": 0, "ptx": 1, "fatbin": 2, "object": 3, "library": 4}  # CUjitInputType
_JIT = (  # options of nvJitLink, and the CUjit_option with the same meaning
    (re.compile(r"-maxrregcount=(\d+)"), 0),
    (re.compile(r"-O([0-4])"), 7),
    (re.compile(r"-g"), 11),
    (re.compile(r"-verbose"), 12),
    (re.compile(r"-lineinfo"), 13),
)
# Options of nvJitLink that only concern LTO-IR, or only the work of the linker.
_WITHOUT_EFFECT = re.compile(
    r"-(ftz|prec-div|prec-sqrt|fma|kernels-used|variables-used|Xptxas|Xnvvm|split-compile|split-compile-extended|"
    r"jump-table-density|Ofc)=.+|-(time|optimize-unused-variables|nvvm-latest|no-cache)"
)
_MISSING = re.compile(r"Undefined reference to '([^']+)'|Unresolved extern \w+ '([^']+)'")
_TWICE = re.compile(r"Multiple definition of '([^']+)'")
_STRANGE_TARGET = re.compile(rb"^[^\S\n]*\.target\s+sm_(\d+)([af])\b", re.M)


def link_for(device: Device, inputs: object, options: object) -> bytes:
    """Link images into one that a device can load; the exceptions are those of compiler/linking.py's link()."""
    given, rest = read_options(options)
    read = read_inputs(inputs)
    target = given or _target(device, read)
    check_symbols(read)
    loaded = device._primary.driver
    runs_machine_code = getattr(loaded.libcuda, "runs_machine_code", True)
    lto = [each for each in read if "ltoir" in each.contains and (runs_machine_code or "ptx" not in each.contains)]
    if lto and not runs_machine_code:
        made = link_with(_fitting(loaded.version) or linkers()[0], lto, target, "ptx", rest).code
        linked = Input("ptx", made, "+".join(each.name for each in lto), frozenset(("ptx",)))
        read = [linked, *(each for each in read if each not in lto)]
    elif runs_machine_code:
        linked_here = _by_nvjitlink(loaded.version, read, target, rest, bool(lto))
        if linked_here is not None:
            return linked_here
    try:
        return _by_driver(device, read, rest)
    except LinkFailed as error:
        if lto and any("Undefined reference" in line for line in error.log.splitlines()):
            error.args = (
                f"{error.args[0]}\nThis driver runs PTX, and nvJitLink leaves out of the PTX what LTO-IR itself does "
                "not use: give all of the images as LTO-IR",
            )
        raise


def _target(device: Device, inputs: Sequence[Input]) -> Target:
    """Return the device's architecture, with the suffix that PTX among the inputs needs."""
    major, minor = device.compute_capability
    number, suffix = 10 * major + minor, ""
    for each in inputs:
        if each.kind == "ptx":
            for match in _STRANGE_TARGET.finditer(each.data[:4096]):
                if int(match[1]) == number or match[2] == b"f":
                    suffix = min(suffix or "f", match[2].decode())  # "a" has all that "f" has
    return Target(number, suffix)


def _by_nvjitlink(
    version: int, inputs: Sequence[Input], target: Target, options: tuple[str, ...], is_lto: bool
) -> bytes | None:
    """Link with the newest nvJitLink that can do it, and return the cubin; None: the driver has to link.

    An nvJitLink that is older than the device, or than the PTX, does not know it: then the next one is tried.
    version  of the driver, which cannot load a cubin of a newer major version
    is_lto   whether there is LTO-IR, which the driver does not link
    """
    try:
        fitting = [linker for linker in linkers() if linker.version[0] <= version // 1000]
    except LinkerNotFound:
        if is_lto:
            raise
        return None
    if is_lto and not fitting:
        fitting = linkers()[-1:]
    refused: list[Unsupported] = []
    for linker in fitting:
        try:
            return link_with(linker, inputs, target, "cubin", options).code
        except Unsupported as error:
            refused.append(error)
    try:
        if refused and is_lto:
            raise refused[0]
    finally:
        refused.clear()  # the tracebacks refer to this frame
    return None


def _fitting(version: int) -> NvJitLink | None:
    """Return the newest nvJitLink whose major version the driver has, or None."""
    return next((linker for linker in linkers() if linker.version[0] <= version // 1000), None)


# -- the driver's own linker


def _by_driver(device: Device, inputs: Sequence[Input], given: Sequence[str]) -> bytes:
    """Link with the driver, and return the image.

    calls   cuLinkCreate_v2, cuLinkAddData_v2, cuLinkComplete, cuLinkDestroy
    raises  LinkFailed  it failed, with the driver's log
            InvalidUse  an option that the driver does not know
    """
    logs, loaded, linker = Logs(_jit_options(given)), device._primary.driver, _Linker()
    image, size = ctypes.c_void_p(), ctypes.c_size_t()
    with device.current():
        created = make(linker, LINK, device._primary, None)
        try:
            loaded.cuLinkCreate_v2(
                len(logs.options),
                ctypes.cast(logs.options, ctypes.POINTER(ctypes.c_uint)),
                ctypes.cast(logs.values, ctypes.POINTER(ctypes.c_void_p)),
                ctypes.cast(ctypes.byref(created), ctypes.POINTER(cuda_h.CUlinkState)),
            )
            linker._handle = created.value
            state = cuda_h.CUlinkState(created.value)
            _add(loaded, state, inputs)
            loaded.cuLinkComplete(state, ctypes.byref(image), ctypes.byref(size))
            return ctypes.string_at(image.value or 0, size.value)
        except CudaError as error:
            log = logs.errors.value.decode("utf-8", "replace").strip("\n")
            if not log or not str(error.call).startswith("cuLink"):
                raise
            told = _told(error, log)
            try:
                raise told from None
            finally:
                del told  # otherwise, its traceback refers to this frame, and this frame to the error
        finally:
            linker.close()


class _Linker(Owned):
    """The driver's linker, while it links."""

    __slots__ = ()


def _add(loaded: Driver, state: object, inputs: Sequence[Input]) -> None:
    for each in inputs:
        data = each.data + b"\0" if each.kind == "ptx" else each.data
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)  # (declared void *, and only read)
        name = each.name.encode("utf-8", "replace")
        loaded.cuLinkAddData_v2(state, _KINDS[each.kind], address, len(data), name, 0, None, None)


def _told(error: CudaError, log: str) -> CudaError:
    missing = [match[1] or match[2] for match in _MISSING.finditer(log)]
    twice = [match[1] for match in _TWICE.finditer(log)]
    if missing:
        remedy = undefined(missing)
    elif twice:
        remedy = duplicates(twice)
    else:
        remedy = ""
    return link_failed(
        error.call, log, remedy, missing or twice or NO_SYMBOLS, error.code, error.name, "the driver's linker"
    )


def _jit_options(given: Sequence[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for option in given:
        for pattern, number in _JIT:
            match = pattern.fullmatch(option)
            if match is not None:
                found[number] = int(match[1]) if pattern.groups else 1
                break
        else:
            if _WITHOUT_EFFECT.fullmatch(option) is None:
                raise InvalidUse(
                    f"options: the driver's linker does not know {option!r}; it knows -maxrregcount=N, -O0 to -O4, -g, "
                    "-lineinfo and -verbose",
                    code=INVALID_VALUE,
                    name="CUDA_ERROR_INVALID_VALUE",
                    call="cuLinkCreate_v2",
                )
    return found
