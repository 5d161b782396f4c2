"""The format of the opcode table, and the check of instructions against it.

The opcode table has rows of five or six columns, one row for each form of an opcode:

    ("add .rnd? .ftz? .sat?", "f32", "d a b", "round", "{a} + {b}")
      modifiers                types  operands result   value

- modifiers: `.ftz?` is optional, `.NaN` is required, `.rnd` stands for the set of that name in SETS, `.a|b` for one of
  the two, `.cop:ca|cg` also for one of the two, and stores it under the name `cop`. As in ptxas, those that belong to
  the name of the instruction, as in `mul.lo`, come first and in this order; the order of the others does not matter.
  (The names of copies have their state spaces, which ptxas also takes after other words, in the same order.)
- `@8.0` and `@sm_90` are the PTX version and the architecture that introduced the form, or the modifier before them
  (`.cta?@7.8`), if they are part of its word.
- types: the accepted types; a second group after `/` has the types of the sources (`cvt`, `set`).
- operands: a name, and after a colon the type if it is not that of the instruction. `d` and names that begin with `d`
  are written. `wide` is twice the instruction's width, `T2` the second type. `?` marks an optional operand. `mem` is an
  address, `texel` a texture or surface with coordinates. After the type, `^` permits a wider register (`ld`, `st`,
  `cvt`), `!` excludes integers, `+` a vector of operands of this type, `_` permits discarding the result, and
  `>23<256` requires a constant to be above 23 and below 256.
- result: how the value is stored: "wrap" truncates it to its width, "exact" is in range, "round" is a float32 or
  float64 that needs rounding, "float" one that needs none, "pred" a truth value, "move" bits of any type. "!name"
  passes the whole instruction to the method of that name.
- value: a Python expression, in which `{a}` is the operand as an unsigned integer or float, and `{sa}` as a signed
  integer.
- arrays: the same expression for NumPy arrays, if NumPy cannot evaluate the value itself
  (ptx/vectors/writing/write_values.py).

The rows also validate instructions: one that matches no row, or whose operands do not match, is rejected as by ptxas.

Source       PTX ISA, "Instruction Set"; "Operand Type Checking"
Read next    opcodes.py, the table
"""

from __future__ import annotations

import re

from ...reading.syntax import (
    BITS,
    Address,
    Float,
    Instruction,
    Int,
    Name,
    Not,
    Pair,
    Register,
    Rejected,
    Sink,
    Special,
    Sum,
    Symbol,
    Texel,
    Vector,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...reading.syntax import Operand

    Row = tuple[str, ...]
    Since = tuple[tuple[int, int], tuple[int, int]]

__all__ = ["Form", "Shape", "Slot", "Table", "check", "check_read", "check_written", "coordinate_types", "fits"]

SETS = {
    "rnd": "rn rz rm rp",
    "irnd": "rni rzi rmi rpi",
    "anyrnd": "rn rz rm rp rni rzi rmi rpi",
    "cmp": "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan",
    "bool": "and or xor",
    "space": "global shared local const param shared::cta shared::cluster param::entry param::func",
    "window": "global shared shared::cta shared::cluster local const",
    "parameters": "param param::entry",
    "atomspace": "global shared shared::cta shared::cluster",
    "incta": "shared shared::cta",
    "incluster": "shared shared::cta shared::cluster",
    "ctas": "cta cluster",
    "dims": "1d 2d 3d 4d 5d",
    "tensor_verb": "add min max inc dec and or xor",
    "map_space": "global shared::cta",
    "matrix_space": "global shared shared::cta",
    "cop": "ca cg cs lu cv",
    "sem": "relaxed acquire release acq_rel",
    "scope": "cta cluster gpu sys",
    "vec": "v2 v4 v8",
    "evict": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "evict2": "L2::evict_normal L2::evict_first L2::evict_last",
    "ahead": "L2::64B L2::128B L2::256B",
    "shfl": "up down bfly idx",
    "prmt": "f4e b4e rc8 ecl ecr rc16",
    "testp": "finite infinite number notanumber normal subnormal",
    "dir": "l r",
    "clampwrap": "clamp wrap",
    "geom": "1d 2d 3d a1d a2d cube acube",
    "component": "r g b a",
    "bounds": "trap clamp zero",
    "reduction": "add min max and or",
    "query": "width height depth channel_data_type channel_order normalized_coords array_size num_mipmap_levels "
    "num_samples",
}
_SETS = {name: frozenset(words.split()) for name, words in SETS.items()}


# modifier: the .version and the .target that every instruction with it needs
_SINCE = {
    **dict.fromkeys("weak relaxed acquire release acq_rel".split(), ((6, 0), (7, 0))),
    **dict.fromkeys(_SETS["evict"], ((7, 4), (7, 0))),
    "L2::64B": ((7, 4), (7, 5)), "L2::128B": ((7, 4), (7, 5)), "L2::256B": ((7, 4), (8, 0)),
    "L2::evict_last": ((7, 4), (8, 0)), "L2::evict_normal": ((7, 4), (8, 0)), "satfinite": ((8, 1), (7, 0)),
    "bf16": ((7, 0), (8, 0)), "bf16x2": ((7, 0), (8, 0)), "cluster": ((7, 8), (9, 0)),
    "shared::cta": ((7, 8), (0, 0)), "shared::cluster": ((7, 8), (9, 0)), "param::entry": ((8, 3), (0, 0)),
}  # fmt: skip
_REPEATABLE = frozenset("sat sync uni NaN relu shiftamt cc approx satfinite".split())  # ptxas accepts these twice


class Slot:
    """An operand of a row: its name, its type, and how strictly the type is checked."""

    __slots__ = ("name", "type", "written", "optional", "relaxed", "bound", "least", "plain", "vector", "discards")

    def __init__(self, text: str) -> None:
        name, _, type = text.partition(":")
        type, _, bound = type.partition("<")
        if bound:
            self.bound = int(bound)
        else:
            self.bound = 0
        type, _, least = type.partition(">")
        if least:
            self.least = int(least) + 1
        else:
            self.least = 0
        self.optional = name[-1] == "?"
        self.name = name.rstrip("?")
        self.vector = type[-1:] == "+"
        type = type.rstrip("+")
        self.relaxed = type[-1:] == "^"
        self.plain = type[-1:] == "!"
        self.discards = type[-1:] == "_"
        self.type = type.rstrip("^!_") or "T"
        self.written = self.name[0] == "d"

    def resolved(self, types: tuple[str, ...]) -> str:
        """Return the type of this operand for the types of an instruction."""
        word = self.type
        if word == "T":
            if types:
                return types[0]
            return ""
        if word == "T2":
            return types[1]
        if word == "wide":
            return f"{types[0][0]}{BITS[types[0]] * 2}"
        return word


def _since(words: list[str]) -> Since:
    """Read words such as `8.0` and `sm_90`; the newest of each count."""
    version = architecture = (0, 0)
    for word in words:
        if word[0] == "s":
            architecture = max(architecture, (int(word[3:-1]), int(word[-1])))
        else:
            version = max(version, (int(word[0]), int(word[2:])))
    return version, architecture


class Form:
    """A parsed row."""

    __slots__ = (
        "opcode", "name", "choices", "types", "slots", "result", "value", "vector", "least", "most", "since", "later"
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        name, *words = row[0].split()
        self.opcode, *parts = re.split(r"\.(?!\d)", name)
        self.choices: list[tuple[str, frozenset[str], bool]] = []
        self.since = _since([word[1:] for word in words if word[0] == "@"])
        self.later: dict[str, Since] = {}  # those of modifiers
        for word in [*parts, *(word[1:] for word in words if word[0] == ".")]:
            word, *since = word.split("@")
            optional = word[-1] == "?"
            label, words_of_it = word.rstrip("?"), ""
            if "::" not in word:
                label, _, words_of_it = label.partition(":")
            if since:
                self.later[label] = _since(since)
            self.choices.append(
                (label, _SETS.get(words_of_it or label) or frozenset((words_of_it or label).split("|")), not optional)
            )
        self.name = tuple(choice[0] for choice in self.choices[: len(parts)])  # which come first
        if row[1]:
            self.types = tuple(frozenset(group.split()) for group in row[1].split("/"))
        else:
            self.types = ()
        self.slots = tuple(Slot(word) for word in row[2].split())
        self.result = row[3]
        self.value = row[4]
        if len(row) > 5:
            self.vector = row[5]
        else:
            self.vector = ""
        self.most = len(self.slots)
        self.least = sum(not slot.optional for slot in self.slots)

    def fit(self, modifiers: tuple[str, ...]) -> Shape | str:
        """Match modifiers with this row; return the shape, or the reason why they do not match."""
        chosen: dict[str, str] = {}
        types: list[str] = []
        for modifier in modifiers:
            if len(types) < len(self.types) and modifier in self.types[len(types)]:
                types.append(modifier)
                continue
            for name, words, _ in self.choices:
                if modifier in words and name not in chosen:
                    chosen[name] = modifier
                    break
            else:
                if modifier in _REPEATABLE and modifier in chosen.values():
                    continue
                if modifier in BITS:
                    return f"Unexpected instruction types specified for '{self.opcode}'"
                return f"Illegal modifier '.{modifier[:40]}' for instruction '{self.opcode}'"
        for name, words, required in self.choices:
            if required and name not in chosen:
                if "rn" in words or "rni" in words:
                    return f"Rounding modifier required for instruction '{self.opcode}'"
                return f"Modifier '.{name}' required for instruction '{self.opcode}'"
        if len(types) < len(self.types):
            return f"Unexpected instruction types specified for '{self.opcode}'"
        first = [chosen[name] for name in self.name if name in chosen]
        if list(modifiers[: len(first)]) != first:
            name = ".".join([self.opcode, *first])
            return f"Modifiers of '{self.opcode}' in another order than in the name of the instruction, '{name}'"
        return Shape(self, tuple(types), chosen)


class Shape:
    """A form with chosen types and modifiers: the meaning of the text of an opcode."""

    __slots__ = ("form", "types", "chosen", "result", "slots", "wanted")

    def __init__(self, form: Form, types: tuple[str, ...], chosen: dict[str, str]) -> None:
        self.form = form
        self.types = types
        self.chosen = chosen
        self.result = form.result
        self.slots = form.slots
        self.wanted = tuple(slot.resolved(types) for slot in form.slots)

    @property
    def type(self) -> str:
        """Return the instruction's (first) type."""
        if self.types:
            return self.types[0]
        return ""

    def has(self, modifier: str) -> bool:
        """Tell whether the opcode has a modifier."""
        return modifier in self.chosen.values()


class Table:
    """All rows, by opcode; parsed when an opcode is first used."""

    def __init__(self, rows: Iterable[Row], refused: dict[str, str], refused_modifiers: dict[str, str]) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._forms: dict[str, list[Form]] = {}
        self._shapes: dict[str, Shape] = {}
        self._refused = refused
        self._refused_modifiers = refused_modifiers
        for row in rows:
            self._rows.setdefault(re.split(r"[ .]", row[0], maxsplit=1)[0], []).append(row)

    def opcodes(self) -> list[str]:
        """Return the opcodes that are emulated."""
        return sorted(self._rows)

    def shape(self, instruction: Instruction) -> Shape:
        """Find the row for the opcode of an instruction.

        raises  Rejected   an unknown opcode, or an unknown form of it
        """
        text = instruction.text
        try:
            return self._shapes[text]
        except KeyError:
            pass
        opcode = instruction.opcode
        forms = self._forms.get(opcode)
        if forms is None:
            if opcode in self._refused:
                raise Rejected.at(instruction.line, f"'{text[:80]}' is not emulated: {self._refused[opcode]}")
            rows = self._rows.get(opcode)
            if rows is None:
                raise Rejected.at(instruction.line, f"Not a name of any known instruction: '{opcode[:80]}'")
            forms = self._forms[opcode] = [Form(row) for row in rows]
        reason = ""
        for modifier in instruction.modifiers:
            if modifier in self._refused_modifiers:
                words = self._refused_modifiers[modifier]
                raise Rejected.at(instruction.line, f"'{text[:80]}' is not emulated: {words}")
        for form in forms:
            fitted = form.fit(instruction.modifiers)
            if isinstance(fitted, Shape):
                if len(self._shapes) < 4096:
                    self._shapes[text] = fitted
                return fitted
            if not reason or "types" in reason or "required" in fitted and "order" not in reason or "order" in fitted:
                reason = fitted
        raise Rejected.at(instruction.line, reason)


def check(instruction: Instruction, shape: Shape, version: tuple[int, int], architecture: tuple[int, int]) -> None:
    """Check the operands against the row, and the row against .version and .target of the module.

    raises  Rejected   wrong count, class or type; newer than the module's .version or .target
    """
    operands = instruction.operands
    form = shape.form
    needed = [(instruction.opcode, form.since)]
    needed += [(f".{shape.chosen[name]}", since) for name, since in form.later.items() if name in shape.chosen]
    for word in instruction.modifiers:
        if word in _SINCE and not (word == "satfinite" and shape.result in ("!cvt_small", "!mma")):
            needed.append((f".{word}", _SINCE[word]))
    if shape.type == "b128" and "sys" in instruction.modifiers:
        needed.append((".b128 with .sys", ((8, 4), (7, 0))))
    for what, (oldest, least) in needed:
        if version < oldest:
            words = "PTX ISA .version {}.{} or later".format(*oldest)
        elif architecture < least:
            words = ".target sm_{}{} or higher".format(*least)
        else:
            continue
        raise Rejected.at(instruction.line, f"Feature '{what}' requires {words}")
    if any(isinstance(each, Sum) for each in operands) and (
        shape.result in ("!video", "!video_lanes")
        or architecture < (9, 0)
        and (form.opcode in ("shfl", "vote", "match", "redux") or shape.result == "!warp_sync")
    ):  # ptxas replaces these by other instructions before it reads their operands
        raise Rejected.at(instruction.line, "Parsing error near '+': syntax error")
    if not form.least <= len(operands) <= form.most:
        raise _mismatch(instruction)
    if instruction.opcode == "cvt" and shape.result != "!cvt" and any(isinstance(each, Special) for each in operands):
        raise _no_special(instruction)
    for slot, type, operand in zip(form.slots, shape.wanted, operands):
        if slot.vector:
            _check_vector(instruction, slot, type, operand)
        elif type in _OTHER:
            if not isinstance(operand, _OTHER[type]):
                raise _mismatch(instruction)
            if type == "pair" and isinstance(operand, Pair) and not isinstance(operand.second, (Register, Sink)):
                raise Rejected.at(instruction.line, f"Predicate output expected for instruction '{instruction.opcode}'")
            _check_bounds(instruction, slot, operand)
        elif slot.written:
            if not (slot.discards and isinstance(operand, Sink)):
                check_written(instruction, operand, type, slot.relaxed)
        else:
            if slot.plain and not isinstance(operand, (Register, Float)):
                raise _mismatch(instruction)
            check_read(instruction, operand, type, slot.relaxed)
            _check_bounds(instruction, slot, operand)


def _check_bounds(instruction: Instruction, slot: Slot, operand: Operand) -> None:
    if slot.bound and isinstance(operand, Int) and not slot.least <= operand.value < slot.bound:
        raise Rejected.at(
            instruction.line,
            f"Argument '{slot.name}' of instruction '{instruction.opcode}': value '{operand.value}' out of range",
        )


# operands that are not values: the methods that the rows name check these
_OTHER: dict[str, tuple[type, ...]] = {
    "mem": (Address,),
    "any": (object,),
    "constant": (Int,),
    "vector": (Vector,),
    "name": (Name, Symbol, Register),
    "texel": (Texel,),
    "pair": (Pair, Register, Sink),
    "sink": (Sink,),
}


def _check_vector(instruction: Instruction, slot: Slot, type: str, operand: Operand) -> None:
    """Check the items of a vector; a result may be followed by a predicate."""
    if isinstance(operand, Pair) and slot.written:
        check_written(instruction, operand.second, "pred", False)
        operand = operand.first
    if isinstance(operand, Vector) and operand.round:
        raise _mismatch(instruction)
    for item in operand.items if isinstance(operand, Vector) else [operand]:
        if not slot.written:
            check_read(instruction, item, type, slot.relaxed)
        elif not isinstance(item, Sink) or not isinstance(operand, Vector):
            check_written(instruction, item, type, slot.relaxed)


def coordinate_types(shape: Shape, texel: Texel) -> list[str]:
    """Return the type of each coordinate: an integer for a layer, then the second type of the instruction."""
    count = len(texel.coordinates.items)
    if len(shape.types) > 1:
        type = shape.types[1]
    else:
        type = "s32"
    if shape.chosen.get("geom", "")[:1] == "a":
        layer = ["s32"]
    else:
        layer = []
    return [*layer, *[type] * (count - len(layer))]


def _mismatch(instruction: Instruction) -> Rejected:
    return Rejected.at(instruction.line, f"Arguments mismatch for instruction '{instruction.opcode}'")


def _no_special(instruction: Instruction) -> Rejected:
    words = f"Special register argument not allowed for instruction '{instruction.opcode}'"
    return Rejected.at(instruction.line, words)


def check_written(instruction: Instruction, operand: Operand, type: str, relaxed: bool) -> None:
    """Check the type of a destination."""
    if isinstance(operand, Sum):  # only in the addition that the parser made for the operand of another instruction
        terms = instruction.operands[1:]
        written = len(terms) == 2 and terms[0] is operand.of and isinstance(terms[1], Int)
    else:
        written = isinstance(operand, Register)
    if isinstance(operand, Register) and written:
        if not fits(operand.type, type, relaxed):
            raise _mismatch(instruction)
    elif isinstance(operand, Special):
        raise Rejected.at(instruction.line, "Read-only special register cannot be destination argument")
    elif isinstance(operand, Sink):
        if instruction.opcode != "atom":
            raise Rejected.at(
                instruction.line, f"Result discard mode is not allowed for instruction '{instruction.opcode}'"
            )
    else:
        raise Rejected.at(instruction.line, f"Result register required for instruction '{instruction.opcode}'")


def check_read(instruction: Instruction, operand: Operand, type: str, relaxed: bool) -> None:
    """Check the type of a source."""
    if isinstance(operand, Register):
        if not fits(operand.type, type, relaxed) or isinstance(operand, Sum) and "f" in type:
            raise _mismatch(instruction)
    elif isinstance(operand, Int):
        if type[0] == "f" or type[:2] == "bf" or type == "tf32" or type[1:] == "16x2":
            raise _mismatch(instruction)
    elif isinstance(operand, Float):
        if type not in ("f32", "f64") and not (type == "b32" and operand.single is not None):
            if type != "b64" or operand.single is not None:
                raise _mismatch(instruction)
    elif isinstance(operand, Not):
        if type != "pred":
            raise _mismatch(instruction)
    elif isinstance(operand, Name):
        raise Rejected.at(instruction.line, f"Unknown symbol '{operand.text[:80]}'")
    elif isinstance(operand, Special):
        is_predicate = type == "pred" and instruction.opcode == "mov" and operand.name == "is_explicit_cluster"
        if instruction.opcode != "cvt" and not is_predicate:
            raise _no_special(instruction)
    else:
        raise _mismatch(instruction)


def fits(held: str, wanted: str, relaxed: bool) -> bool:
    """Tell whether a register of type `held` is accepted for an operand of type `wanted`."""
    if held == wanted:
        return True
    if held == "pred" or wanted == "pred":
        return False
    have, want = BITS[held], BITS[wanted]
    if have != want:
        plain = "f" not in wanted and "f" not in held
        return relaxed and have > want and (plain or _is_bits(held) or _is_bits(wanted))
    if "x" in wanted:  # several elements in one register, which has no type, or that of two float16
        return _is_bits(held) or held == "f16x2" and wanted in ("u16x2", "s16x2")
    return _is_bits(held) or _is_bits(wanted) or held[0] in "us" and wanted[0] in "us"


def _is_bits(type: str) -> bool:
    return type[0] == "b" and "f" not in type
