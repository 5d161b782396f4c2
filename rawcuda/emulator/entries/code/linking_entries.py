"""Entry points: linking of PTX.

How          a link keeps the PTX texts that were added; the call that adds a text checks it, and reports its mistakes,
             as the driver does. The result is one PTX text, which a module can be loaded from.
What not     a linker of machine code and LTO-IR. Of a fatbin, a host object or an archive, only the PTX is
             linked. Of libcudadevrt, only the functions of grid groups exist: `DEVICE_RUNTIME`.
Source       CUDA Driver API, "Module Management" (cuLink*); cuda.h, CUjitInputType
Read next    modules.py, ptx/reading/ptx_linking.py
"""

from __future__ import annotations

import ctypes

from ....images import containers
from ...interface.thunks import entry, out, put_address_of, put_word, text
from ...machine.codes import Refused
from ...machine.machine import Context, Machine
from .image_entries import choose, length_of_fatbin, optional_ptx
from .modules import Options, log_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...ptx.reading.ptx_linking import Merger

__all__ = ["DEVICE_RUNTIME", "Link", "images_in"]

_CUBIN, _PTX, _FATBINARY, _OBJECT, _LIBRARY, _NVVM = range(6)  # CUjitInputType

# The member of libcudadevrt with the device's runtime contains PTX only for the newest devices, and that PTX calls
# functions of the real driver. This text takes its place. The workspace of a cooperative launch is the handle of a
# grid; the word at 4 counts the blocks that have arrived, and the highest bit of the word changes with the last one.
_RUNTIME_MEMBER = "cuda_device_runtime.o"
DEVICE_RUNTIME = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %grid;
    .reg .b32 %scope, %high, %low;
    .reg .b64 %handle;
    ld.param.u32 %scope, [scope];
    setp.eq.u32 %grid, %scope, 1;
    mov.u32 %high, %envreg1;
    mov.u32 %low, %envreg2;
    mov.b64 %handle, {%low, %high};
    @!%grid mov.u64 %handle, 0;
    st.param.b64 [handle], %handle;
    ret;
}
.visible .func (.param .b32 code) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %none, %other, %wait;
    .reg .b32 %a, %b, %c, %blocks, %add, %before, %now;
    .reg .b64 %handle;
    ld.param.u64 %handle, [handle];
    setp.eq.u64 %none, %handle, 0;
    @%none bra $invalid;
    bar.sync 0;
    mov.u32 %a, %tid.x;
    mov.u32 %b, %tid.y;
    mov.u32 %c, %tid.z;
    or.b32 %a, %a, %b;
    or.b32 %a, %a, %c;
    setp.ne.u32 %other, %a, 0;
    @%other bra $rest;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %b, %nctaid.y;
    mov.u32 %c, %nctaid.z;
    mul.lo.u32 %blocks, %blocks, %b;
    mul.lo.u32 %blocks, %blocks, %c;
    mov.u32 %a, %ctaid.x;
    mov.u32 %b, %ctaid.y;
    mov.u32 %c, %ctaid.z;
    or.b32 %a, %a, %b;
    or.b32 %a, %a, %c;
    setp.ne.u32 %other, %a, 0;
    sub.u32 %add, 0x80000001, %blocks;
    @%other mov.u32 %add, 1;
    membar.gl;
    atom.add.u32 %before, [%handle+4], %add;
$arrived:
    ld.volatile.u32 %now, [%handle+4];
    xor.b32 %now, %now, %before;
    setp.lt.u32 %wait, %now, 0x80000000;
    @%wait bra $arrived;
    membar.gl;
$rest:
    bar.sync 0;
    st.param.b32 [code], 0;
    ret;
$invalid:
    st.param.b32 [code], 1;
    ret;
}
"""


class Link:
    """A link in progress: its handle is a CUlinkState."""

    __slots__ = ("handle", "context", "merger", "options", "made")

    def __init__(self, context: Context, merger: Merger, options: Options) -> None:
        self.handle = 0
        self.context, self.merger, self.options = context, merger, options
        self.made = b""  # the result; cuLinkComplete returns its address

    def close(self) -> None:
        """Release the result."""
        self.made = b""


@entry(
    "cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)",
    since=6050,
)
def create(machine: Machine, count: int, options: int, values: int, address: int) -> None:
    """Begin a link."""
    from ...ptx.reading.ptx_linking import Merger

    out(address)
    context = machine.context()
    link = machine.add(Link(context, Merger(), Options(count, options, values)))
    context.owned[link.handle] = link
    put_word(address, link.handle)


@entry(
    "cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, "
    "unsigned int numOptions, CUjit_option *options, void **optionValues)",
    since=6050,
)
def add_data(
    machine: Machine, handle: int, kind: int, data: int, size: int, name: int, count: int, options: int, values: int
) -> None:
    """Add an image in memory."""
    link = machine.usable(Link, handle)
    out(data)
    Options(count, options, values)
    _add(machine, link, kind, ctypes.string_at(data, size), text(name) if name else "<input>")


@entry(
    "cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions, "
    "CUjit_option *options, void **optionValues)",
    since=6050,
)
def add_file(machine: Machine, handle: int, kind: int, path: int, count: int, options: int, values: int) -> None:
    """Add an image in a file."""
    link = machine.usable(Link, handle)
    Options(count, options, values)
    try:
        with open(text(path), "rb") as file:
            content = file.read()
    except OSError as error:
        raise Refused(301, str(error)) from None
    _add(machine, link, kind, content, text(path))


def _add(machine: Machine, link: Link, kind: int, content: bytes, name: str) -> None:
    from ...ptx import Rejected
    from ...ptx.ptx_program import text_of
    from ...ptx.reading.ptx_linking import Unit
    from ...ptx.translating.unit import Unit as Checked

    if link.made:
        raise Refused(1, "this link is complete, and nothing can be added to it: create another link")
    if not content:
        raise Refused(1, f"{name} is empty")
    architecture = divmod(machine.architecture, 10)
    try:
        # a linker takes from an archive only members that define missing names; here, all members without conflicts
        for image, inner in images_in(kind, content, name, machine.architecture):
            unit = Unit(text_of(image), inner, architecture, machine.ptx_version)
            Checked(unit.module, {})  # checks each instruction
            try:
                link.merger.add(unit)
            except Rejected:
                if kind != _LIBRARY:
                    raise
    except Rejected as rejected:
        log_options(link.options, "", rejected.log)
        raise Refused(rejected.code, rejected.log) from None


def images_in(kind: int, content: bytes, name: str, device: int) -> Iterator[tuple[bytes, str]]:
    """Yield the PTX texts in an input, with their names; kind is a CUjitInputType."""
    if kind == _PTX or kind == _CUBIN and content[:4] != containers.ELF:  # PTX may be passed instead of a cubin
        yield content.rstrip(b"\0"), name
    elif kind == _FATBINARY:
        if content[:4] != containers.FATBIN or len(content) < 16 or length_of_fatbin(content) > len(content):
            raise Refused(200, f"{name} is not a fatbin, or it is truncated")
        yield choose(content, device), name
    elif kind == _OBJECT:
        yield from _of_object(content, name, device, True)
    elif kind == _LIBRARY:
        try:
            if content[:8] == containers.ARCHIVE:
                members = containers.archive(content)
            else:
                members = []
        except ValueError as error:
            raise Refused(200, f"{name}: {error}") from None
        if not members:
            raise Refused(200, f"{name} is not an archive")
        for member, inner in members:
            if member == _RUNTIME_MEMBER:
                yield DEVICE_RUNTIME, f"{name}:{member}"
            elif inner[:4] == containers.ELF:
                yield from _of_object(inner, f"{name}:{member}", device, False)
    elif kind == _CUBIN:
        raise Refused(209, f"{name} contains machine code, which is not emulated: link PTX instead (nvcc -ptx)")
    elif kind == _NVVM:
        raise Refused(801, f"{name} is LTO-IR, which the emulator cannot read: convert it to PTX with nvJitLink")
    else:
        raise Refused(1)


def _of_object(content: bytes, name: str, device: int, needed: bool) -> Iterator[tuple[bytes, str]]:
    """Yield the PTX in the fatbins of a host object."""
    found = False
    try:
        images = [image for inner in containers.host_fatbins(content) for image in containers.fatbins(inner)]
    except ValueError as error:
        raise Refused(200, f"{name} is not a host object: {error}") from None
    for each in images:
        image = (choose if needed else optional_ptx)(each, device)
        if image is not None:
            found = True
            yield image, name
    if needed and not found:
        raise Refused(200, f"{name} is a host object without device code: compile it with nvcc")


@entry("cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)", since=5050)
def complete(machine: Machine, handle: int, address: int, size: int) -> None:
    """Link what was added, and write the address and size of the image; it is valid until the link is destroyed."""
    from ...ptx import Rejected

    link = machine.usable(Link, handle)
    out(address)
    if not link.merger.units:
        raise Refused(1, "nothing was added to this link: add at least one input")
    if not link.made:
        try:
            made = link.merger.complete()
        except Rejected as rejected:
            log_options(link.options, "", rejected.log)
            raise Refused(rejected.code, rejected.log) from None
        link.made = made.encode() + b"\0"
        log_options(link.options, f"info    : {len(link.merger.units)} PTX texts were linked", "")
    put_address_of(address, link.made)
    if size:
        put_word(size, len(link.made) - 1)


@entry("cuLinkDestroy(CUlinkState state)", since=5050)
def destroy(machine: Machine, handle: int) -> None:
    """Destroy a link."""
    link = machine.usable(Link, handle)
    del machine.handles[handle], link.context.owned[handle]
    link.close()
