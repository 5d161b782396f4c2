"""The analysis of a function's registers before the translation.

- Which registers hold floats. A register is a Python float if floating-point arithmetic uses it, and otherwise its bits
  as an unsigned integer. The declared type does not decide (nvcc for sm_100 and Triton keep floats in `.b32`
  registers), so registers that moves connect are decided together. A Python float cannot have the bits of a
  signalling NaN, which an integer may have: so what is loaded keeps its bits if integer arithmetic uses it, too, or if
  it is stored and no arithmetic writes it.
- Which registers may be read before they are written. That is legal PTX with an undefined result; they start as poison.
- Which registers are the same for all threads of a block. They are computed once for each block.

Read next    translate.py
"""

from __future__ import annotations

from collections import deque

from ..reading.operands import SPECIAL
from ..reading.syntax import (
    BITS,
    Address,
    Float,
    Function,
    Instruction,
    Int,
    Not,
    Pair,
    Part,
    Register,
    Special,
    Symbol,
    Texel,
    Variable,
    Vector,
)  # fmt: skip
from .flow import reverse_postorder
from .table.forms import coordinate_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..reading.syntax import Operand
    from .flow import Block
    from .table.forms import Shape

    Judged = tuple[Instruction, Shape]

__all__ = [
    "addressed", "copied", "defined_late", "floating", "ignored", "local_pointers", "never_written",
    "reads_and_writes", "uniform", "values_that_matter", "with_branches",
]  # fmt: skip

# opcodes that move bits of any meaning
_CARRIERS = frozenset(("mov", "selp", "ld", "ldu", "st", "shfl", "slct"))
_MOVES = frozenset(("mov", "selp", "shfl", "slct"))  # of these, from register to register
_FLOATS = ("f32", "f64")

# how registers are used, in `floating()`: any of these together
_FLOAT_READ, _FLOAT_WRITTEN, _INTEGER_READ, _INTEGER_WRITTEN, _LOADED, _STORED = (1 << n for n in range(6))


def _registers(operand: Operand) -> list[Register]:
    if isinstance(operand, Register):
        return [operand]
    if isinstance(operand, Address):
        if isinstance(operand.base, Register):
            return [operand.base]
        return []
    if isinstance(operand, Texel):
        return [item for item in (operand.base, *operand.coordinates.items) if isinstance(item, Register)]
    if isinstance(operand, (Not, Part)):
        return [operand.of]
    if isinstance(operand, Vector):
        return [item for item in operand.items if isinstance(item, Register)]
    if isinstance(operand, Pair) and isinstance(operand.first, Vector):
        return [*_registers(operand.first), *_registers(operand.second)]
    if isinstance(operand, Pair):
        return [item for item in (operand.first, operand.second) if isinstance(item, Register)]
    return []


def reads_and_writes(instruction: Instruction, shape: Shape) -> tuple[list[Register], list[Register]]:
    """Return the registers that an instruction reads, and those that it writes."""
    if instruction.used is None:
        instruction.used = _reads_and_writes(instruction, shape)
    return instruction.used


def _reads_and_writes(instruction: Instruction, shape: Shape) -> tuple[list[Register], list[Register]]:
    reads: list[Register] = []
    writes: list[Register] = []
    if instruction.opcode == "call":
        operands = instruction.operands
        if isinstance(operands[0], Vector) and operands[0].round:
            writes += _registers(operands[0])
            operands = operands[1:]
        for operand in operands:
            reads += _registers(operand)
    else:
        for slot, operand in zip(shape.slots, instruction.operands):
            if slot.written:
                writes += _registers(operand)
            else:
                reads += _registers(operand)
    if instruction.guard is not None:
        reads.append(instruction.guard)
    return reads, writes


def floating(function: Function, judged: list[Judged]) -> list[bool]:
    """Return for each register, by index, whether it is a Python float."""
    count = len(function.registers)
    above, uses = list(range(count)), [0] * count

    def root(index: int) -> int:
        while above[index] != index:
            above[index] = above[above[index]]
            index = above[index]
        return index

    for register in function.parameter_registers:
        uses[register.index] |= _LOADED
    for register in function.return_registers:
        uses[register.index] |= _STORED
    for instruction, shape in judged:
        _note_uses(uses, instruction, shape)
        moved = _moved(instruction, shape)
        for register in moved[1:]:
            if register.type == moved[0].type:
                above[root(register.index)] = root(moved[0].index)
            else:  # (a value may be held in two ways)
                uses[register.index] |= _STORED
                uses[moved[0].index] |= _LOADED
    together = [0] * count
    for index in range(count):
        together[root(index)] |= uses[index]
    return [_is_float(function.registers[index].type, together[root(index)]) for index in range(count)]


def _is_float(type: str, uses: int) -> bool:
    """Return whether registers of this type that have these uses, all together, are Python floats."""
    fits = BITS[type] in (32, 64) and type not in ("f16x2", "bf16x2") and uses & (_FLOAT_READ | _FLOAT_WRITTEN)
    if not fits or uses & _INTEGER_WRITTEN:
        return False
    if uses & _INTEGER_READ:
        return bool(uses & _FLOAT_WRITTEN) and not (BITS[type] == 32 and uses & _LOADED)
    return bool(uses & _FLOAT_WRITTEN) or not (BITS[type] == 32 and uses & _LOADED and uses & _STORED)


def _is_carried(opcode: str, name: str, written: bool) -> bool:
    """Return whether an instruction moves the bits of an operand, whatever they mean."""
    if opcode == "shfl" and name == "b" or opcode == "selp" and name == "c":
        return False
    return opcode in _CARRIERS and name in "dab" or opcode == "atom" and written


def _moved(instruction: Instruction, shape: Shape) -> list[Register]:
    """Return the registers whose values are one another's after an instruction."""
    moved: list[Register] = []
    for slot, operand in zip(shape.slots, instruction.operands):
        if not isinstance(operand, (Address, Texel, Vector)) and _is_carried(
            instruction.opcode, slot.name, slot.written
        ):
            moved += _registers(operand)[:1]
    return moved


def _note_uses(uses: list[int], instruction: Instruction, shape: Shape) -> None:
    """Add to uses, by index, how an instruction uses its registers."""

    def note(operand: Operand, use: int) -> None:
        for register in _registers(operand):
            uses[register.index] |= use

    opcode = instruction.opcode
    if opcode == "call":
        reads, writes = reads_and_writes(instruction, shape)
        for register in reads:
            note(register, _STORED)
        for register in writes:
            note(register, _LOADED)
        return
    for slot, type, operand in zip(shape.slots, shape.wanted, instruction.operands):
        if isinstance(operand, Address):
            note(operand, _INTEGER_READ)
        elif isinstance(operand, Texel):
            if isinstance(operand.base, Register):
                note(operand.base, _INTEGER_READ)
            for item, kind in zip(operand.coordinates.items, coordinate_types(shape, operand)):
                note(item, _FLOAT_READ if kind in _FLOATS else _INTEGER_READ)
        elif _is_carried(opcode, slot.name, slot.written):
            if opcode not in _MOVES or isinstance(operand, Vector):
                note(operand, _LOADED if slot.written else _STORED)
            elif isinstance(operand, (Special, Symbol)):
                note(instruction.operands[0], _INTEGER_WRITTEN)
        elif type in _FLOATS:
            note(operand, _FLOAT_WRITTEN if slot.written else _FLOAT_READ)
        else:
            note(operand, _INTEGER_WRITTEN if slot.written else _INTEGER_READ)


def copied(function: Function, judged: list[Judged], floats: list[bool]) -> set[int]:
    """Return, by index, the registers of Python floats that may hold a copied float32: its NaN keeps its bits.

    Every NaN of arithmetic is 0x7fffffff. Arithmetic that writes one of these registers stores a NaN with these bits. A
    register that only arithmetic writes may hold any NaN, which becomes 0x7fffffff when its bits are used.
    """
    found = {each.index for each in function.parameter_registers}
    moves: dict[int, list[int]] = {}  # the registers that a register is copied to
    for instruction, shape in judged:
        opcode = instruction.opcode
        writes = [each for each in reads_and_writes(instruction, shape)[1] if floats[each.index]]
        if opcode in ("mov", "selp", "slct") and writes and not isinstance(instruction.operands[0], Vector):
            sources = instruction.operands[1 : 2 if opcode == "mov" else 3]
            if any(
                not floats[each.index] if isinstance(each, Register) else _is_nan(each, writes[0]) for each in sources
            ):
                found.add(writes[0].index)
            for each in sources:
                if isinstance(each, Register):
                    moves.setdefault(each.index, []).append(writes[0].index)
        elif opcode in _CARRIERS or opcode in ("atom", "call"):
            found.update(each.index for each in writes)
        else:
            for slot, type, operand in zip(shape.slots, shape.wanted, instruction.operands):
                if slot.written and type not in _FLOATS:
                    found.update(each.index for each in _registers(operand))
    work = list(found)
    while work:
        for made in moves.pop(work.pop(), ()):
            if made not in found:
                found.add(made)
                work.append(made)
    return {index for index in found if floats[index] and BITS[function.registers[index].type] == 32}


def _is_nan(constant: Operand, target: Register) -> bool:
    if isinstance(constant, Float):
        return constant.value != constant.value
    return not isinstance(constant, Int) or constant.value & 0x7FFFFFFF > 0x7F800000 and BITS[target.type] == 32


def defined_late(function: Function, blocks: list[Block], shapes: dict[int, Shape]) -> list[Register]:
    """Return the registers that some path reads before it writes them."""
    everything = (1 << len(function.registers)) - 1
    given = 0
    for register in function.parameter_registers:
        given |= 1 << register.index
    gains: list[int] = []
    wanting: list[list[tuple[int, int]]] = []  # by block: (written before in it, read) of each read
    for block in blocks:
        gained = 0
        wants: list[tuple[int, int]] = []
        instructions = block.instructions
        if block.branch is not None and block.kind != "end" and block.branch.opcode in ("bra", "brx"):
            instructions = [*instructions, block.branch]
        for instruction in instructions:
            reads, writes = reads_and_writes(instruction, shapes[id(instruction)])
            read = 0
            for register in reads:
                read |= 1 << register.index
            if read & ~gained:
                wants.append((gained, read))
            if instruction.guard is None:
                for register in writes:
                    gained |= 1 << register.index
        gains.append(gained)
        wanting.append(wants)
    entering = [everything] * len(blocks)
    entering[0] = given
    work = deque(reverse_postorder(blocks))  # (passes over all blocks would be as many as loops with two entries)
    while work:
        number = work.popleft()
        leaving = entering[number] | gains[number]
        for target in blocks[number].targets:
            if target >= 0 and entering[target] & ~leaving:
                entering[target] &= leaving
                work.append(target)
    missing = 0
    for number in range(len(blocks)):
        for gained, read in wanting[number]:
            missing |= read & ~gained & ~entering[number]
    for register in function.return_registers:
        missing |= 1 << register.index
    return [register for register in function.registers if missing >> register.index & 1]


def addressed(function: Function, judged: list[Judged]) -> list[Variable]:
    """Return the parameters and results of a device function whose address is taken: they have a place on the stack."""
    if function.entry:
        return []
    own = [*function.parameters, *function.returns]
    taken = {
        id(operand.target)
        for instruction, shape in judged
        if shape.result != "!call"
        for operand in instruction.operands
        if isinstance(operand, Symbol)
    }
    return [each for each in own if id(each) in taken and not each.scalar]


def local_pointers(function: Function, judged: list[Judged]) -> set[int]:
    """Return, by index, the registers that probably hold generic addresses of local memory.

    This is a guess, for speed: unoptimized code accesses its variables in this way. Such an access tries the frame of
    the function first.
    """
    found: set[int] = set()
    for _ in range(2):
        for instruction, _shape in judged:
            if instruction.operands:
                target = instruction.operands[0]
            else:
                target = None
            if not isinstance(target, Register):
                continue
            made = instruction.opcode == "cvta" and instruction.modifiers[0] == "local"
            moved = instruction.opcode in ("add", "mov") and any(
                isinstance(source, Register) and source.index in found for source in instruction.operands[1:]
            )
            if made or moved:
                found.add(target.index)
    return found


_UNIFORM_SPECIALS = frozenset(("!mov", "!select", "!slct", "!setp", "!set", "!cvta", "!cvt", "!fma", "!lop3", "!shift"))


def uniform(function: Function, judged: list[Judged], late: list[Register]) -> set[int]:
    """Return, by id, the instructions of a kernel whose result is the same for all threads of a block.

    They are pure and write a register that is written only once, so it is safe to compute them early.
    """
    written = [0] * len(function.registers)
    for instruction, shape in judged:
        for register in reads_and_writes(instruction, shape)[1]:
            written[register.index] += 1
    same = [False] * len(function.registers)
    found: set[int] = set()
    barred = {register.index for register in late}
    for instruction, shape in judged:
        if instruction.guard is not None or not _pure(instruction, shape):
            continue
        reads, writes = reads_and_writes(instruction, shape)
        if all(same[r.index] for r in reads) and all(written[w.index] == 1 and w.index not in barred for w in writes):
            found.add(id(instruction))
            for register in writes:
                same[register.index] = True
    return found


def _pure(instruction: Instruction, shape: Shape) -> bool:
    result = shape.result
    if result == "!ld":
        return "param" in instruction.modifiers and _is_parameter(instruction, BITS[shape.type] // 8)
    if result[0] == "!" and result not in _UNIFORM_SPECIALS:
        return False
    for operand in instruction.operands:
        if isinstance(operand, Special) and not SPECIAL[operand.name][2]:
            return False
        if isinstance(operand, Symbol) and getattr(operand.target, "space", "") in ("local", "param"):
            return False
        if not isinstance(operand, (Register, Int, Float, Special, Symbol, Not, Vector, Pair)):
            return False
    return True


def _is_parameter(instruction: Instruction, width: int) -> bool:
    """Tell whether a load is of one parameter of the kernel, so that it cannot fail."""
    target, address = instruction.operands[:2]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return False
    base, start = address.base.target, address.base.offset + address.offset
    if not isinstance(base, Variable) or base.linkage != "kernel parameter":
        return False
    if isinstance(target, Vector):
        count = len(target.items)
    else:
        count = 1
    return 0 <= start <= base.size - width * count and not (base.offset + start) % width


def with_branches(blocks: list[Block], shapes: dict[int, Shape]) -> list[Judged]:
    """Return all instructions of a function, including those that end its blocks."""
    found = []
    for block in blocks:
        if block.branch is not None and block.branch not in block.instructions[-1:]:
            ends = [block.branch]
        else:
            ends = []
        found += [(each, shapes[id(each)]) for each in (*block.instructions, *ends)]
    return found


def never_written(judged: list[Judged], late: list[Register], matter: set[int]) -> dict[Register, int]:
    """Return the registers whose value matters and that no instruction writes, with the line of their first use."""
    uses: dict[int, int] = {}
    for instruction, shape in judged if any(each.index in matter for each in late) else ():
        reads, writes = reads_and_writes(instruction, shape)
        for register in reads:
            uses.setdefault(register.index, instruction.line)
        uses.update((register.index, 0) for register in writes)
    return {each: uses[each.index] for each in late if each.index in matter and uses.get(each.index)}


def values_that_matter(judged: list[Judged]) -> set[int]:
    """Return the registers that are used for more than a store; the others may be uninitialized."""
    found: set[int] = set()
    moves: dict[int, list[int]] = {}  # the registers from which a register is made
    for instruction, shape in judged:
        reads, writes = reads_and_writes(instruction, shape)
        passed: Iterable[Operand] = ()
        if instruction.opcode in _MOVERS:
            for made in writes:
                moves.setdefault(made.index, []).extend(each.index for each in reads)
            passed = reads
        elif instruction.opcode in ("selp", "slct"):  # the operand that is not selected may be uninitialized
            passed = instruction.operands[1:3]
            for made in writes:
                moves.setdefault(made.index, []).extend(each.index for each in passed if isinstance(each, Register))
        elif instruction.opcode == "prmt":
            passed = ignored(instruction)
        elif instruction.opcode == "st" and "param" not in shape.chosen.get("space", ""):
            value = instruction.operands[1]
            if isinstance(value, Vector):
                passed = value.items
            else:
                passed = [value]
        moved = {each.index for each in passed if isinstance(each, Register)}
        found.update(each.index for each in reads if each.index not in moved)
        if instruction.operands:
            base = getattr(instruction.operands[0], "base", None)
        else:
            base = None
        found.update(each.index for each in (instruction.guard, base) if isinstance(each, Register))
    work = list(found)
    while work:
        for used in moves.pop(work.pop(), ()):
            if used not in found:
                found.add(used)
                work.append(used)
    return found


def ignored(instruction: Instruction) -> list[Operand]:
    """Return the operands of prmt from which a constant selector takes no byte; compilers leave them undefined."""
    a, b, selector = instruction.operands[1:4]
    if not isinstance(selector, Int) or len(instruction.modifiers) > 1:
        return []
    picked = {selector.value >> 4 * place & 7 for place in range(4)}
    return [*([a] if min(picked) > 3 else []), *([b] if max(picked) < 4 else [])]


# opcodes that only move bits; setting a bit field reads and writes a whole word, which may be uninitialized
_MOVERS = frozenset(("mov", "and", "or", "not", "lop3", "bfi"))
