"""The readers of foreign bytes: what each refuses with, real files to begin from, and inputs on which a reader is slow.

A reader takes time and memory in proportion to its input and to the size that the input's header states, whatever is
in it. `growth` measures both.
"""

from __future__ import annotations

import gc
import random
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.subject import module, rawcuda

containers, zstd = module("images.containers"), module("images.zstd")
outline, mangled, image = module("images.outline"), module("images.mangled"), module("gpu.kernels.image")
DATA = Path(__file__).parents[1] / "data"
SIZES = (1, 2, 4, 8, 16, 32)


class Reader(NamedTuple):
    """A reader.

    read   reads bytes; what it raises for wrong ones is in `refuses`
    seeds  real inputs, from which mutants are made
    grown  inputs of a size, from 1 to 32, each of a kind that might cost more than its size
    most   seconds for a mutant and a megabyte of a mutant's memory, on a slow machine
    each   bytes of memory for each byte of an input that grows, packed or not
    """

    read: Callable[[bytes], Any]
    refuses: tuple[type[BaseException], ...]
    seeds: Callable[[], list[bytes]]
    grown: dict[str, Callable[[int], bytes]]
    most: tuple[float, float] = (2.0, 16.0)
    each: int = 70


# -- files of device code


def elf(parts: list[tuple[str, int, bytes, int]], machine: int = 190) -> bytes:
    """Make an ELF file of sections: (name, kind, content, link)."""
    names = b"\0"
    rows, at, body = [bytes(64)], 64, b""
    for name, kind, content, link in [*parts, (".shstrtab", 3, b"", 0)]:
        start = len(names)
        names += name.encode() + b"\0"
        content = names if name == ".shstrtab" else content
        rows.append(struct.pack("<IIQQQQIIQQ", start, kind, 0, 0, at, len(content), link, 0, 1, 24))
        at, body = at + len(content), body + content
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, at, 0x500050, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return head + body + b"".join(rows)


def symbol(name: int, other: int = 16) -> bytes:
    return struct.pack("<IBBHQQ", name, 18, other, 1, 0, 16)


def cubin(count: int = 2) -> bytes:
    names = b"\0" + b"".join(b"_Z5scaleIfEvPT_%d\0" % number for number in range(count))
    places = [at + 1 for at, byte in enumerate(names[:-1]) if not byte]
    record = struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18)
    parts = [(".strtab", 3, names, 0), (".symtab", 2, bytes(24) + b"".join(map(symbol, places)), 1)]
    parts += [(f".nv.info._Z5scaleIfEvPT_{number}", 0x70000000, record, 0) for number in range(min(count, 4))]
    return elf(parts)


def member(kind: int, code: bytes, flags: int = 0, plain: int = 0) -> bytes:
    padding = bytes(-len(code) % 8)
    return struct.pack("<H2xIQI8xI8xQ8xQ", kind, 64, len(code + padding), len(code), 90, flags, plain) + code + padding


def fatbin(*members: bytes) -> bytes:
    return bytes(containers.FATBIN) + struct.pack("<HHQ", 1, 16, sum(map(len, members))) + b"".join(members)


def literals(content: bytes) -> bytes:
    """Pack as LZ4 does where nothing repeats."""
    rest = len(content) - 15
    return bytes([0xF0]) + b"\xff" * (rest // 255) + bytes([rest % 255]) + content


def archive(*contents: bytes, name: bytes = b"a.o/") -> bytes:
    whole = containers.ARCHIVE
    for content in contents:
        whole += name.ljust(48) + str(len(content)).encode().ljust(10) + b"`\n" + content + b"\n" * (len(content) % 2)
    return bytes(whole)


PTX = (DATA / "corpus" / "flow.sm75.ptx").read_bytes()


def frames() -> list[bytes]:
    from tests.null.test_zstd import FRAME

    return [FRAME, FRAME + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + FRAME, blocks(3)]


def blocks(count: int, kind: int = 0, size: int = 100, body: bytes = b"a" * 100) -> bytes:
    """Make a frame of blocks that are not compressed, or repeat a byte."""
    made = struct.pack("<I", 0xFD2FB528) + bytes(2)
    for number in range(count):
        made += (size << 3 | kind << 1 | (number == count - 1)).to_bytes(3, "little") + body
    return made


def host_object() -> bytes:
    text = member(1, literals(PTX[:2000]), 0x2000, 2000)
    return elf([(".nv_fatbin", 1, fatbin(text, member(2, cubin())), 0)], machine=62)


# -- the names and texts in them

_NAMES = (
    "_Z5scaleIfEvPT_ _ZN3cub4scanIiNS_3addIiEEEEvPKT_PS3_T0_i _Z1fPFviEA3_iRKSt6vectorIiSaIiEE _Z1fIJifdEEvDpT_ "
    "_ZN12_GLOBAL__N_11gEv _Z1fB3fooB3barILi3ELb1EEvv"
)


def _doubled(count: int) -> str:
    """Make a name each of whose types contains the one before it twice."""
    made = "_Z1fv1aIiiE"
    for number in range(min(count, 30)):
        made += "1bI" + 2 * f"S{_base36(2 * number)}_" + "E"
    return made


def _base36(number: int) -> str:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    made = ""
    while True:
        made = digits[number % 36] + made
        number //= 36
        if not number:
            return made


class _Folder:
    """A folder for the readers of files; it is made once, and removed with the process's other temporary files."""

    def __init__(self) -> None:
        self.path: Path | None = None

    def __truediv__(self, name: str) -> Path:
        import atexit
        import shutil
        import tempfile

        if self.path is None:
            self.path = Path(tempfile.mkdtemp())
            atexit.register(shutil.rmtree, self.path, ignore_errors=True)
        return self.path / name


FOLDER = _Folder()


def _in_file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def read_npy(data: bytes) -> Any:
    return module("elements.npy").read(_in_file("a.npy", data))


def npy(header: str, count: int) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x02\0" + struct.pack("<I", len(text)) + text + bytes(count)


def read_manifest(data: bytes) -> Any:
    _in_file("VENDORED.txt", data)
    assert FOLDER.path is not None
    vendor = module("tools.commands.vendor")
    found = vendor._read(str(FOLDER.path))
    return found and vendor._changes(str(FOLDER.path), found)


MANIFEST = b"rawcuda 0.1.0, all, copied on 2026-11-27.\n" + b"".join(b"%064x  a/b%d.py\n" % (n, n) for n in range(40))


def read_journal(data: bytes) -> Any:
    journal = module("emulator.impersonating.journal")
    path = _in_file("calls-1-abcd", data)
    try:
        return journal.told(journal.read(str(path.parent)), everything=True, crashed=True)
    finally:
        path.unlink()


def journal_seed() -> bytes:
    journal = module("emulator.impersonating.journal")
    count = len(journal.LIBRARIES["libcuda"].names())
    path = FOLDER / "x"
    assert FOLDER.path is not None
    for old in FOLDER.path.glob("calls-*"):
        old.unlink()
    made = journal.create(str(FOLDER.path), "libcuda", count)
    made.write("cuUnknown")
    made.refused("why")
    (path,) = FOLDER.path.glob("calls-*")
    data = path.read_bytes()
    path.unlink()
    return data[:8] + struct.pack("<I", 5) + data[12:]


def read_log(data: bytes) -> Any:
    request = module("compiler.request").Request(b"int a;\n" * 2000, "a.cu", False, (), {}, (), None, "ptx")
    return module("compiler.messages").diagnostics(data.decode("utf-8", "replace"), request)


LOG = b"a.cu(3): error: expected a ';'\n  int a\n      ^\na.cu(5): warning #177-D: declared but never used\n" * 3


def read_handle(data: bytes) -> Any:
    return module("gpu.processes.shared_handles").SharedHandle.from_bytes(data)


def handle_seed() -> bytes:
    shared = module("gpu.processes.shared_handles")
    values = [*shared._FORM.unpack(bytes(shared._FORM.size))]
    values[:4] = shared._MARK, shared._VERSION, 0, 1
    values[-1] = shared._checksum(shared._FORM.pack(*values))
    return bytes(shared._FORM.pack(*values))


def read_cuda_c(data: bytes) -> Any:
    return module("compiler.declarations").Declarations([data.decode("latin-1")]).parameters("k", [8])


def read_for_run(data: bytes) -> Any:
    return module("tools.commands.run")._look_for("absent", str(_in_file("a.cu", data)), None)


def read_lines_of_ptx(data: bytes) -> Any:
    report = module("emulator.ptx.running.report")
    text = data.decode("latin-1")
    module("compiler.nvcc")._names(("k",), text)
    module("emulator.impersonating.linker")._ENTRY.sub(r"\1 .maxnreg 32", text)
    module("gpu.kernels.driver_linking")._STRANGE_TARGET.findall(data)
    report._MEMORY.search(text)
    made = SimpleNamespace(text=f"[%r1]\n{text}\n", functions={}, locations=[])
    module("emulator.ptx.checking.sources").Sources(made).reached(1, 1)
    return report._is_update([1, 2], f"{text}\n{text}\n".split("\n"))


def read_ptx(data: bytes) -> Any:
    return module("emulator.ptx").load(data, module("emulator.machine.space").Space())


def ptx_kinds() -> dict[str, Callable[[int], bytes]]:
    from tests.emulator.test_ptx_linear import KINDS

    def sized(make: Callable[[int], str]) -> Callable[[int], bytes]:
        return lambda n: make(25 * n).encode()

    return {name: sized(make) for name, make in KINDS.items()}


READERS: dict[str, Reader] = {
    "elf": Reader(
        lambda data: (containers.symbols(data), containers.cubin_parameters(data), image.cubin_kernels(data)),
        (ValueError,),
        lambda: [cubin(), cubin(40)],
        {
            "symbols": lambda n: cubin(200 * n),
            "symbols of one name": lambda n: elf(
                [(".strtab", 3, b"\0" + b"a" * 3000 * n, 0), (".symtab", 2, symbol(1) * 125 * n, 1)]
            ),
            "names that end alike": lambda n: elf(
                [(".strtab", 3, b"\0" + b"a" * 500 * n, 0), (".symtab", 2, b"".join(map(symbol, range(1, 500 * n))), 1)]
            ),
            "sections": lambda n: elf([(f".nv.info.k{number}", 1, bytes(16), 0) for number in range(100 * n)]),
        },
    ),
    "fatbin": Reader(
        lambda data: (containers.fatbin(data), containers.fatbins(data), image.kernels("fatbin", data)),
        (ValueError,),
        lambda: [
            fatbin(member(1, literals(PTX[:3000]), 0x2000, 3000), member(2, cubin()), member(8, b"x" * 40)),
            fatbin(member(1, frames()[0], 0x8000, 5000)) + fatbin(member(1, PTX[:500])),
        ],
        {
            "members": lambda n: fatbin(*[member(2, b"")] * 500 * n),
            "fatbins": lambda n: fatbin() * 1000 * n,
            "packed members": lambda n: fatbin(*[member(1, literals(b"a" * 100), 0x2000, 100)] * 50 * n),
        },
    ),
    "lz4": Reader(
        lambda data: containers._unpack_lz4(data[2:], int.from_bytes(data[:2], "little")),
        (ValueError,),
        lambda: [b"\xff\xff" + literals(PTX[:3000]), b"\xff\x0f\x1fa\x01\x00" + b"\xff" * 20],
        {
            "literals": lambda n: b"\xff\xff" + literals(b"a" * 2000 * n),
            "a long run": lambda n: struct.pack("<H", 2000 * n) + b"\x1fa\x01\0" + b"\xff" * 8 * n + b"\0",
            "short runs": lambda n: struct.pack("<H", 2000 * n) + b"\x10a\x01\0" * 400 * n,
        },
        each=600,  # a byte of a long run stands for 255
    ),
    "zstd": Reader(
        lambda data: (zstd._decompress(data, 1 << 17), zstd.decompress(data, 1 << 17)),
        (ValueError,),
        frames,
        {
            "frames": lambda n: blocks(1) * 30 * n,
            "blocks": lambda n: blocks(40 * n),
            "empty blocks": lambda n: blocks(1000 * n, size=0, body=b""),
            "runs": lambda n: blocks(n, 1, 4096, b"a"),
        },
        (4.0, 16.0),
        each=4000,  # four bytes of a run stand for 128 kB: who calls this states the size of what is unpacked
    ),
    "archive": Reader(
        lambda data: (containers.archive(data), list(module("compiler.linking")._members("library", data))),
        (ValueError,),
        lambda: [archive(host_object(), b"abc", fatbin(member(1, PTX[:300])))],
        {
            "members": lambda n: archive(*[b""] * 200 * n),
            "long names": lambda n: archive(b"a" * 100 * n, name=b"//") + archive(*[b""] * 10 * n, name=b"/0")[8:],
            "names of BSD": lambda n: archive(*[b"a" * 30] * 100 * n, name=b"#1/20"),
        },
    ),
    "host object": Reader(
        lambda data: (
            containers.device_code(data),
            list(module("emulator.entries.code.linking_entries").images_in(3, data, "a.o", 90)),
        ),
        (ValueError, module("emulator.machine.codes").Refused),
        lambda: [host_object()],
        {
            "fatbins": lambda n: elf([(".nv_fatbin", 1, fatbin(member(1, b".version")) * 100 * n, 0)], 62),
            "magic numbers": lambda n: elf([(".data", 1, containers.FATBIN * 1000 * n, 0)], 62),
        },
    ),
    "outline": Reader(
        lambda data: (outline.declarations(data.decode("latin-1")), image.kernels("ptx", data)),
        (ValueError, rawcuda.PtxError),
        lambda: [PTX, (DATA / "cli" / "kernels.ptx").read_bytes()],
        {
            "comments without an end": lambda n: b"/* " * 700 * n,
            "a string without an end": lambda n: b'"' + b'\\"' * 1000 * n,
            "linkages": lambda n: b".visible " * 500 * n,
            "initial values": lambda n: b".global .b8 " + b"a" * 1000 * n + b"={}" + b"{}" * 500 * n,
            "braces": lambda n: b"{" * 2000 * n + b"}" * 2000 * n,
            "pieces": lambda n: b";" * 3000 * n,
            "kernels": lambda n: b".entry k(.param .u64 p)\n{}\n" * 100 * n,
            "parentheses": lambda n: b".func (" * 500 * n,
            "attributes": lambda n: b".global .attribute(.managed) .u32 x;" * 100 * n + b".attribute(" * 500 * n,
            "spaces": lambda n: b".entry" + b" " * 3000 * n,
            "types": lambda n: b".global" + b" .b128" * 1000 * n + b" x;",
            "extents": lambda n: b".global .u32 x" + b"[1]" * 500 * n + b";",
            "a parameter's extents": lambda n: b".entry k(.param .u8 p" + b"[9999]" * 500 * n + b") {}",
        },
    ),
    "mangled name": Reader(
        lambda data: (mangled.parameters(data.decode("latin-1")), mangled.base_name(data.decode("latin-1"))),
        (),
        lambda: [name.encode() for name in _NAMES.split()],
        {
            "types that contain types": lambda n: _doubled(n).encode(),
            "namespaces": lambda n: b"_ZN" + b"1a" * 1000 * n + b"Ev",
            "names within": lambda n: b"_Z1f" + b"B1a" * 500 * n,
            "packs": lambda n: b"_Z1fIJ" + b"i" * 500 * n + b"EEv" + b"DpT_" * 100 * n,
            "packs in packs": lambda n: b"_Z1fI" + b"J" * 1000 * n,
            "pointers": lambda n: b"_Z1f" + b"P" * 1000 * n + b"i",
            "references": lambda n: b"_Z1fP1a" + b"S0_" * 500 * n,
            "digits": lambda n: b"_Z" + b"9" * 1000 * n,
        },
        each=4000,  # of a name of 300 bytes, whose types contain each other: no longer one takes more
    ),
    "ptx": Reader(read_ptx, (module("emulator.ptx").Rejected,), lambda: [PTX], ptx_kinds(), (20.0, 64.0), each=900),
    "format of a buffer": Reader(
        lambda data: module("protocols.pep3118")._read(data.decode("latin-1"), 8),
        (rawcuda.ProtocolError,),
        lambda: [b"T{i:a:=d:b:(2,3)h:c:xxT{3sZd}:d:}", b"@3i(4)<d 5x2w:name:", b"(2,3)T{b:x:}&i"],
        {
            "extents": lambda n: b"(" + b"999999999999999999," * 500 * n + b")B",
            "items": lambda n: b"i" * 200 * n,
            "padding": lambda n: b"x" * 3000 * n,
            "spaces": lambda n: b" " * 3000 * n + b"i",
            "digits": lambda n: b"9" * 3000 * n + b"i",
            "a name": lambda n: b"i:" + b"a" * 3000 * n + b":",
            "names without an end": lambda n: b"i:" * 1000 * n,
            "structures": lambda n: b"T{i:a:}:s:" * 50 * n,
            "structures in structures": lambda n: b"T{" * 1000 * n + b"}" * 1000 * n,
        },
        each=3000,  # of a structure: each field is an object, with its names
    ),
    "npy": Reader(
        read_npy,
        (ValueError, rawcuda.ProtocolError),
        lambda: [npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 48)],
        {
            "data": lambda n: npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({5000 * n},), }}", 20000 * n),
            "a header of brackets": lambda n: npy("[" * 300 * n, 0),
            "a header of signs": lambda n: npy("-" * 300 * n + "1", 0),
            "a header of digits": lambda n: npy(f"{{'shape': ({'9' * 300 * n},)}}", 0),
        },
        each=200,  # of a header, which has 10 kB at most
    ),
    "VENDORED.txt": Reader(
        read_manifest,
        (),
        lambda: [MANIFEST],
        {
            "files": lambda n: MANIFEST[:45] + b"".join(b"%064x  a/b%d.py\n" % (k, k) for k in range(100 * n)),
            "one long line": lambda n: MANIFEST[:45] + b"0" * 3000 * n,
            "parts of a path": lambda n: MANIFEST[:45] + b"0" * 64 + b"  " + b"a/" * 3000 * n,
        },
    ),
    "journal": Reader(
        read_journal,
        (),
        lambda: [journal_seed()],
        {"lines": lambda n: journal_seed()[:-1024] + b"cuNothing\n" * 300 * n + bytes(1024)},
    ),
    "compiler's log": Reader(
        read_log,
        (),
        lambda: [LOG],
        {
            "messages": lambda n: LOG * 10 * n,
            "digits": lambda n: b"a.cu(" + b"9" * 2000 * n + b"): error: x\n",
            "parentheses": lambda n: b"a.cu" + b"(1" * 1000 * n,
            "colons": lambda n: b"a.cu" + b":1" * 1000 * n,
        },
    ),
    "CUDA C": Reader(
        read_cuda_c,
        (),
        lambda: [(DATA / "kernel_declarations.cu").read_bytes()[:1500]],
        {
            "comments without an end": lambda n: b"/* " * 60 * n,
            "raw strings without an end": lambda n: b'R"( ' * 60 * n,
            "strings without an end": lambda n: b'\\"' * 80 * n,
            "characters without an end": lambda n: b"\\'" * 80 * n,
            "kernels without a head": lambda n: b"__global__ " * 30 * n,
            "kernels without an end": lambda n: b"__global__ k( " * 15 * n,
            "bounds without an end": lambda n: b"__global__ __launch_bounds__( " * 15 * n,
            "typedefs in typedefs": lambda n: b"typedef struct " * 15 * n + b";",
            "typedefs in braces": lambda n: b"typedef struct { " * 15 * n + b"} " * 15 * n + b";",
            "typedefs without an end": lambda n: b"typedef struct { " * 15 * n,
            "extents": lambda n: b"__global__ void k(int x" + b"[1]" * 60 * n + b");",
            "attributes": lambda n: b"__global__ void k(" + b"[[a]]" * 60 * n + b"int *x);",
        },
    ),
    "CUDA C for run": Reader(
        read_for_run,
        (ValueError,),
        lambda: [(DATA / "kernel_declarations.cu").read_bytes()[:1500]],
        {
            "kernels": lambda n: b"// " + b"__global__ " * 40 * n,
            "bounds": lambda n: b"__launch_bounds__( " * 60 * n,
        },
    ),
    "lines of PTX": Reader(
        read_lines_of_ptx,
        (),
        lambda: [PTX[:3000]],
        {
            "empty lines": lambda n: b"\n" * 200 * n,
            "directives": lambda n: b".a " * 200 * n,
            "kernels without an end": lambda n: b".entry k( " * 60 * n,
            "stores": lambda n: b"/* " + b"st " * 100 * n + b"; */ st [a], 1;",
            "places": lambda n: b"st[a " * 100 * n + b"ld.u32 a, [b];",
            "memory": lambda n: b"the start of a " * 60 * n,
        },
    ),
    "handle": Reader(read_handle, (ValueError,), lambda: [handle_seed()], {"bytes": lambda n: handle_seed() * n}),
}


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """Change a few bytes, numbers or pieces of a seed."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        if not data:
            break
        at = chance.randrange(len(data)) if chance.random() < 0.5 else chance.randrange(min(len(data), 128))
        kind = chance.randrange(7)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at : at + chance.randrange(1, 64)]
        elif kind == 3:
            width = chance.choice((2, 4, 8))
            number = chance.choice((0, 1, 2**7, 2**15, 2**31, 2**32, 2**63, -1, len(data), chance.randrange(2**16)))
            data[at : at + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")
        elif kind == 4:
            piece = data[at : at + chance.randrange(1, 200)]
            data[at:at] = piece * chance.choice((1, 1, 2, 50))
        elif kind == 5:
            other = chance.choice(seeds)
            start = chance.randrange(len(other))
            data[at:at] = other[start : start + chance.randrange(1, 300)]
        else:
            del data[at:]
    return bytes(data)


def cost(reader: Reader, data: bytes) -> tuple[float, int]:
    """Return the processor time and the most memory that a reader takes; it may refuse the data."""
    gc.collect()
    gc.disable()  # a collection takes time for each object of the process, without the GIL even for frozen ones
    try:
        begun = time.thread_time()
        quietly(reader, data)
        took = time.thread_time() - begun
    finally:
        gc.enable()
    tracemalloc.start()
    try:
        quietly(reader, data)
        return took, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def quietly(reader: Reader, data: bytes) -> bool:
    """Read; tell whether the data were taken, and pass on only what the reader must not raise."""
    try:
        reader.read(data)
    except reader.refuses as error:
        assert str(error)
        return False
    return True


def growth(name: str, sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    """Yield a line for each kind of input of a reader; time and memory must grow no faster than the size.

    From 8 to 32, what is linear grows by 4, and what is quadratic by 16. What is over within 20 ms, or 1 MB, passes.
    """
    reader = READERS[name]
    for kind, make in reader.grown.items():
        for _ in range(4):  # other processes disturb the time
            costs = [cost(reader, make(size)) for size in sizes]
            times, memory = zip(*costs)
            before = sizes.index(8)
            slow = times[-1] > max(0.02, 9 * times[before])
            if not slow:
                break
        line = f"{name}, {kind}: ms {' '.join(f'{1000 * each:.1f}' for each in times)}; "
        each = (memory[-1] - memory[before]) / (len(make(sizes[-1])) - len(make(sizes[before])))
        line += f"kB {' '.join(f'{most / 1000:.0f}' for most in memory)}; {each:.1f} bytes for each byte"
        assert not slow, line
        assert memory[-1] <= max(1 << 20, 9 * memory[before]) and each <= reader.each, line
        yield line
