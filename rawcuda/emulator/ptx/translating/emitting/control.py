"""The code of calls, returns, barriers, warp operations and atomics.

A thread that has to wait yields a request, and receives the result:

    x = yield 'shfl', 'down', mask, value, 16, 31, line
    yield 'bar', 0, 0, line

Read next    ../../running/scheduler.py, which answers requests
"""

from __future__ import annotations

from ...reading.syntax import (
    BITS,
    Address,
    Float,
    Function,
    Instruction,
    Int,
    Name,
    Pair,
    Prototype,
    Register,
    Sink,
    Sum,
    Symbol,
    Variable,
    Vector,
    signature,
)  # fmt: skip
from ..table.forms import check_read, check_written, fits
from .convert import ConvertEmitter
from .emit import FLOAT_TYPES, Note, mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Operand
    from ..table.forms import Shape

__all__ = ["ControlEmitter"]

_UPDATES = {
    "and": "{old} & {b}", "or": "{old} | {b}", "xor": "{old} ^ {b}", "exch": "{b}",
    "inc": "0 if {old} >= {b} else {old} + 1", "dec": "{b} if {old} == 0 or {old} > {b} else {old} - 1",
}  # fmt: skip
_NEVER_PASSED = ("pred", "u8", "s8", "u16", "s16")  # to functions, as scalars; .b8, .b16 and .f16 are


def _alignment(held: Variable | Register) -> int:
    """Return the alignment of a variable or a register, in bytes."""
    if isinstance(held, Variable):
        return max(held.alignment, held.element)
    return BITS[held.type] // 8


class ControlEmitter(ConvertEmitter):
    """The emitter of instructions that end, call, wait, or are atomic.

    Why long  it has a method for each instruction of its kind
    """

    def do_nothing(self, instruction: Instruction, shape: Shape) -> None:
        """Write nothing for caches and breakpoints, and for a fence only the calls that tell the checkers of it."""
        if instruction.opcode in ("membar", "fence"):
            self.put_fence(instruction, shape)
        elif any(isinstance(operand, Address) for operand in instruction.operands):
            space = self.space_of(instruction, shape)
            if instruction.opcode == "prefetchu" and space not in ("", "global"):
                raise self.reject("Non-generic address is not supported as operand for prefetchu instruction")
            if instruction.opcode == "cp":
                size = instruction.operands[1]
            else:
                size = None
            if isinstance(size, Int) and size.value % 16:
                words = f"unexpected value '{size.value}', expected to be multiple of 16"
                raise self.reject(f"Argument 1 of instruction 'cp.async.bulk.prefetch': {words}")

    def do_setmaxnreg(self, instruction: Instruction, shape: Shape) -> None:
        """Write nothing: each thread always has all of its registers."""
        if self.unit.module.target[-1] not in "af":
            verb = next(word for word in ("inc", "dec") if word in shape.chosen.values())
            raise self.reject(f"Instruction 'setmaxnreg.{verb}' not supported on .target '{self.unit.module.target}'")

    def do_ret(self, instruction: Instruction, shape: Shape) -> None:
        """Write a return."""
        self.leave()

    def do_exit(self, instruction: Instruction, shape: Shape) -> None:
        """Write the end of the thread, at any depth of calls."""
        if self.function.entry:
            self.put("return")
        else:
            self.put("raise Exited")

    def do_trap(self, instruction: Instruction, shape: Shape) -> None:
        """Write a trap."""
        self.put("L.trap()")

    def leave(self) -> None:
        """Write the end of the function, with its results."""
        function = self.function
        if function.entry:
            self.put("return")
            return
        if self.has_frame:
            self.put("T.leave()")
        elif self.nests:
            self.put("T.depth -= 1")
        results = [self.slot(variable) for variable in function.returns]
        results += [self.kept(register, register.type) for register in function.return_registers]
        if not results:
            self.put("return")
        elif len(results) == 1:
            self.put(f"return {results[0]}")
        else:
            self.put(f"return ({', '.join(results)})")

    # -- calls

    def do_call(self, instruction: Instruction, shape: Shape) -> None:
        """Write a call of a function by name or through a pointer."""
        operands = list(instruction.operands)
        returns: list[Operand] = []
        if isinstance(operands[0], Vector) and operands[0].round:
            returns = operands.pop(0).items  # type: ignore[union-attr]
        if operands:
            target = operands.pop(0)
        else:
            target = None
        arguments: list[Operand] = []
        if operands and isinstance(operands[0], Vector) and operands[0].round:
            arguments = operands.pop(0).items  # type: ignore[union-attr]
        callee = self.unit.callee(instruction)
        self.needs_thread = True
        if callee is not None:
            if callee.entry:
                raise self.reject(f"Illegal call to kernel '{callee.name[:80]}'")
            wanted: list[Variable | Register] = [*callee.parameters, *callee.parameter_registers]
            given: list[Variable | Register] = [*callee.returns, *callee.return_registers]
            if len(operands) > 0:
                raise self.mismatch(instruction)
        else:
            prototype = self._prototype(operands)
            wanted, given = [*prototype.parameters], [*prototype.returns]
        if len(arguments) != len(wanted) or len(returns) != len(given):
            raise self.reject("Call has wrong number of parameters")
        texts = [self._argument(argument, want) for argument, want in zip(arguments, wanted)]
        prototypes = self.unit.module.prototypes
        number = prototypes.setdefault(signature(wanted, given), len(prototypes))
        call = self._callee(instruction, callee, target, texts, number)
        self._results(returns, given, call)

    def _prototype(self, operands: list[Operand]) -> Prototype:
        if len(operands) == 1:
            name = operands[0]
        else:
            name = None
        if isinstance(name, Name):
            found = name.prototype
        else:
            found = None
        if found is None:
            raise self.reject("Call to indirect target requires call prototype")
        if found.labels is None:
            return found
        label = found.labels[0]
        function = label.scope.find(label.text)
        if not isinstance(function, Function):
            raise self.reject(f"Unknown symbol '{label.text[:80]}'")
        return Prototype(function.returns, function.parameters)

    def _callee(
        self,
        instruction: Instruction,
        callee: Function | None,
        target: Operand | None,
        texts: list[str],
        prototype: int,
    ) -> str:
        if callee is None:
            if not isinstance(target, Register) or BITS[target.type] != 64:
                raise self.mismatch(instruction)
            arguments = "".join(f", {text}" for text in texts)
            call = f"T.callee({self.value(target, 'b64')}, {prototype})(T{arguments})"
            if self.blocks:
                return f"(yield from finish({call}))"
            return call
        made = self.unit.prepared.get(callee.name)
        arguments = "".join(f", {text}" for text in texts)
        if made is not None:
            self.needs_functions = True
            call = f"F[{callee.index}](T{arguments})"
            if made.blocking:
                return f"(yield from {call})"
            return call
        if callee.name in self.unit.BUILTINS:
            return f"T.{callee.name.strip('_')}({', '.join(texts)})"
        raise self.reject(f"Unresolved extern function '{callee.name[:80]}'")

    def _check_passed(self, given: Operand, wanted: Variable | Register) -> None:
        """Check that an argument or a result has the type and the alignment of its parameter, as ptxas does."""
        held: Variable | Register | None = None
        if isinstance(given, Register):
            held = given
        elif isinstance(given, Symbol) and isinstance(given.target, Variable) and given.target.space == "param":
            held = given.target
            if held in self.inputs or held in self.outputs:
                raise self.reject(f"Formal parameter '{held.name[:80]}' cannot be used as argument to call")
        elif not isinstance(given, (Int, Float)):
            raise self.reject("Call argument has illegal state space")
        type = wanted.type
        array = isinstance(held, Variable) and not held.scalar
        if isinstance(wanted, Variable) and not wanted.scalar:
            fine = isinstance(held, Variable) and array and held.size == wanted.size
        elif isinstance(given, Int):
            fine = type[0] in "bus"
        elif isinstance(given, Float):
            fine = type[0] in "bf" and (type != "f16x2" or given.single is not None)
        elif isinstance(held, Register) and "." in held.name:  # a part of a vector, of which only the width counts
            fine = BITS[held.type] == BITS[type]
        else:
            has, wants = ("b32" if each == "f16x2" else each for each in (held.type if held else "", type))
            fine = not array and fits(has, wants, False)
        if type in _NEVER_PASSED and "." not in wanted.name:
            raise self.reject(f"Passing parameters of the type '.{type}' to device functions is not supported")
        if not fine:
            raise self.reject(f"Type of argument does not match formal parameter '{wanted.name[:80]}'")
        if held is not None and _alignment(held) != _alignment(wanted):
            raise self.reject(f"Alignment of argument does not match formal parameter '{wanted.name[:80]}'")

    def _argument(self, argument: Operand, wanted: Variable | Register) -> str:
        self._check_passed(argument, wanted)
        if isinstance(argument, Symbol) and isinstance(argument.target, Variable):
            variable = argument.target
            if not isinstance(wanted, Variable):
                raise self.reject(f"Argument '{variable.name[:80]}' is a variable, and the parameter is a register")
            text = self.slot(variable)
            if self.slot_is_float(variable) != self.slot_is_float(wanted):
                if self.slot_is_float(wanted):
                    way = "float_of"
                elif variable.size == 4:
                    way = "copied_bits_of"
                else:
                    way = "bits_of"
                return f"{way}_{variable.size * 8}({text})"
            return text
        if isinstance(wanted, Variable):
            if self.slot_is_float(wanted):
                type = wanted.type
            else:
                type = f"b{BITS[wanted.type]}"
        else:
            type = wanted.type
            self._same_element(argument, wanted)
            if type in FLOAT_TYPES:  # a function gets register parameters in the representation of their type
                return self.kept(argument, type)
        return self.kept(argument, type)

    def _same_element(self, argument: Operand, wanted: Variable | Register) -> None:
        """Refuse a vector for registers that are none, and the reverse."""
        if isinstance(argument, Register) and isinstance(wanted, Register):
            if argument.name.partition(".")[2] != wanted.name.partition(".")[2]:
                raise self.reject(f"Only one of {argument.name[:80]!a} and {wanted.name[:80]!a} belongs to a vector")

    def _results(self, returns: list[Operand], given: list[Variable | Register], call: str) -> None:
        if not returns:
            self.put(call)
            return
        names = [f"x{at}" for at in range(len(returns))]
        self.put(f"{', '.join(names)} = {call}")
        for name, result, shape in zip(names, returns, given):
            if isinstance(result, Sink):
                continue
            self._check_passed(result, shape)
            if isinstance(result, Symbol) and isinstance(result.target, Variable):
                if not isinstance(shape, Variable):
                    raise self.reject(f"Result '{result.target.name[:80]}' is a variable, and not a register")
                has, wants = self.slot_is_float(shape), self.slot_is_float(result.target)
                if has != wants:
                    if wants:
                        way = "float_of"
                    elif shape.size == 4:
                        way = "copied_bits_of"
                    else:
                        way = "bits_of"
                    name = f"{way}_{shape.size * 8}({name})"
                self.put(f"{self.slot(result.target)} = {name}")
            elif isinstance(result, Register):
                type = shape.type
                self._same_element(result, shape)
                self.assign(result, type if type in (*FLOAT_TYPES, "pred") else f"b{BITS[type]}", name, kept=True)
            else:
                raise self.reject("Result register required for instruction 'call'")

    # -- barriers

    def do_bar(self, instruction: Instruction, shape: Shape) -> None:
        """Write a barrier of the block, which waits or only arrives."""
        if len(instruction.operands) > 1:
            count = instruction.operands[1]
        else:
            count = None
        if "arrive" in shape.chosen:
            verb = "arrive"
        else:
            verb = "sync"
        if verb == "arrive" and isinstance(count, Int) and not count.value:
            raise self.reject("Instruction 'bar.arrive' requires a non-zero thread count argument")
        self.put(
            f"yield 'bar', {self._barrier(instruction.operands[0])}, {self._count(count)}, {verb!r}, None, "
            f"{self.line}, {self._aligned(instruction)}"
        )

    def _barrier(self, operand: Operand) -> str:
        if isinstance(operand, Int) and operand.value & 0xFFFFFFFF > 15:
            raise self.reject(f"Barrier number '{operand.value}' out of range, expected to be in range [0..15]")
        text = self.value(operand, "u32")
        if isinstance(operand, Int):
            return text
        return f"barrier({text})"

    def _count(self, operand: Operand | None) -> str:
        if isinstance(operand, Int) and operand.value & 0xFFFFFFFF & 31:
            raise self.reject(f"Thread count '{operand.value}' of a barrier is not a multiple of 32")
        if operand is None:
            return "0"
        return self.value(operand, "u32")

    def do_bar_red(self, instruction: Instruction, shape: Shape) -> None:
        """Write a barrier with a vote."""
        operands = list(instruction.operands)
        if len(operands) == 4:
            count = operands.pop(2)
        else:
            count = None
        target, barrier, source = operands
        verb = next(word for word in ("popc", "and", "or") if word in shape.chosen.values())
        if verb == "popc":
            type = "u32"
        else:
            type = "pred"
        check_read(instruction, source, "pred", False)
        if count is not None:
            check_read(instruction, count, "u32", False)
        text = self.value(source, "pred")
        self.put(
            f"x = yield 'bar', {self._barrier(barrier)}, {self._count(count)}, {verb!r}, {text}, {self.line}, "
            f"{self._aligned(instruction)}"
        )
        self.assign(target, type, "x")

    def _aligned(self, instruction: Instruction) -> bool:
        return instruction.opcode == "bar" or "aligned" in instruction.modifiers

    # -- warps

    def _mask(self, instruction: Instruction, at: int) -> str:
        module = self.unit.module
        if "sync" not in instruction.modifiers and instruction.opcode in ("shfl", "vote"):
            if module.architecture >= (7, 0) and module.version >= (6, 4):
                raise self.reject(
                    f"Instruction '{instruction.opcode}' without '.sync' is not supported on .target sm_70 and higher "
                    "from PTX ISA version 6.4"
                )
        if len(instruction.operands) > at:
            return self.value(instruction.operands[at], "b32")
        return "None"

    def _two(self, target: Operand, type: str) -> None:
        """Store x, a pair of value and predicate, into `d|p`; the value is another lane's, whose bits stay."""
        if isinstance(target, Pair):
            self.put("x, y = x")
            if isinstance(target.first, Register):
                self.assign(target.first, type, "x", kept=True)
            if isinstance(target.second, Register):
                self.assign(target.second, "pred", "y")
        else:
            self.assign(target, type, "x[0]", kept=True)

    def _check_pair(self, instruction: Instruction, bits: int, may_sink: bool = False) -> None:
        target = instruction.operands[0]
        if isinstance(target, Pair):
            first = target.first
        else:
            first = target
        if isinstance(target, Pair):
            second = target.second
        else:
            second = None
        if not isinstance(first, Register):
            if may_sink and isinstance(second, Register) and second.type == "pred":
                return
            raise self.reject(f"Result discard mode is not allowed for instruction '{instruction.opcode}'")
        if isinstance(first, Sum):
            raise self.reject(f"Result register required for instruction '{instruction.opcode}'")
        if BITS[first.type] != bits or may_sink and "f" in first.type:
            raise self.mismatch(instruction)
        if isinstance(second, Register) and second.type != "pred":
            raise self.mismatch(instruction)

    def do_shfl(self, instruction: Instruction, shape: Shape) -> None:
        """Write a read of another lane's value."""
        self._check_pair(instruction, 32)
        target, a, b, c = instruction.operands[:4]
        if isinstance(target, Pair):
            first = target.first
        else:
            first = target
        type = self.carried(first, "b32")
        mode = shape.chosen["shfl"]
        mask = self._mask(instruction, 4)
        self.put(
            f"x = yield 'shfl', {mode!r}, {mask}, {self.line}, {self.value(a, type)}, {self.value(b, 'b32')}, "
            f"{self.value(c, 'b32')}"
        )
        self._two(target, type)

    def do_vote(self, instruction: Instruction, shape: Shape) -> None:
        """Write a vote of the warp."""
        target, source = instruction.operands[:2]
        verb = next(word for word in ("all", "any", "uni", "ballot") if word in shape.chosen.values())
        self.put(f"x = yield 'vote', {verb!r}, {self._mask(instruction, 2)}, {self.line}, {self.value(source, 'pred')}")
        self.assign(target, "b32" if verb == "ballot" else "pred", "x")

    def do_match(self, instruction: Instruction, shape: Shape) -> None:
        """Write a search for the lanes with the same value."""
        self._check_pair(instruction, 32, True)
        target, source = instruction.operands[:2]
        if "all" in shape.chosen:
            verb = "all"
        else:
            verb = "any"
        if verb == "any" and isinstance(target, Pair):
            raise self.mismatch(instruction)
        self.put(
            f"x = yield 'match', {verb!r}, {self._mask(instruction, 2)}, {self.line}, {self.value(source, shape.type)}"
        )
        self._two(target, "b32")

    def do_redux(self, instruction: Instruction, shape: Shape) -> None:
        """Write a reduction over the warp."""
        target, source = instruction.operands[:2]
        verb = next(word for word in ("add", "min", "max", "and", "or", "xor") if word in shape.chosen.values())
        if shape.type == "s32":
            value = self.signed(source, shape.type)
        else:
            value = self.value(source, shape.type)
        if shape.type == "f32":
            module = self.unit.module
            if module.target[-1] not in "af" or module.architecture[0] != 10:
                raise self.reject(f"Instruction 'redux.f32' not supported on .target '{module.target}'")
            if "abs" in shape.chosen:
                value = f"abs({value})"
            verb = f"{verb}.{'NaN' if 'NaN' in shape.chosen else 'f32'}"
            self.put(f"x = yield 'redux', {verb!r}, {self._mask(instruction, 2)}, {self.line}, {value}")
            self.assign(target, "f32", "x")
            return
        self.put(f"x = yield 'redux', {verb!r}, {self._mask(instruction, 2)}, {self.line}, {value}")
        self.assign(target, "b32", "x & 0xffffffff")

    def do_warp_sync(self, instruction: Instruction, shape: Shape) -> None:
        """Write a barrier of the warp."""
        self.put(f"yield 'syncwarp', '', {self._mask(instruction, 0)}, {self.line}")

    def do_activemask(self, instruction: Instruction, shape: Shape) -> None:
        """Write a query for the active lanes."""
        self.put(f"x = yield 'activemask', '', None, {self.line}")
        self.assign(instruction.operands[0], "b32", "x")

    def do_elect(self, instruction: Instruction, shape: Shape) -> None:
        """Write the election of a lane."""
        self._check_pair(instruction, 32, True)
        target = instruction.operands[0]
        if not isinstance(target, Pair) or not isinstance(target.second, Register):
            raise self.reject("Predicate output expected for instruction 'elect'")
        self.put(f"x = yield 'elect', '', {self._mask(instruction, 1)}, {self.line}")
        self._two(instruction.operands[0], "b32")

    def do_nanosleep(self, instruction: Instruction, shape: Shape) -> None:
        """Write a pause in which other threads run."""
        self.put(f"yield 'spin', {self.line}")

    # -- atomics

    def do_atom(self, instruction: Instruction, shape: Shape) -> None:
        """Write an atomic operation."""
        returns = instruction.opcode == "atom"
        operands = instruction.operands
        space = self.space_of(instruction, shape)
        if space in ("const", "local", "param"):
            raise self.reject(f"State space incorrect for instruction '{instruction.opcode}'")
        address = operands[1 if returns else 0]
        assert isinstance(address, Address)
        sources = operands[2 if returns else 1 :]
        type = shape.type
        verb = next(word for word in ("cas", "exch", "add", "inc", "dec", "min", "max", "and", "or", "xor")
                    if word in shape.chosen.values())  # fmt: skip
        as_float = type in FLOAT_TYPES
        code = {"f32": "f", "f64": "d"}.get(type) or {16: "H", 32: "I", 64: "Q", 128: "Q"}[BITS[type]]
        view, index, note = self.place(space, address, code, BITS[type] // 8, f"atomic {verb}")
        values = [self.value(source, type) for source in sources]
        self.put(f"j = {index}", note)
        order = shape.chosen.get("sem", "relaxed")
        strength = f"{order}.{shape.chosen.get('scope', 'gpu')}"
        if type == "b128":
            held = f"{view}[j] | {view}[j + 1] << 64"
        else:
            held = f"{view}[j]"
        if verb == "cas":
            changes = f"({held}) == {values[0]}"
        else:
            changes = "True"
        takes = {"cas": f"{values[0]} != {values[-1]}", "exch": f"({held}) != {values[0]}", "or": f"not {held}"}
        count, result = 2 if type == "b128" else 1, operands[0] if returns else None
        sees = verb in ("cas", "exch") or isinstance(result, Register) and result.index in self.judged
        if sees:
            taken = takes.get(verb, "")
        else:
            taken = ""
        self.touch_atomic(space, "j", code, count, verb == "exch", note, strength, changes, taken, sees)
        self.put(f"x = {held}", note)
        if verb in ("cas", "exch") or order != "relaxed":
            self.put_order(True)
        new = self._updated(verb, type, shape, values)
        if verb == "cas":
            self.put(f"if x == {values[0]}:")
            self.indent += 1
            self._put_atom(view, type, values[1], note)
            self.indent -= 1
        elif type == "f32" and verb == "add":
            self._put_sum(space, address, view, "j", "x", values[0], note)
        else:
            self._put_atom(view, type, new, note)
        if returns and not isinstance(operands[0], Sink):
            self.assign(operands[0], type if as_float else f"b{BITS[type]}", "x", kept=True)

    def _put_atom(self, view: str, type: str, value: str, note: Note) -> None:
        if type == "b128":
            self.put(f"{view}[j] = ({value}) & {mask(64)}; {view}[j + 1] = ({value}) >> 64", note)
        else:
            self.put(f"{view}[j] = {value}", note)

    def _put_sum(
        self, space: str, address: Address, view: str, index: str, old: str, value: str, note: Note
    ) -> None:  # fmt: skip
        """Write an addition of float32. In global memory it flushes subnormal numbers; in shared memory, it does not.

        Source  ptxas 13.0: ATOMG.E.ADD.F32.FTZ.RN for global memory, FADD and a compare-and-swap for shared memory
        """
        plain = f"T4[0] = {old} + {value}; y = T4[0]"
        flushing = f"T4[0] = {self.flushed(old)} + {self.flushed(value)}; y = T4[0]; y = {self.flushed('y')}"
        if space:
            self.put(flushing if space == "global" else plain)
        else:
            base, offset = self._address(address)
            self.put(f"if 0 <= {base} + {offset - self.unit.WINDOWS['shared']} < {1 << 32:#x}: {plain}")
            self.put(f"else: {flushing}")
        self.put(f"{view}[{index}] = y if y == y else NAN", note)

    def do_atom_vector(self, instruction: Instruction, shape: Shape) -> None:
        """Write a vector of atomic operations."""
        operands = instruction.operands
        returns = instruction.opcode == "atom"
        count = int(shape.chosen["vec"][1:])
        type = shape.type
        width = BITS[type] // 8
        address, given = operands[-2:]
        if returns:
            targets = operands[0]
        else:
            targets = None
        space = self.space_of(instruction, shape)
        assert isinstance(address, Address)
        if not isinstance(given, Vector) or len(given.items) != count or width * count not in (4, 8, 16):
            raise self.mismatch(instruction)
        for item in given.items:
            check_read(instruction, item, type, False)
        if returns:
            if not isinstance(targets, Vector) or len(targets.items) != count:
                raise self.mismatch(instruction)
            for item in targets.items:
                check_written(instruction, item, type, False)
        values = [self.value(item, type) for item in given.items]
        verb = next(word for word in ("add", "min", "max") if word in shape.chosen.values())
        code = {"f32": "f"}.get(type) or {2: "H", 4: "I"}[width]
        view, index, note = self.place(space, address, code, width * count, f"atomic {verb}")
        self.put(f"j = {index}", note)
        self.touch_atomic(space, "j", code, count, False, note)
        self.put(f"x = {view}[j:j + {count}].tolist()", note)
        for at, value in enumerate(values):
            if type == "f32":
                self._put_sum(space, address, view, f"j + {at}", f"x[{at}]", value, note)
            else:
                self.put(f"{view}[j + {at}] = HALVES['{verb} {type} '](x[{at}], {value})", note)
        if isinstance(targets, Vector):
            for at, target in enumerate(targets.items):
                if not isinstance(target, Sink):
                    self.assign(target, type if type == "f32" else f"b{BITS[type]}", f"x[{at}]", kept=True)

    def _updated(self, verb: str, type: str, shape: Shape, values: list[str]) -> str:
        b = values[0]
        if verb in _UPDATES:
            return _UPDATES[verb].replace("{old}", "x").replace("{b}", b)
        if verb == "add":
            if type in FLOAT_TYPES:
                return f"x + {b}"
            if "f16" in type:
                return f"HALVES['add {type} '](x, {b})"
            return f"x + {b} & {(1 << BITS[type]) - 1:#x}"
        if verb in ("min", "max"):
            if verb == "min":
                sign = "<"
            else:
                sign = ">"
            if type[0] == "s":
                top = f"{1 << BITS[type] - 1:#x}"
                return f"x if x ^ {top} {sign} {b} ^ {top} else {b}"
            return f"x if x {sign} {b} else {b}"
        return ""
