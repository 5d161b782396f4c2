"""Instructions on vectors that are divided into simpler ones, so that the translation does not need to know them.

- `mov.v2` is a move of each element.
- The pragma "used_bytes_mask" says which bytes of the following load the program uses. The others may lie outside of
  every allocation, because compilers make one wide load of several narrow ones. So only the used elements are loaded,
  after a check of the alignment of the whole vector.

Source       PTX ISA, "Data Movement and Conversion Instructions: mov", "Pragma Strings: used_bytes_mask"
Read next    parser.py
"""

from __future__ import annotations

from .syntax import BITS, Address, Instruction, Rejected, Symbol, Variable, Vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .syntax import Operand

__all__ = ["divided_load", "divided_move"]


def _like(made: Instruction, modifiers: tuple[str, ...], operands: list[Operand]) -> Instruction:
    words = [made.opcode, *modifiers]
    return Instruction(made.line, made.guard, made.negated, words, operands, made.scope)


def divided_move(made: Instruction) -> list[Instruction]:
    """Return the moves of the elements of `mov.v2` or `mov.v4`.

    raises  Rejected   operands that are not vectors of this length, or arrays in them
    """
    count = int(made.modifiers[0][1:])
    items = [each.items for each in made.operands if isinstance(each, Vector) and not each.round]
    if len(made.operands) != 2 or [len(each) for each in items] != [count, count]:
        raise Rejected.at(made.line, "Argument vector size mismatch for instruction 'mov'")
    for item in items[1]:
        if isinstance(item, Symbol) and isinstance(item.target, Variable) and not item.target.scalar:
            raise Rejected.at(made.line, f"Illegal expression '{item.target.name[:80]}'")
    if any(target is source for at, target in enumerate(items[0]) for source in items[1][at + 1 :]):
        return [made]  # the translation of this instruction reads all sources before it writes
    return [_like(made, made.modifiers[1:], [target, source]) for target, source in zip(*items)]


def divided_load(made: Instruction, used: int) -> list[Instruction]:
    """Return loads of those elements of a vector that have a byte in the mask, in runs of 1, 2 or 4."""
    if len(made.operands) == 2:
        target, address = made.operands
    else:
        target, address = (None, None)
    vector = next((word for word in made.modifiers if word in ("v2", "v4", "v8")), "")
    width = BITS.get(made.modifiers[-1], 0) // 8
    if not vector or not isinstance(target, Vector) or not isinstance(address, Address) or not width:
        return [made]
    count = int(vector[1:])
    wanted = [bool(used >> at * width & (1 << width) - 1) for at in range(count)]
    if len(target.items) != count or all(wanted) or used >> count * width:
        return [made]
    plain = tuple(word for word in made.modifiers if word != vector)
    loads: list[tuple[bool, Instruction]] = []
    at = 0
    while at < count:
        run = next((size for size in (4, 2, 1) if at % size == 0 and all(wanted[at : at + size])), 0)
        if run and at + run <= count:
            items = target.items[at : at + run]
            place = Address(address.base, address.offset + at * width)
            index = made.modifiers.index(vector)
            if run == 1:
                words = plain
            else:
                words = (*made.modifiers[:index], f"v{run}", *made.modifiers[index + 1 :])
            part = _like(made, words, [items[0] if run == 1 else Vector(items), place])
            loads.append((any(each is address.base for each in items), part))
        at += max(run, 1)
    loads.sort(key=lambda each: each[0])  # the register of the address is written last
    if loads:
        first = loads[0][1]
        start = first.operands[1]
        assert isinstance(start, Address)
        first.alignment, first.inside = count * width, start.offset - address.offset
    return [part for _, part in loads]
