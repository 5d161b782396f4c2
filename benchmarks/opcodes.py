"""Every opcode of the emulator's table as kernels of its own: its forms, their rates, and the reasons of the slow ones.

A form is a row of the table with one choice of types, and with each of the row's modifiers once. Its kernel loads the
operands of each thread, and executes the instruction COPIES times; the time of the same kernel without the instruction
is subtracted. `fma.rn.f32` is measured between the runs of every form, so a ratio compares runs of the same seconds.

`python3 benchmarks/emulator.py --opcodes` prints the rates.
"""

from __future__ import annotations

import random
import statistics
import struct
import time
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

COPIES = 32  # of an instruction in a kernel
BLOCK = 256
BLOCKS = {"numpy": 128, "scalar": 1}  # 128 blocks are one chunk of the executor for arrays
SLOWEST = 20  # times slower than fma.rn.f32 as arrays: more needs a reason
FLOORS = {"numpy": 20e6, "scalar": 1e6}  # of packed opcodes, a second
HEADS = (
    ".version 8.8\n.target sm_100a\n",
    ".version 8.7\n.target sm_120a\n",
    ".version 6.0\n.target sm_60\n",
)  # the first one that takes a form
FMA = "fma.rn.f32 %f9, %f2, %f3, %f4;"

# opcodes without a rate, and why
UNMEASURED: dict[str, str] = {
    **dict.fromkeys(("ret", "exit", "trap"), "ends the thread"),
    **dict.fromkeys(
        ("applypriority", "brkpt", "createpolicy", "discard", "fence", "griddepcontrol", "membar", "nanosleep",
         "pmevent", "prefetch", "prefetchu", "setmaxnreg"),
        "nothing is executed for it",
    ),
    **dict.fromkeys(("mapa", "getctarank"), "needs a launch with clusters, which the executor for arrays does not run"),
    **dict.fromkeys(
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "tensormap"),
        "needs an object of the driver, which a module alone does not have",
    ),
}  # fmt: skip

# opcodes, or beginnings of forms, that may be slower than SLOWEST or FLOORS, and why
_WHOLE_WARP = "works on a whole warp: only the scalar executor has tensor cores"
_ORDER = "atomics of one address are applied in the order of the threads, and every address is checked"
REASONS: dict[str, str] = {
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"), _WHOLE_WARP),
    **dict.fromkeys(("cp", "mbarrier"), "the scalar executor alone follows asynchronous copies and their barriers"),
    **dict.fromkeys(("atom", "red"), _ORDER),
    **dict.fromkeys(("bar", "barrier"), "joins the threads of each block, and begins a new phase for the race checker"),
    "match": "compares each lane with the 31 others",
    "redux": "reduces over the lanes of each warp",
    "mov.b128": "only the scalar executor has values of 128 bits",
    **{f"{name}.{more}.f32x2": "the scalar executor flushes, or moves by one, each result on its own"
       for name in ("add", "sub", "mul", "fma")
       for more in ("rz", "rm", "rp", "rn.ftz" if name == "fma" else "ftz")},
    **{f"{name}.{mode}.f32": "the scalar executor finds out what each rounding drops"
       for name in ("add", "sub", "fma") for mode in ("rz", "rm", "rp")},
    **{f"fma.{mode}.f64": "exact products of float64 take some 30 operations" for mode in ("rn", "rz", "rm", "rp")},
    "isspacep": "looks up the allocation of each address",
    "fns": "searches for a bit in five steps",
    "cvt.rs": "the scalar executor computes random roundings with ratios of integers",
}  # fmt: skip

# instructions whose operands are more than registers
_TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
WARP = "-1"


def _held(type: str) -> str:
    """Return the letter of the registers that hold a type."""
    if type in ("f32", "f64"):
        return "f" if type == "f32" else "g"
    if type == "pred":
        return "p"
    return {8: "b", 16: "h", 32: "r", 64: "d"}[_bits(type)]


def _bits(type: str) -> int:
    """Return the bits of a type."""
    from rawcuda.emulator.ptx.reading.syntax import BITS

    return BITS[type]


def _accesses() -> Iterator[tuple[str, str]]:
    """Yield (opcode, instruction) for accesses to memory."""
    for type in _TYPES.split():
        letter = _held(type) if _bits(type) > 8 else "h"
        for space, address in (("global", "[%d20]"), ("shared", "[%r20]"), ("local", "[%r21]"), ("", "[%d20]")):
            dot = f".{space}" if space else ""
            yield "ld", f"ld{dot}.{type} %{letter}9, {address};"
            yield "st", f"st{dot}.{type} {address}, %{letter}2;"
        yield "ldu", f"ldu.global.{type} %{letter}9, [%d20];"
    for vector, type in (("v2", "u32"), ("v4", "f32"), ("v2", "f64"), ("v4", "u16")):
        letter = _held(type)
        items = ", ".join(f"%{letter}{10 + at}" for at in range(int(vector[1])))
        given = ", ".join(f"%{letter}2" for _ in range(int(vector[1])))
        yield "ld", f"ld.global.{vector}.{type} {{{items}}}, [%d20];"
        yield "st", f"st.global.{vector}.{type} [%d20], {{{given}}};"
    yield "ld", "ld.param.u64 %d9, [out];"
    operations = {
        "add": "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2", "inc": "u32", "dec": "u32", "min": "u32 s32 u64 s64",
        "max": "u32 s32 u64 s64", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64",
        "cas": "b16 b32 b64",
    }  # fmt: skip
    for verb, types in operations.items():
        for type in types.split():
            letter, more = _held(type), ".noftz" if "f16" in type else ""
            for space, address in (("global", "[%d20]"), ("shared", "[%r20]"), ("global", "[%d21]")):
                last = f", %{letter}3" if verb == "cas" else ""
                name = f"{space}.{verb}{more}.{type}"
                yield "atom", f"atom.{name} %{letter}9, {address}, %{letter}2{last};"
                if verb not in ("exch", "cas"):
                    yield "red", f"red.{name} {address}, %{letter}2;"
    for type, vector in (("f32", 4), ("f16", 8), ("f16x2", 4), ("bf16", 4), ("bf16x2", 2)):
        letter, more = _held(type), "" if type == "f32" else ".noftz"
        given = ", ".join(f"%{letter}2" for _ in range(vector))
        items = ", ".join(f"%{letter}{10 + at}" for at in range(vector))
        yield "red", f"red.global.add{more}.v{vector}.{type} [%d20], {{{given}}};"
        yield "atom", f"atom.global.add{more}.v{vector}.{type} {{{items}}}, [%d20], {{{given}}};"


def _warps() -> Iterator[tuple[str, str]]:
    """Yield (opcode, instruction) for operations of a warp or a block."""
    for mode in "up down bfly idx".split():
        yield "shfl", f"shfl.sync.{mode}.b32 %r9|%p9, %r2, 5, {0 if mode == 'up' else 31}, {WARP};"
    yield "shfl", f"shfl.sync.idx.b32 %r9, %r2, %r3, 31, {WARP};"
    for mode in ("all", "any", "uni"):
        yield "vote", f"vote.sync.{mode}.pred %p9, %p2, {WARP};"
    yield "vote", f"vote.sync.ballot.b32 %r9, %p2, {WARP};"
    for type, letter in (("b32", "r"), ("b64", "d")):
        yield "match", f"match.any.sync.{type} %r9, %{letter}2, {WARP};"
        yield "match", f"match.all.sync.{type} %r9|%p9, %{letter}2, {WARP};"
    for verb, types in (("add", "u32 s32"), ("min", "u32 s32 f32"), ("max", "u32 s32 f32"), ("and", "b32"),
                        ("or", "b32"), ("xor", "b32")):  # fmt: skip
        for type in types.split():
            yield "redux", f"redux.sync.{verb}.{type} %{_held(type)}9, %{_held(type)}2, {WARP};"
    yield "activemask", "activemask.b32 %r9;"
    yield "elect", f"elect.sync %r9|%p9, {WARP};"
    yield "bar", "bar.sync 0;"
    yield "bar", "bar.red.popc.u32 %r9, 0, %p2;"
    yield "bar", "bar.red.and.pred %p9, 0, %p2;"
    yield "bar", f"bar.warp.sync {WARP};"
    yield "barrier", "barrier.sync 0;"
    yield "barrier", "barrier.red.popc.u32 %r9, 0, %p2;"


def _flow() -> Iterator[tuple[str, str]]:
    """Yield (opcode, instruction) for branches, calls and moves of several registers; # is the number of the copy."""
    yield "bra", "bra L#; L#:"
    yield "bra", "@%p2 bra L#; L#:"
    yield "brx", "T#: .branchtargets L#; brx.idx %r22, T#; L#:"
    yield "call", "call (%r9), callee, (%r2);"
    yield "mov", "mov.b64 {%r9, %r10}, %d2;"
    yield "mov", "mov.b64 %d9, {%r2, %r3};"
    yield "mov", "mov.b32 {%h9, %h10}, %r2;"
    yield "mov", "mov.b32 %r9, {%h2, %h3};"
    yield "mov", "mov.v2.f32 {%f9, %f10}, {%f2, %f3};"
    yield "mov", "mov.b128 %q9, {%d2, %d3};"
    yield "mov", "mov.b128 {%d9, %d10}, %q2;"
    for type in "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 pred".split():
        yield "mov", f"mov.{type} %{_held(type)}9, %{_held(type)}2;"
    yield "mov", "mov.u32 %r9, %tid.x;"
    yield "isspacep", "isspacep.global %p9, %d20;"
    for space in ("global", "shared"):
        yield "cvta", f"cvta.{space}.u64 %d9, %d20;"
        yield "cvta", f"cvta.to.{space}.u64 %d9, %d20;"


def _copies() -> Iterator[tuple[str, str]]:
    """Yield (opcode, instruction) for tensor cores and asynchronous copies."""
    yield "mma", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f9, %f10, %f11, %f12}, {%r2, %r3}, {%r4}, "\
        "{%f2, %f3, %f4, %f5};"  # fmt: skip
    yield "mma", "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r9, %r10, %r11, %r12}, {%r2, %r3}, {%r4}, "\
        "{%r2, %r3, %r4, %r5};"  # fmt: skip
    yield "mma", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g9, %g10}, {%g2}, {%g3}, {%g4, %g5};"
    yield "wmma", "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r9, %r10, %r11, %r12}, [%r23];"
    yield "ldmatrix", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r23];"
    yield "stmatrix", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r23], {%r2};"
    yield "movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r2;"
    yield "cp", "cp.async.ca.shared.global [%r20], [%d20], 8; cp.async.wait_all;"
    yield "mbarrier", "mbarrier.pending_count.b64 %r9, %d2;"


MADE: dict[str, list[str]] = {}
for _opcode, _text in (*_accesses(), *_warps(), *_flow(), *_copies()):
    MADE.setdefault(_opcode, []).append(_text)


class Form(NamedTuple):
    """One instruction, the types of the operands 2 to 5 that it reads, and the first lines of its module."""

    opcode: str
    text: str
    types: tuple[str, ...]
    head: str = HEADS[0]

    @property
    def name(self) -> str:
        """Return the opcode with its modifiers."""
        words = self.text.replace("T#: .branchtargets L#; ", "").split(" ")
        return words[self.text[0] == "@"].rstrip(";")

    @property
    def reason(self) -> str:
        """Return why this form may be slow as arrays, or ""."""
        found = [key for key in REASONS if f"{self.name}.".startswith(f"{key}.")]
        return REASONS[max(found, key=len)] if found else ""

    @property
    def packed(self) -> bool:
        """Tell whether a register holds several numbers, or a half."""
        parts = self.name.split(".")
        return any("x2" in word or "x4" in word or word in ("f16", "bf16") for word in parts) or (
            parts[0][0] == "v" and parts[0] != "vote" or parts[0] in ("dp4a", "dp2a", "prmt")
        )


def opcodes() -> list[str]:
    """Return all opcodes of the emulator's table."""
    from rawcuda.emulator.ptx.translating.table.opcodes import TABLE

    return TABLE.opcodes()


def forms(opcode: str) -> Iterator[Form]:
    """Yield the forms of an opcode: those that are written above, or those of its rows."""
    from rawcuda.emulator.ptx.translating.table.opcodes import TABLE

    if opcode in UNMEASURED:
        return
    if opcode in MADE:
        made: Iterator[Form | None] = (_legal(Form(opcode, text, _read(text))) for text in MADE[opcode])
    else:
        made = (form for row in TABLE._rows[opcode] for form in _of_row(opcode, row))
    seen: set[str] = set()
    for form in made:
        if form is not None and form.text not in seen:
            seen.add(form.text)
            yield form


def _read(text: str) -> tuple[str, ...]:
    """Return the types of the operands of a written instruction, from the letters of their registers."""
    letters = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "f": "f32", "g": "f64"}
    if "f16" in text:
        half = "bf16" if "bf16" in text else "f16"
        letters.update(h=half, r=f"{half}x2")
    return tuple(
        next((type for letter, type in letters.items() if f"%{letter}{number}" in text), "") for number in (2, 3, 4, 5)
    )


def _products(groups: list[list[str]]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for group in groups:
        found = [[*one, each] for one in found for each in group]
    return found


def _of_row(opcode: str, row: Any) -> Iterator[Form]:
    """Yield a form of a row for all types, and one for each modifier."""
    from rawcuda.emulator.ptx.translating.table.forms import Form as Parsed

    parsed = Parsed(row)
    plain = [sorted(words, key=lambda word: (word != "rn", word))[:required] for _, words, required in parsed.choices]
    variants = [plain]
    for at, (_, words, _) in enumerate(parsed.choices):
        ordered = sorted(words, key=lambda word: (word not in ("rn", "rni"), word))
        variants += [[*plain[:at], [word], *plain[at + 1 :]] for word in ordered]
    modifiers = [[word for words in variant for word in words] for variant in variants]
    types = _products([sorted(group) for group in parsed.types])
    orders = [[[*chosen, *each] for chosen in modifiers] for each in types]
    orders += [[[*chosen, *each] for each in types] for chosen in modifiers]
    for order in orders:
        tried = (_legal(form) for words in order for form in _of_words(opcode, parsed, words))
        found = next((form for form in tried if form is not None), None)
        if found is not None:
            yield found


def _of_words(opcode: str, parsed: Any, words: list[str]) -> Iterator[Form]:
    """Yield an instruction without and with its optional operands."""
    from rawcuda.emulator.ptx.reading.syntax import BITS

    shape = parsed.fit(tuple(words))
    if isinstance(shape, str):
        return
    for optional in (False, True)[: 1 + any(slot.optional for slot in shape.slots)]:
        operands: list[str] = []
        types: list[str] = []
        for slot, type in zip(shape.slots, shape.wanted):
            if slot.optional and not optional:
                continue
            if type == "any":
                type = "u32" if opcode[0] == "v" else shape.type
            if type == "constant":
                operands.append("0xe8")
            elif type == "pair":
                operands.append("%p9" if opcode == "setp" else "%r9|%p9" if opcode == "lop3" else "%r9")
            elif BITS.get(type, 65) > 64:
                return
            elif slot.written:
                operands.append(f"%{_held(type)}9")
            else:
                added = [f"%{_held(type)}{2 + len(types) + at}" for at in range(4 if slot.vector else 1)]
                operands.append(f"{{{', '.join(added)}}}" if slot.vector else added[0])
                types += [type] * len(added)
        yield Form(opcode, f"{'.'.join([opcode, *words])} {', '.join(operands)};", tuple(types))


_judged: dict[str, Form | None] = {}


def _legal(form: Form) -> Form | None:
    """Return a form with the first head that accepts it, or None."""
    from rawcuda.emulator import ptx
    from rawcuda.emulator.machine import space

    if form.text not in _judged:
        _judged[form.text] = None
        for head in HEADS:
            try:
                load(form._replace(head=head), space.Space(), 1, 1).unload()
            except ptx.Rejected:
                continue
            _judged[form.text] = form._replace(head=head)
            break
    return _judged[form.text]


# -- kernels

_DECLARED = "".join(
    f".reg .{type} %{letter}<40>; "
    for type, letter in (("pred", "p"), ("b8", "b"), ("b16", "h"), ("b32", "r"), ("f32", "f"), ("b64", "d"),
                         ("f64", "g"), ("b128", "q"))
)  # fmt: skip
_START = """
    ld.param.u64 %d30, [out]; ld.param.u64 %d31, [in]; mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x;
    mad.lo.u32 %r31, %r31, 256, %r30; mul.wide.u32 %d32, %r31, 64; add.u64 %d20, %d30, %d32;
    and.b32 %r32, %r31, 7; mul.wide.u32 %d32, %r32, 64; add.u64 %d21, %d30, %d32;
    mul.wide.u32 %d32, %r31, 8; add.u64 %d31, %d31, %d32; mov.u32 %r23, s; shl.b32 %r33, %r30, 4;
    add.u32 %r20, %r23, %r33; mov.u32 %r21, l; mov.u32 %r22, 0; st.local.v2.b64 [%r21], {%d30, %d30};
    st.shared.v2.b64 [%r20], {%d30, %d30}; mov.b128 %q2, {%d30, %d30};
"""
_FUNCTION = ".func (.reg .b32 %o) callee (.reg .b32 %i) { add.u32 %o, %i, 1; ret; }\n"


def module(form: Form, blocks: int, copies: int = COPIES) -> str:
    """Return a module whose kernel loads operands and executes an instruction several times.

    %d20 is the address of 64 bytes of the thread, %d21 of 64 bytes that several threads share; %r20 and %r21 are
    addresses in shared and local memory, and %r23 is that of all shared memory.
    """
    lines = []
    for at, type in enumerate(form.types):
        if type:
            letter, address = _held(type), f"[%d31+{8 * at * BLOCK * blocks}]"
            lines.append(
                f"ld.global.b32 %r34, {address}; setp.gt.s32 %p{2 + at}, %r34, 0;" if letter == "p"
                else f"ld.global.{'f' if letter in 'fg' else 'b'}{_bits(type)} %{letter}{2 + at}, {address};"
            )  # fmt: skip
    lines += [form.text.replace("#", str(copy)) for copy in range(copies)]
    start = _START if "%q" in form.text else _START.replace("mov.b128 %q2, {%d30, %d30};", "")
    start += "    bar.sync 0;\n" if "%r23" in form.text else ""
    return f"""{form.head}.address_size 64
{_FUNCTION}.visible .entry k(.param .u64 out, .param .u64 in)
{{
    {_DECLARED}
    .shared .align 16 .b8 s[4096]; .local .align 16 .b8 l[64];
{start}
    {" ".join(lines)}
    ret;
}}
"""


def load(form: Form, memory: Any, blocks: int, copies: int) -> Any:
    """Load the module of a form, for a device of its own architecture."""
    from rawcuda.emulator import ptx

    number = int(form.head.split("sm_")[1].strip().rstrip("a"))
    return ptx.load(module(form, blocks, copies).encode(), memory, architecture=(number // 10, number % 10))


def values(type: str) -> bytes:
    """Return 1024 numbers of a type, each in 8 bytes: ordinary ones for floats, and random bits for all others."""
    pick = random.Random(type)
    made = []
    for _ in range(1024):
        if type == "f64":
            made.append(struct.pack("<d", pick.gauss(0, 1)))
        elif "f16" in type and type[0] == "b":
            made.append(b"".join(struct.pack("<f", pick.gauss(0, 1))[2:] for _ in range(4)))
        elif "f16" in type:
            made.append(struct.pack("<4e", *(pick.gauss(0, 1) for _ in range(4))))
        elif type == "f32":
            made.append(struct.pack("<2f", pick.gauss(0, 1), pick.gauss(0, 1)))
        else:
            made.append(pick.getrandbits(64).to_bytes(8, "little"))
    return b"".join(made)


class Prepared(NamedTuple):
    """A kernel that can run, with the usual number of blocks or with another, and why it does not run as arrays."""

    run: Callable[..., None]
    reason: Callable[[], str]
    unload: Callable[[], None]


def prepare(form: Form, executor: str, copies: int = COPIES) -> Prepared:
    """Load the kernel of a form for an executor."""
    from rawcuda.emulator.machine import space

    blocks = BLOCKS[executor]
    memory = space.Space(watch=True)
    memory.executor = executor
    code = load(form, memory, blocks, copies)
    entry = code.entries["k"]
    given = b"".join(
        (values(type or "b64") * (BLOCK * blocks // 1024 + 1))[: 8 * BLOCK * blocks] for type in form.types
    )
    addresses = []
    for content in (bytes(64 * BLOCK * blocks), given or bytes(8)):
        made = memory.allocate(len(content))
        made.data[:] = content
        made.wrote(0, len(content))
        addresses.append(made.base)
    packed = struct.pack("<2Q", *addresses)

    def reason() -> str:
        arrays = entry._arrays
        return "" if arrays is None else arrays.reason or arrays.last

    def run(count: int = blocks) -> None:
        entry.run((count, 1, 1), (BLOCK, 1, 1), 0, packed)

    return Prepared(run, reason, code.unload)


def seconds(run: Callable[[], None]) -> float:
    """Return the processor time of one run."""
    started = time.process_time()
    run()
    return time.process_time() - started


class Rate(NamedTuple):
    """The rate of a form, and how many times slower it is than fma.rn.f32; as arrays and thread by thread."""

    form: Form
    rates: dict[str, float]
    slower: dict[str, float]
    scalar_only: str


class Meter:
    """A stopwatch for forms: it runs each in turn with fma.rn.f32, and with the same kernels without instructions."""

    def __init__(self, repeat: int) -> None:
        self.repeat = repeat
        fma = Form("fma", FMA, ("f32", "f32", "f32"))
        self.fma = {executor: prepare(fma, executor).run for executor in BLOCKS}
        self.empty = {executor: prepare(fma, executor, 0).run for executor in BLOCKS}

    def measure(self, form: Form, executors: tuple[str, ...] = ("numpy", "scalar")) -> Rate:
        """Return the rate of a form: medians of differences of runs that follow each other."""
        rates, slower, scalar_only = {}, {}, ""
        for executor in executors:
            made = prepare(form, executor)
            made.run(1)  # translates
            scalar_only = made.reason() if executor == "numpy" else scalar_only
            if executor != "numpy" or not scalar_only:
                made.run()  # fills tables
                runs = (made.run, self.empty[executor], self.fma[executor])
                times = [[seconds(run) for run in runs] for _ in range(self.repeat)]
                own = _median([form - empty for form, empty, _ in times], times)
                other = _median([fma - empty for _, empty, fma in times], times)
                rates[executor] = BLOCK * BLOCKS[executor] * COPIES / own
                slower[executor] = own / other
            made.unload()
        return Rate(form, rates, slower, scalar_only)


def _median(differences: list[float], times: list[list[float]]) -> float:
    """Return the median; at least a hundredth of a run, since less cannot be measured."""
    return max(statistics.median(differences), statistics.median(row[1] for row in times) / 100)


def report(chosen: list[str], repeat: int, every: bool) -> int:
    """Print the slowest form of each opcode, or every form, the slowest first; return 1 if one lacks a reason."""
    meter = Meter(repeat)
    found: list[tuple[float, int, Rate]] = []
    for opcode in chosen or opcodes():
        rates = [meter.measure(form) for form in forms(opcode)]
        rates.sort(key=lambda rate: -rate.slower.get("numpy", 1e9))
        found += [(rate.slower.get("numpy", 1e9), len(rates), rate) for rate in (rates if every else rates[:1])]
    found.sort(key=lambda row: -row[0])
    print(f"{'form':44}{'forms':>6}{'arrays M/s':>12}{'slower':>8}{'scalar M/s':>12}{'slower':>8}  reason")
    missing = 0
    for times, count, rate in found:
        reason = rate.form.reason
        wanting = times > SLOWEST and not reason or _too_slow(rate) and not reason
        missing += wanting
        cells = "".join(
            f"{rate.rates[executor] / 1e6:>12.2f}{rate.slower[executor]:>8.1f}" if executor in rate.rates
            else f"{'-':>12}{'-':>8}"
            for executor in ("numpy", "scalar")
        )  # fmt: skip
        words = reason if times > SLOWEST or _too_slow(rate) else ""
        print(f"{rate.form.name:44}{count:>6}{cells}  {'NO REASON' if wanting else words} {rate.scalar_only}".rstrip())
    for opcode in chosen or opcodes():
        if opcode in UNMEASURED:
            print(f"{opcode:44}{'-':>6}{'-':>12}{'-':>8}{'-':>12}{'-':>8}  {UNMEASURED[opcode]}")
    return int(missing > 0)


def _too_slow(rate: Rate) -> bool:
    return rate.form.packed and any(each < FLOORS[executor] for executor, each in rate.rates.items())
