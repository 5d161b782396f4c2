"""The code of memory accesses: ld, st, atom and cp.async.

Each global access in the code caches the allocation that it used last: a typed view, the address of the view's element
0 minus the instruction's offset, and the view's length. The check is then three comparisons:

    i = r_rd4 - lo0
    if i & 3 or not 0 <= i < n0:
        v0, lo0, n0 = L.reach(r_rd4, 4, 'f', 4)      # looks the address up, or raises a Fault
        i = r_rd4 - lo0
    r_f1 = v0[i >> 2]

The shared memory of a block is one view, and Python checks the bounds of this view, as in a local frame. The alignment
of a register and the index from it are computed once, and are valid until the register changes or another path joins.

Read next    ptx/running/lookups.py, which has `reach`
"""

from __future__ import annotations

from ....machine.space import WIDTH
from ...reading.syntax import BITS, Address, Float, Instruction, Int, Register, Sink, Symbol, Variable, Vector
from ..table.forms import check_read, check_written, fits
from ..unit import CLUSTER_BITS
from .checks import CheckEmitter
from .emit import FLOAT_TYPES, Note, bits_of_constant, mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..table.forms import Shape

__all__ = ["AccessEmitter"]

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q", 128: "Q"}
_SIGNED = {8: "b", 16: "h", 32: "i", 64: "q"}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}


class AccessEmitter(CheckEmitter):
    """The emitter of instructions that read and write memory.

    Why long  it has a method for each form of an access, and they share how a place is checked
    """

    def do_ld(self, instruction: Instruction, shape: Shape) -> None:
        """Load from memory into a register or a vector of them."""
        space = self.space_of(instruction, shape)
        address = instruction.operands[1]
        assert isinstance(address, Address)
        type = shape.type
        targets = self._elements(instruction, shape, instruction.operands[0], type)
        if space == "param":
            self._load_parameter(instruction, address, targets, type)
            return
        width = BITS[type] // 8
        floats = [isinstance(t, Register) and self.holds_float[t.index] and BITS[t.type] == BITS[type] for t in targets]
        code = _CODES[BITS[type]]
        if all(floats) and BITS[type] in (32, 64):
            if BITS[type] == 32:
                code = "f"
            else:
                code = "d"
        elif type[0] == "s" and any(isinstance(t, Register) and BITS[t.type] > BITS[type] for t in targets):
            code = _SIGNED[BITS[type]]
        self.matters = any(isinstance(each, Register) and each.index in self.judged for each in targets)
        self.order = self.strength(shape)
        if instruction.alignment:
            base, offset = self._address(address)
            note = Note(space or "generic", "read", width * len(targets), base, offset)
            offset -= instruction.inside
            if offset:
                start = f"{base} + {offset}"
            else:
                start = base
            self.put(f"if {start} & {instruction.alignment - 1}:")
            self.indent += 1
            self._put_misaligned(space, start, instruction.alignment, note)
            self.indent -= 1
        view, index, note = self.place(space, address, code, width * len(targets), "read")
        if len(targets) > 1 or type == "b128":
            self.put(f"j = {index}")
            index = "j"
        self.touch(index, code, width * len(targets), self.matters, None, self.order, note, view)
        for at, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            assert isinstance(target, Register)
            if type == "b128":
                if at:
                    where = f"{index} + {2 * at}"
                else:
                    where = index
                self.put(f"{target.python} = {view}[{where}] | {view}[{where} + 1] << 64", note)
                continue
            if at:
                text = f"{view}[{index} + {at}]"
            else:
                text = f"{view}[{index}]"
            if code in "bhiq":
                text = f"{text} & {mask(BITS[target.type])}"
            if code not in "fd" and self.holds_float[target.index]:
                text = f"float_of_{BITS[target.type]}({text})"
            self.put(f"{target.python} = {text}", note)

    def do_st(self, instruction: Instruction, shape: Shape) -> None:
        """Store registers or constants to memory."""
        space = self.space_of(instruction, shape)
        if space == "const":
            raise self.reject("State space incorrect for instruction 'st'")
        address = instruction.operands[0]
        assert isinstance(address, Address)
        type = shape.type
        sources = self._elements(instruction, shape, instruction.operands[1], type)
        if space == "param":
            self._store_parameter(instruction, address, sources, type)
            return
        width = BITS[type] // 8
        floats = [isinstance(s, Register) and self.holds_float[s.index] and BITS[s.type] == BITS[type] for s in sources]
        as_float = any(floats) and BITS[type] in (32, 64)
        if as_float:
            code = "f" if BITS[type] == 32 else "d"
        else:
            code = _CODES[BITS[type]]
        values = [self._stored(source, type, as_float) for source in sources]
        self.order = self.strength(shape)
        view, index, note = self.place(space, address, code, width * len(sources), "write")
        if len(sources) > 1 or type == "b128":
            self.put(f"j = {index}")
            index = "j"
        if type == "b128":
            given = []
        else:
            given = values
        self.touch(index, code, width * len(sources), False, given, self.order, note, view)
        for at, text in enumerate(values):
            if type == "b128":
                if at:
                    where = f"{index} + {2 * at}"
                else:
                    where = index
                self.put(f"{view}[{where}] = {text} & {mask(64)}; {view}[{where} + 1] = {text} >> 64", note)
                continue
            self.put(f"{view}[{index} + {at}] = {text}" if at else f"{view}[{index}] = {text}", note)

    def _stored(self, source: Operand, type: str, as_float: bool) -> str:
        if as_float:
            if BITS[type] == 32:
                wanted = "f32"
            else:
                wanted = "f64"
            return self.kept(source, wanted)
        if type in FLOAT_TYPES and isinstance(source, (Float, Int)):
            return f"{bits_of_constant(source, BITS[type]):#x}"
        if type in FLOAT_TYPES and not isinstance(source, Register):
            return f"bits_of_{BITS[type]}({self.value(source, type)})"
        return self.value(source, f"b{BITS[type]}" if type in FLOAT_TYPES else type)

    def _elements(self, instruction: Instruction, shape: Shape, operand: Operand, type: str) -> list[Operand]:
        """Return the registers or values of a (vector) access, after a check of their classes."""
        vector = shape.chosen.get("vec")
        if vector is None:
            if isinstance(operand, Vector) and not operand.round:
                items = operand.items
            else:
                items = [operand]
            if len(items) != 1 or isinstance(items[0], (Vector, Sink)):
                raise self.mismatch(instruction)
        else:
            count = int(vector[1:])
            if not isinstance(operand, Vector) or operand.round or len(operand.items) != count:
                raise self.mismatch(instruction)
            items = operand.items
            module = self.unit.module
            wide = module.version >= (8, 8) and module.architecture >= (10, 0) and type != "b128"
            wide = wide and "async" not in shape.chosen and instruction.opcode != "ldu"
            if wide and shape.chosen.get("space", "global") == "global":
                most = 256
            else:
                most = 128
            if BITS[type] * count > most:
                raise self.reject(f"Vector of {BITS[type] * count} bits is too wide for '{instruction.opcode}'")
        if instruction.opcode in ("st", "atom"):
            check = check_read
        else:
            check = check_written
        if vector is not None:
            self._check_alike(instruction, [item for item in items if not isinstance(item, Sink)], type)
        for item in items:
            if vector is None or not isinstance(item, (Register, Sink)):
                check(instruction, item, type, True)
        return list(items)

    def _check_alike(self, instruction: Instruction, given: list[Operand], type: str) -> None:
        """Check the items of a vector: each fits the next one, and one register the instruction, as in ptxas."""
        self.check_neighbours(instruction, given)
        held = [item.type for item in given if isinstance(item, Register)]
        if not given:
            raise self.mismatch(instruction)
        if held:
            whole = next((each for each in held if each[0] == "b"), held[0])  # bits stand for all
            if type in FLOAT_TYPES:
                mixed = "f" not in whole
            else:
                mixed = whole == "f16x2"
            if not fits(whole, f"b{BITS[type]}" if mixed and BITS[whole] == BITS[type] else type, True):
                raise self.mismatch(instruction)

    def check_neighbours(self, instruction: Instruction, items: list[Operand]) -> None:
        """Check that each item of a vector is of the type of the next one: ptxas compares these pairs alone."""
        for pair in zip(items, items[1:]):
            types = [item.type for item in pair if isinstance(item, Register)]
            whole = any(isinstance(item, Int) for item in pair)
            real = any(isinstance(item, Float) for item in pair)
            if (
                len(types) == 2
                and not fits(types[0], types[1], False)
                or whole
                and (real or "f" in "".join(types))
                or real
                and types
                and types[0][0] in "us"
            ):
                raise self.reject(
                    f"Vector with elements of different types are not allowed in {instruction.opcode} instruction"
                )

    # -- addresses

    def space_of(self, instruction: Instruction, shape: Shape) -> str:
        """Return the state space of an access; "" is generic."""
        chosen = shape.chosen
        space = (chosen.get("space") or chosen.get("atomspace") or "").split("::")[0]
        if "nc" in instruction.modifiers and space != "global":
            raise self.reject("Modifier '.nc' requires .global space")
        ordered = chosen.get("sem", "weak") != "weak"
        if ordered and (space in ("param", "const") or space == "local" and chosen["sem"] != "volatile"):
            raise self.reject(f"Modifier '.{chosen['sem']}' cannot be applied to '.{space}' space")
        if ordered and space == "local" and self.unit.module.version < (9, 1):
            raise self.reject("Feature 'ld/st with .local.volatile' requires PTX ISA .version 9.1 or later")
        if space not in ("", "global") and chosen.keys() & {"evict", "evict2", "ahead"}:
            raise self.reject("State space incorrect for cache eviction and prefetching")
        if chosen.get("sem") in ("relaxed", "acquire", "release", "acq_rel") and "scope" not in chosen:
            if instruction.opcode in ("ld", "st"):
                raise self.reject(f"Modifier '.{chosen['sem']}' requires scope with '{instruction.opcode}' instruction")
        address = next(o for o in instruction.operands if isinstance(o, Address))
        if isinstance(address.base, Symbol):
            target = address.base.target
            if isinstance(target, Variable):
                held = target.space
            else:
                held = "function"
            if held == "function" or (space and held != space) or (not space and held in ("const", "param")):
                raise self.reject(
                    f"State space mismatch between instruction and address in instruction '{instruction.opcode}'"
                )
            # in a generic access, a name is the address of the variable in its own space
            space = space or held
        elif isinstance(address.base, Register):
            type = address.base.type
            if (
                BITS[type] < 32
                or type[0] == "f"
                or type == "b128"
                or (BITS[type] == 32 and space in ("", "global", "const"))
            ):
                raise self.mismatch(instruction)
        elif space != "local":
            raise self.reject("Immediate addresses allowed only for .local state space")
        if shape.has("shared::cluster"):
            return "shared::cluster"
        return space

    def place(self, space: str, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        """Write the checks of an access, and return the view and the index of its first element."""
        self.marks = ""
        if space == "shared":
            self.marks = "shared"
            return self._place_shared(address, code, total, verb)
        if space == "local":
            return self._place_local(address, code, total, verb)
        if space == "shared::cluster":
            return self._place_in_cluster(address, code, total, verb)
        return self._place_global(space, address, code, total, verb)

    def _put_misaligned(self, space: str, start: str, unit: int, note: Note) -> None:
        """Write a call that raises the error of an address that is not a multiple of `unit` bytes."""
        self.needs_thread = self.needs_thread or space in ("", "local")
        self.needs_block = self.needs_block or space == "shared::cluster"
        call = {
            "shared": f"misaligned(L, {start}, {unit})",
            "shared::cluster": f"B.mates.reach(B, {start}, 'B', {unit})",
            "local": f"T.local({start}, 'B', {unit})",
            "": f"T.reach({start}, 0, 'B', {unit})",
        }
        self.put(call.get(space, f"L.reach({start}, 0, 'B', {unit})"), note)

    def _address(self, address: Address) -> tuple[str, int]:
        """Return the base of an address as an expression, and the offset to add."""
        if isinstance(address.base, Register):
            return self.value(address.base, f"b{BITS[address.base.type]}"), address.offset
        if isinstance(address.base, Symbol):
            return self.symbol(Symbol(address.base.target, address.base.offset + address.offset)), 0
        return "0", address.offset

    def _place_global(self, space: str, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        base, offset = self._address(address)
        shift = _SHIFT[WIDTH[code]]
        if shift:
            index = f"i >> {shift}"
        else:
            index = "i"
        note = Note(space or "generic", verb, total, base, offset)
        if total > 1:
            unaligned = f"i & {total - 1} or "
        else:
            unaligned = ""
        if not space and isinstance(address.base, Register) and address.base.index in self.local_pointers:
            window = self.unit.WINDOWS["local"] - offset
            self._put_frame(f"{base} - frame_lo - {window:#x}", code)
            self.put(f"if {unaligned}not 0 <= i <= {self.frame_size - total}:")
            self.indent += 1
            self._put_reach(base, offset, code, total, verb, note)
            self.indent -= 1
            return "w", index, note
        number = self.sites
        self.sites += 1
        self.put(f"i = {base} - lo{number}")
        if space:
            self.put(f"if {unaligned}not 0 <= i < n{number}:")
            self.indent += 1
            if space == "const":
                reach = "constant"
            else:
                reach = "reach"
            self.put(f"v{number}, lo{number}, n{number} = L.{reach}({base}, {offset}, {code!r}, {total})", note)
            self.put(f"i = {base} - lo{number}")
            if self.unit.watch and space != "const":
                self.put(f"m{number} = L.marked")
                self.marks = f"m{number}"
            self.indent -= 1
            return f"v{number}", index, note
        self.needs_thread = True
        self.put(f"w = v{number}; m = m{number}" if self.unit.watch else f"w = v{number}")
        self.put(f"if {unaligned}not 0 <= i < n{number}:")
        self.indent += 1
        self._put_reach(base, offset, code, total, verb, note)
        self.put("if keep is not None:")
        self.indent += 1
        self.put(
            f"v{number}, lo{number}, n{number} = keep; m{number} = m"
            if self.unit.watch
            else f"v{number}, lo{number}, n{number} = keep"
        )
        self.indent -= 2
        return "w", index, note

    def _put_frame(self, place: str, code: str) -> None:
        """Write a look-up that tries the frame of the function first."""
        self.local_views[code] = None
        self.put(
            f"i = {place}; w = frame_{code}; m = mark_{code}" if self.unit.watch else f"i = {place}; w = frame_{code}"
        )
        self.marks = "m"

    def _put_reach(self, base: str, offset: int, code: str, total: int, verb: str, note: Note) -> None:
        """Write the look-up of a generic address, and tell the race checker if it is in shared memory."""
        self.put(f"w, i, keep = T.reach({base}, {offset}, {code!r}, {total})", note)
        if self.unit.watch:
            self.put("m = L.marked")
            self.marks = "m"
        granule = self.granule
        if not granule:
            return
        self.needs_watch = self.needs_block = True
        place, count = f"{base} + {offset - self.unit.WINDOWS['shared']}", total // granule
        start, line = f"({place}) // {granule}, {count}", self.line
        kind = self._kind(verb)
        if kind == "want" and not self.order and (not self.unit.races or self.unit.copies):
            call = f"watch_read({start}, {self.matters}, {line})"
        elif kind == "mark" and not self.order and not self.unit.races and verb == "write":
            call = f"watch_write({start}, {line})"
        else:
            call = self._told(kind, f"watch_{kind}", start)
        if call:
            self.put(f"if 0 <= {place} < {1 << CLUSTER_BITS:#x}: {call}", note)
        call = self._told(kind, f"B.mates.{kind}", f"B, {place}, {total}")
        if call:
            self.put(f"if {1 << CLUSTER_BITS:#x} <= {place} < {1 << 32:#x}: {call}", note)

    def _kind(self, verb: str) -> str:
        """Return what the checker of unwritten shared memory does for an access that takes part in no race."""
        return {"read": "want", "write": "mark", "atomic exch": "mark"}.get(verb, "update")

    def _told(self, kind: str, function: str, start: str) -> str:
        """Return a call of the checker, or "" for a read that is not checked.

        Volatile reads of shared memory are not checked, because older code relies on warps that run in step.
        """
        if kind == "mark":
            return f"{function}({start})"
        checked = kind == "update" or self.matters and not self.order.startswith("volatile")
        if checked:
            return f"{function}({start}, {self.line})"
        return ""

    def _place_shared(self, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        base, offset = self._address(address)
        self.shared_views[code] = None
        shift = _SHIFT[WIDTH[code]]
        note = Note("shared", verb, total, base, offset)
        if self.unit.prepared[self.function.name].reserves:  # memory that the system reserves lies behind a gap
            if isinstance(address.base, Register):
                bits = BITS[address.base.type]
            else:
                bits = 32
            if offset:
                where = f"({base} + {offset} & {mask(bits)})"
            else:
                where = base
            self.put(f"if L.shared_bytes - {total} < {where} < L.reserved_at: L.outside({where}, {total})", note)
        if base.isdecimal():  # the address of a variable, known at translation
            place = int(base) + offset
            note = Note("shared", verb, total, "", place)
            if place % total:
                self.put(f"misaligned(L, {place}, {total})", note)
            return f"s_{code}", str(max(place, 0) >> shift) if place >= 0 else "0x40000000", note
        if isinstance(address.base, Register):
            bits = BITS[address.base.type]
        else:
            bits = 32
        if base.isidentifier() and offset % total == 0 and offset >= 0:
            index = self._shared_index(base, shift, total, bits, note)
            return f"s_{code}", f"{index} + {offset >> shift}" if offset else index, note
        self.put(f"i = {base} + {offset} & {mask(bits)}" if offset else f"i = {base}")
        if total > 1:
            self.put(f"if i & {total - 1}:")
            self.indent += 1
            self.put(f"misaligned(L, i, {total})", note)
            self.indent -= 1
        return f"s_{code}", f"i >> {shift}" if shift else "i", note

    def _shared_index(self, base: str, shift: int, total: int, bits: int, note: Note) -> str:
        """Write the index for a register, which is valid until the register changes.

        A register whose top bit is set stands for a negative number, to which an offset will be added.
        """
        known = self.known.setdefault(base, set())
        name = f"q{shift}_{total}{base}"
        if name not in known:
            if self.instruction is not None and self.instruction.guard is None:
                known.add(name)  # what is checked in a branch is valid only there
            if shift:
                plain = f"{base} >> {shift}"
            else:
                plain = base
            self.put(
                f"{name} = {plain} if not {base} & {1 << bits - 1 | total - 1:#x} else wrapped(L, {base}, {bits}, "
                f"{total}, {shift}, {note.offset})",
                note,
            )
        return name

    def _place_in_cluster(self, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        base, offset = self._address(address)
        self.needs_block = True
        shift = _SHIFT[WIDTH[code]]
        note = Note("shared::cluster", verb, total, base, offset)
        if offset:
            where = f"{base} + {offset}"
        else:
            where = base
        self.put(f"w, i = B.mates.reach(B, {where}, {code!r}, {total})", note)
        kind = self._kind(verb)
        if self.granule:
            call = self._told(kind, f"B.mates.{kind}", f"B, {where}, {total}")
        else:
            call = ""
        if call:
            self.put(call, note)
        return "w", f"i >> {shift}" if shift else "i", note

    def _place_local(self, address: Address, code: str, total: int, verb: str) -> tuple[str, str, Note]:
        base, offset = self._address(address)
        self.needs_thread = True
        shift = _SHIFT[WIDTH[code]]
        note = Note("local", verb, total, base, offset)
        if offset:
            where = f"{base} + {offset}"
        else:
            where = base
        if total > 1:
            unaligned = f"i & {total - 1} or "
        else:
            unaligned = ""
        self.marks = "m"
        if self.frame_size:
            self._put_frame(f"{where} - frame_lo", code)
            self.put(f"if {unaligned}not 0 <= i <= {self.frame_size - total}:")
            self.indent += 1
        self.put(f"w, i = T.local({where}, {code!r}, {total})", note)
        if self.unit.watch:
            self.put("m = L.marked")
        self.indent -= bool(self.frame_size)
        return "w", f"i >> {shift}" if shift else "i", note

    # -- parameters

    def _load_parameter(self, instruction: Instruction, address: Address, targets: list[Operand], type: str) -> None:
        base, offset = address.base, address.offset
        signed = type[0] == "s"
        for at, target in enumerate(targets):
            where = offset + at * (BITS[type] // 8)
            if isinstance(target, Sink):
                continue
            assert isinstance(target, Register)
            held = self.holds_float[target.index] and BITS[target.type] == BITS[type]
            if (
                isinstance(base, Symbol)
                and isinstance(base.target, Variable)
                and not self.is_kernel_parameter(base.target)
            ):
                text = self.read_slot(base.target, where + base.offset, type, held)
            else:
                if held:
                    code = "f" if BITS[type] == 32 else "d"
                else:
                    code = (_SIGNED if signed else _CODES)[BITS[type]]
                start, more = self._address(Address(base, where))
                if self.function.entry:
                    text = f"L.parameter({_sum(start, more)}, {code!r})"
                else:
                    self.needs_thread = True
                    text = f"T.parameter({_sum(start, more)}, {code!r})"
                if type == "b128":
                    text = f"{text} | {text.replace(', ', ' + 8, ')} << 64"
            if not held and signed and BITS[target.type] > BITS[type]:
                text = f"{text} & {mask(BITS[target.type])}"
            elif not held and signed:
                text = f"{text} & {mask(BITS[type])}"
            if not held and self.holds_float[target.index]:
                text = f"float_of_{BITS[target.type]}({text})"
            self.put(f"{target.python} = {text}", Note("param", "read", BITS[type] // 8, "", where))

    def _store_parameter(self, instruction: Instruction, address: Address, sources: list[Operand], type: str) -> None:
        base = address.base
        if not isinstance(base, Symbol) or not isinstance(base.target, Variable):
            raise self.reject("'st.param' needs the name of a parameter")
        if base.target in self.inputs:
            raise self.reject(f"Illegal to write to function input parameter '{base.target.name[:80]}'")
        for at, source in enumerate(sources):
            where = address.offset + base.offset + at * (BITS[type] // 8)
            self.write_slot(base.target, where, type, source)

    def is_kernel_parameter(self, variable: Variable) -> bool:
        """Tell whether a variable is a parameter of this kernel."""
        return self.function.entry and variable in self.inputs

    def slot_is_float(self, variable: Variable) -> bool:
        """Tell whether a scalar parameter is passed as a Python float."""
        return variable.scalar and variable.type in FLOAT_TYPES

    def slot(self, variable: Variable) -> str:
        """Return the Python variable that holds a call's parameter."""
        return self.unit.slot_name(self.function, variable)

    def read_slot(self, variable: Variable, offset: int, type: str, as_float: bool) -> str:
        """Write the value of (part of) a parameter of a function or of a call."""
        name = self.slot(variable)
        bits = BITS[type]
        if offset < 0 or offset + bits // 8 > variable.size:
            raise self.reject(f"Access past the end of parameter '{variable.name[:80]}'")
        if not variable.scalar:
            if as_float:
                code = "f" if bits == 32 else "d"
            else:
                code = (_SIGNED if type[0] == "s" else _CODES)[bits]
            if bits == 128:
                return f"unpack('Q', {name}, {offset}) | unpack('Q', {name}, {offset + 8}) << 64"
            return f"unpack({code!r}, {name}, {offset})"
        whole = BITS[variable.type] == bits
        if self.slot_is_float(variable):
            if whole and as_float:
                return name
            name = f"{'copied_' * (variable.type == 'f32')}bits_of_{BITS[variable.type]}({name})"
        if not offset:
            text = name
        else:
            text = f"({name} >> {8 * offset})"
        if not whole:
            text = f"({text} & {mask(bits)})"
        if type[0] == "s":
            text = f"(({text} ^ {1 << bits - 1:#x}) - {1 << bits - 1:#x})"
        if as_float:
            return f"float_of_{bits}({text})"
        return text

    def write_slot(self, variable: Variable, offset: int, type: str, source: Operand) -> None:
        """Write a value into (part of) a parameter of a call, or a result of a function."""
        name = self.slot(variable)
        bits = BITS[type]
        if offset < 0 or offset + bits // 8 > variable.size:
            raise self.reject(f"Access past the end of parameter '{variable.name[:80]}'")
        if not variable.scalar:
            self._store_in(name, offset, type, source)
        elif offset:
            raise self.reject(f"Access inside the scalar parameter '{variable.name[:80]}' is not emulated")
        elif not self.slot_is_float(variable):
            text = self.value(source, f"b{bits}" if isinstance(source, Register) else type)
            self.put(f"{name} = bits_of_{bits}({text})" if isinstance(source, Float) else f"{name} = {text}")
        elif bits == BITS[variable.type]:
            self.put(f"{name} = {self.kept(source, variable.type)}")
        else:
            raise self.reject(f"Type .{type} does not fit parameter '{variable.name[:80]}'")

    def _store_in(self, name: str, offset: int, type: str, source: Operand) -> None:
        bits = BITS[type]
        if bits == 128:
            text = self.value(source, type)
            self.put(f"pack('Q', {name}, {offset}, {text} & {mask(64)})")
            self.put(f"pack('Q', {name}, {offset + 8}, {text} >> 64)")
            return
        as_float = isinstance(source, Register) and self.holds_float[source.index] and bits == BITS[source.type]
        if as_float:
            code = "f" if bits == 32 else "d"
        else:
            code = _CODES[bits]
        if isinstance(source, Register):
            plain = f"b{bits}"
        else:
            plain = type
        if isinstance(source, (Float, Int)) and plain in FLOAT_TYPES:
            value = f"{bits_of_constant(source, bits):#x}"
        else:
            value = self.kept(source, ("f32" if bits == 32 else "f64") if as_float else plain)
            if not as_float and plain in FLOAT_TYPES:
                value = f"bits_of_{bits}({value})"
        self.put(f"pack({code!r}, {name}, {offset}, {value})")


def _sum(start: str, offset: int) -> str:
    """Return an address plus an offset, as their sum if both are numbers."""
    if start.isdecimal():
        return str(int(start) + offset)
    if offset:
        return f"{start} + {offset}"
    return start
