"""The source for arrays of memory accesses, atomics, calls, barriers and warp operations.

Memory contains bits: a load returns unsigned integers, and a store gets them.

Read next    ptx/vectors/running/vector_memory.py, which has the functions that this source calls; ../running/warps.py
"""

from __future__ import annotations

from ...reading.syntax import BITS, Address, Float, Int, Pair, Register, Sink, Symbol, Variable, Vector
from ...translating.emitting.emit import FLOAT_TYPES
from .value_graph import Unsuited
from .write_small import Small
from .write_values import kind_of, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...reading.syntax import Instruction, Operand
    from ...translating.table.forms import Shape
    from .value_graph import Inlined, Item

__all__ = ["Accesses"]

_VERBS = ("cas", "exch", "add", "inc", "dec", "min", "max", "and", "or", "xor")


class Accesses(Small):
    """The writer of instructions that read and write memory, or involve other threads.

    Why long  it has a method for each instruction of its kind
    """

    # -- where an access goes

    def space_of(self, instruction: Instruction, shape: Shape) -> str:
        """Return the state space of an access; "" is generic."""
        space = (shape.chosen.get("space") or shape.chosen.get("atomspace") or "").split("::")[0]
        address = next(o for o in instruction.operands if isinstance(o, Address))
        if isinstance(address.base, Symbol):
            target = address.base.target
            space = space or (target.space if isinstance(target, Variable) else "")
        if shape.chosen.get("space") == "shared::cluster":
            raise Unsuited("shared memory of a cluster")
        return space

    def where(self, space: str, address: Address) -> tuple[str, int]:
        """Return the base of an address, an expression, and the offset to add."""
        if isinstance(address.base, Register):
            return self.value(address.base, f"b{BITS[address.base.type]}"), address.offset
        if space in ("shared", "local"):
            wide = "u4"
        else:
            wide = "u8"
        if isinstance(address.base, Symbol):
            place = self.symbol(Symbol(address.base.target, address.base.offset + address.offset))
            return self.constant(wide, place & (1 << 8 * int(wide[1])) - 1), 0
        return self.constant(wide, address.offset & (1 << 8 * int(wide[1])) - 1), 0

    def site(self) -> int:
        """Return the number of a new place in the code that accesses memory."""
        self.sites.append(self.line)
        return len(self.sites) - 1

    def selected(self) -> str:
        """Write which threads execute the instruction; return the variable."""
        if not self.guard:
            return "None"
        self.put(f"s = selected({self.guard}, g.n)")
        return "s"

    def frames(self, space: str) -> str:
        """Return the frames that a local or generic access may reach."""
        if space in ("", "local"):
            return repr(tuple(self.inlined.frames()))
        return "()"

    # -- loads and stores

    def items_of(self, shape: Shape, operand: Operand) -> list[Operand]:
        """Return the operands of an access, which may be a vector."""
        if isinstance(operand, Vector) and not operand.round:
            return list(operand.items)
        return [operand]

    def do_ld(self, instruction: Instruction, shape: Shape) -> None:
        """Load from memory into a register or a vector of them."""
        space, type = self.space_of(instruction, shape), shape.type
        address = instruction.operands[1]
        assert isinstance(address, Address)
        targets = self.items_of(shape, instruction.operands[0])
        if space == "param":
            self._load_parameter(address, targets, type)
            return
        width, count = width_of(type), len(targets)
        base, offset = self.where(space, address)
        judged = any(isinstance(each, Register) and each.index in self.judged() for each in targets)
        watched = shape.chosen.get("sem", "weak") != "weak"
        selected = self.selected()
        if instruction.alignment:
            self.put(f"M.aligned(g, {base}, {offset - instruction.inside}, {instruction.alignment}, {selected})")
        self.put(
            f"x = M.load_{space or 'generic'}(g, {self.site()}, {base}, {offset}, {width}, {count}, {judged}, "
            f"{watched}, {selected}, {self.frames(space)})"
        )
        saved, self.guard = self.guard, ""
        for at, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            assert isinstance(target, Register)
            self._arrive(target, type, f"x[{at}]", saved)
        self.guard = saved

    def _arrive(self, target: Register, type: str, text: str, guard: str = "") -> None:
        """Write loaded bits into a register, which may be wider; with a guard, the other threads keep all of theirs."""
        have, want = width_of(target.type), width_of(type)
        if have != want:
            if type[0] == "s":
                text = f"({text}).view(i{want}).astype(i{have}).view(u{have})"
            else:
                text = f"({text}).astype(u{have})"
        if guard:
            text = f"spread({text}, s, old_bits(r{self.place(target)}, u{have}), g.n)"
        if self.holds_float(target):
            text = f"({text}).view(f{have})"
        self.set(f"r{self.place(target)}", text)

    def stored(self, source: Operand, type: str) -> str:
        """Return the bits that a store writes."""
        bits = BITS[type]
        if isinstance(source, Register):
            return self.value(source, f"b{bits}")
        if type in FLOAT_TYPES or isinstance(source, Float):
            return f"{self.value(source, 'f32' if bits == 32 else 'f64')}.view(u{bits // 8})"
        return self.value(source, f"b{bits}")

    def do_st(self, instruction: Instruction, shape: Shape) -> None:
        """Store registers or constants to memory."""
        space, type = self.space_of(instruction, shape), shape.type
        address = instruction.operands[0]
        assert isinstance(address, Address)
        sources = self.items_of(shape, instruction.operands[1])
        if space == "param":
            self._store_parameter(address, sources, type)
            return
        base, offset = self.where(space, address)
        watched = shape.chosen.get("sem", "weak") != "weak"
        values = ", ".join(self.stored(source, type) for source in sources)
        selected = self.selected()
        self.put(
            f"M.store_{space or 'generic'}(g, {self.site()}, {base}, {offset}, {width_of(type)}, ({values},), "
            f"{watched}, {selected}, {self.frames(space)})"
        )

    # -- parameters

    def _slot(self, variable: Variable) -> str:
        return f"r{self.inlined.slots[id(variable)]}"

    def slot_is_float(self, variable: Variable) -> bool:
        """Tell whether a scalar parameter is an array of floats."""
        return variable.scalar and variable.type in FLOAT_TYPES

    def blank(self, variable: Variable) -> str:
        """Return the first value of a parameter."""
        if not variable.scalar:
            return f"blank({variable.size})"
        kind = kind_of(variable.type)
        return self.constant(kind, 0)

    def _load_parameter(self, address: Address, targets: list[Operand], type: str) -> None:
        base, offset = address.base, address.offset
        width = width_of(type)
        for at, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            assert isinstance(target, Register)
            where = offset + at * width
            if not isinstance(base, Symbol) or not isinstance(base.target, Variable):
                raise Unsuited("a parameter through its address")
            where += base.offset
            if self.is_kernel_parameter(base.target):
                self._arrive(target, type, f"M.parameter({base.target.offset + where}, {width})")
            else:
                self._arrive(target, type, self.slot_bits(base.target, where, width))

    def slot_bits(self, variable: Variable, offset: int, width: int) -> str:
        """Return a part of a parameter as bits."""
        name = self._slot(variable)
        if not variable.scalar:
            return f"got({name}, {offset}, {width})"
        have = width_of(variable.type)
        if self.slot_is_float(variable):
            name = f"{name}.view(u{have})"
        if have == width and not offset:
            return name
        return f"part({name}, {8 * offset}, u{width})"

    def _store_parameter(self, address: Address, sources: list[Operand], type: str) -> None:
        base, width = address.base, width_of(type)
        assert isinstance(base, Symbol) and isinstance(base.target, Variable)
        variable = base.target
        for at, source in enumerate(sources):
            offset = address.offset + base.offset + at * width
            name = self._slot(variable)
            text = self.stored(source, type)
            if not variable.scalar:
                self.set(name, f"put({name}, {offset}, {text}, g.n)")
            elif offset:
                raise Unsuited("a part of a parameter")
            elif self.slot_is_float(variable):
                self.set(name, f"({text}).view(f{width})")
            else:
                have = width_of(variable.type)
                self.set(name, text if have == width else f"({text}).astype(u{have})")

    def copy(self, item: Item) -> None:
        """Write the transfer of arguments or results between a function and its caller."""
        saved = self.inlined
        made: list[tuple[str, Inlined, Any]] = []
        for number, ((home, wanted), (origin, given)) in enumerate(item.copies):
            if not isinstance(wanted, Sink):
                if isinstance(wanted, Symbol):
                    wanted = wanted.target
                self.inlined = origin
                self.put(f"x{number} = {self._given(given, wanted)}")
                made.append((f"x{number}", home, wanted))
        for text, home, wanted in made:
            self.inlined = home
            if isinstance(wanted, Variable):
                if self.slot_is_float(wanted):
                    text = f"{text}.view(f{width_of(wanted.type)})"
                self.put(f"{self._slot(wanted)} = {text}")
            else:
                self.assign(wanted, "pred" if wanted.type == "pred" else f"b{BITS[wanted.type]}", text, True)
        self.inlined = saved

    def _given(self, given: Any, wanted: Any) -> str:
        """Return an argument or a result as bits, or as the bytes of an array."""
        if isinstance(given, Symbol) and isinstance(given.target, Variable) and given.target.space == "param":
            given = given.target
        if isinstance(given, Variable):
            if given.scalar:
                return self.slot_bits(given, 0, width_of(given.type))
            return self._slot(given)
        type: str = wanted.type
        if type == "pred":
            return self.value(given, "pred")
        if isinstance(given, (Int, Float)) and type in FLOAT_TYPES:
            return f"{self.value(given, type)}.view(u{width_of(type)})"
        return self.value(given, f"b{BITS[type]}")

    # -- atomics

    def do_atom(self, instruction: Instruction, shape: Shape) -> None:
        """Write an atomic operation."""
        returns = instruction.opcode == "atom"
        operands = instruction.operands
        space, type = self.space_of(instruction, shape), shape.type
        address = operands[1 if returns else 0]
        assert isinstance(address, Address)
        sources = [o for s, o in zip(shape.slots, operands) if s.name in ("a", "b")]
        verb = next(word for word in _VERBS if word in shape.chosen.values())
        if "f16" in type:
            verb = f"{verb} {type}"
        kind = kind_of(type)
        if type[0] == "s":
            kind = f"i{kind[1:]}"
        values = [self.value(source, type) for source in sources]
        if kind[0] == "i":
            values = [f"{text}.view({kind})" for text in values]
        base, offset = self.where(space, address)
        selected = self.selected()
        if returns and not isinstance(operands[0], Sink):
            target = operands[0]
        else:
            target = None
        self.put(
            f"x = M.atomic_{space or 'generic'}(g, {self.site()}, {base}, {offset}, {kind!r}, {verb!r}, "
            f"({', '.join(values)},), {target is not None}, {selected})"
        )
        if target is not None:
            assert isinstance(target, Register)
            saved, self.guard = self.guard, ""
            self._arrive(target, f"b{BITS[type]}", "x", saved)
            self.guard = saved

    def do_atom_vector(self, instruction: Instruction, shape: Shape) -> None:
        """Write a vector of atomic operations, one after the other."""
        space, type = self.space_of(instruction, shape), shape.type
        address, given = instruction.operands[-2:]
        assert isinstance(address, Address) and isinstance(given, Vector)
        if instruction.opcode == "atom":
            targets = instruction.operands[0]
        else:
            targets = None
        verb = next(word for word in ("add", "min", "max") if word in shape.chosen.values())
        width, kind = width_of(type), kind_of(type)
        if "f16" in type:
            verb = f"{verb} {type}"
        base, offset = self.where(space, address)
        selected = self.selected()
        self.put(f"M.aligned(g, {base}, {offset}, {width * len(given.items)}, {selected})")
        taken = [
            isinstance(targets, Vector) and isinstance(targets.items[at], Register) for at in range(len(given.items))
        ]
        for at, source in enumerate(given.items):
            self.put(
                f"x{at} = M.atomic_{space or 'generic'}(g, {self.site()}, {base}, {offset + at * width}, {kind!r}, "
                f"{verb!r}, ({self.value(source, type)},), {taken[at]}, {selected})"
            )
        saved, self.guard = self.guard, ""
        for at, target in enumerate(targets.items if isinstance(targets, Vector) else ()):
            if isinstance(target, Register):
                self._arrive(target, f"b{BITS[type]}", f"x{at}", saved)
        self.guard = saved

    # -- barriers and warps

    def do_bar(self, instruction: Instruction, shape: Shape) -> None:
        """Write nothing: the executor waits for the block before it runs the node of the barrier."""

    def do_bar_red(self, instruction: Instruction, shape: Shape) -> None:
        """Write the vote of a barrier."""
        target, _, source = instruction.operands
        verb = next(word for word in ("popc", "and", "or") if word in shape.chosen.values())
        text = f"M.block_vote(g, {verb!r}, {self.value(source, 'pred')})"
        self.assign(target, "u32" if verb == "popc" else "pred", text, True)

    def _mask(self, instruction: Instruction, at: int) -> str:
        if len(instruction.operands) > at:
            return self.value(instruction.operands[at], "b32")
        return "None"

    def mask_of(self, instruction: Instruction) -> str:
        """Return the member mask of a warp operation, or "None" for the threads that are active."""
        at = {"shfl": 4, "vote": 2, "match": 2, "redux": 2, "activemask": 9, "elect": 1, "bar": 0}[instruction.opcode]
        return self._mask(instruction, at)

    def _two(self, target: Operand, type: str) -> None:
        if isinstance(target, Pair):
            if isinstance(target.first, Register):
                self.assign(target.first, type, "x", True)
            if isinstance(target.second, Register):
                self.assign(target.second, "pred", "y", True)
        else:
            self.assign(target, type, "x", True)

    def do_shfl(self, instruction: Instruction, shape: Shape) -> None:
        """Write a read of another lane's value."""
        target, a, b, c = instruction.operands[:4]
        if isinstance(target, Pair):
            first = target.first
        else:
            first = target
        judged = isinstance(first, Register) and self.unit.watch
        self.put(
            f"x, y = M.shuffle(g, {self.site() if judged else None}, {shape.chosen['shfl']!r}, {self.value(a, 'b32')}, "
            f"{self.value(b, 'b32')}, {self.value(c, 'b32')}, {self._mask(instruction, 4)})"
        )
        self._two(target, "b32")

    def do_vote(self, instruction: Instruction, shape: Shape) -> None:
        """Write a vote of the warp."""
        target, source = instruction.operands[:2]
        verb = next(word for word in ("all", "any", "uni", "ballot") if word in shape.chosen.values())
        text = f"M.vote(g, {verb!r}, {self.value(source, 'pred')}, {self._mask(instruction, 2)})"
        self.assign(target, "b32" if verb == "ballot" else "pred", text, True)

    def do_match(self, instruction: Instruction, shape: Shape) -> None:
        """Write a search for the lanes with the same value."""
        target, source = instruction.operands[:2]
        if "all" in shape.chosen:
            verb = "all"
        else:
            verb = "any"
        type = f"b{BITS[shape.type]}"
        self.put(f"x, y = M.match(g, {verb!r}, {self.value(source, type)}, {self._mask(instruction, 2)})")
        self._two(target, "b32")

    def do_redux(self, instruction: Instruction, shape: Shape) -> None:
        """Write a reduction over the warp."""
        target, source = instruction.operands[:2]
        verb = next(word for word in ("add", "min", "max", "and", "or", "xor") if word in shape.chosen.values())
        if shape.type == "f32":
            value = self.value(source, "f32")
            if "abs" in shape.chosen:
                value = f"abs({value})"
            text = f"M.float_reduction(g, {verb!r}, {'NaN' in shape.chosen}, {value}, {self._mask(instruction, 2)})"
            self.assign(target, "f32", text, True)
            return
        if shape.type == "s32":
            value = self.signed(source, "s32")
        else:
            value = self.value(source, "b32")
        text = f"M.reduction(g, {verb!r}, {value}, {self._mask(instruction, 2)})"
        self.assign(target, "b32", text, True)

    def do_warp_sync(self, instruction: Instruction, shape: Shape) -> None:
        """Write a barrier of the warp."""
        self.put(f"M.warp_sync(g, {self._mask(instruction, 0)})")

    def do_activemask(self, instruction: Instruction, shape: Shape) -> None:
        """Write a query for the active lanes."""
        self.assign(instruction.operands[0], "b32", "M.active(g)", True)

    def do_elect(self, instruction: Instruction, shape: Shape) -> None:
        """Write the election of a lane."""
        self.put(f"x, y = M.elect(g, {self._mask(instruction, 1)})")
        self._two(instruction.operands[0], "b32")
