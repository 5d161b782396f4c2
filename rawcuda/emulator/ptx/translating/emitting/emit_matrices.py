"""The code of tensor cores: operations of a whole warp, which the scheduler answers for all lanes at once.

Read next    ptx/running/units/matrix_units.py
"""

from __future__ import annotations

from ...reading.syntax import Address, Float, Int, Register, Vector
from ..table.forms import check_read
from .control import ControlEmitter
from .emit import Note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ..table.forms import Shape

__all__ = ["MatrixEmitter"]

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s4": 4, "u4": 4, "b1": 1, "s32": 32}


class MatrixEmitter(ControlEmitter):
    """The emitter of instructions on matrices."""

    def everywhere(self, instruction: Instruction, address: Address, space: str) -> str:
        """Return an address in a state space (or "" for a generic one) as a generic address."""
        raise NotImplementedError

    def _items(
        self, instruction: Instruction, operand: Operand, count: int, held: str = "b32", *, read: bool = False
    ) -> list[Operand]:
        """Return the registers (or constants, if they are read) of a fragment, after a check of number and class."""
        if not isinstance(operand, Vector):
            raise self.reject(f"Vector expected for an argument of instruction '{instruction.opcode}'")
        if len(operand.items) != count:
            raise self.mismatch(instruction)
        for item in operand.items:
            if read and isinstance(item, (Int, Float)):
                check_read(instruction, item, held, False)
            elif not isinstance(item, Register):
                raise self.mismatch(instruction)
        return list(operand.items)

    def _shape(self, shape: Shape) -> tuple[str, int, int, int]:
        for word in shape.form.choices:
            name = word[0]
            if name[0] == "m" and name[1:2].isdecimal() and "k" in name:
                m, _, rest = name[1:].partition("n")
                n, _, k = rest.partition("k")
                return name, int(m), int(n), int(k)
        raise AssertionError(shape.form.opcode)

    def do_mma(self, instruction: Instruction, shape: Shape) -> None:
        """Write a product of matrices."""
        name, m, n, k = self._shape(shape)
        if len(shape.types) == 4:
            types = shape.types
        else:
            types = (shape.types[0], "f16", "f16", shape.types[1])
        fragments = instruction.opcode == "wmma"
        if (name, types[1], fragments) == ("m8n8k4", "f16", False):
            groups = 4
        else:
            groups = 1
        operands = instruction.operands
        given = []
        for at, (type, count) in enumerate(zip(types, (m * n, m * k, k * n, m * n))):
            bits = _BITS.get(type, 8)
            per_lane = count * groups * bits // (2048 if type == "f64" else 1024)
            if fragments and at in (1, 2):
                if type == "f16":
                    per_lane = 8
            held = {"f32": "f32", "f64": "f64"}.get(type, "b32")
            items = self._items(instruction, operands[at], max(per_lane, 1), held, read=at == 3)
            reals = [item for item in items if isinstance(item, Register) and item.type == "f32"]
            if reals and held == "b32" and at in (1, 2):
                raise self.mismatch(instruction)
            if not at:
                targets, made = items, held
            else:
                given.append("(" + "".join(f"{self.value(item, held)}, " for item in items) + ")")
        if name == "m8n8k4" and groups == 4 and types[0] == "f16" and types[3] == "f32":
            raise self.reject("Illegal matrix types specified for instruction 'mma'")
        layouts = [word for word in instruction.modifiers if word in ("row", "col")]
        flags = [word for word in ("satfinite", "xor", "and", "rz", "rm", "rp") if word in instruction.modifiers]
        text = ".".join([instruction.opcode, name, *layouts, *flags, *types])
        self.put(f"x = yield 'mma', {text!r}, 0xffffffff, {self.line}, ({', '.join(given)})")
        self._spread(targets, made)

    def _spread(self, targets: list[Operand], type: str) -> None:
        for at, target in enumerate(targets):
            self.assign(target, type, f"x[{at}]")

    def _watch(self) -> None:
        """Make sure that the checker of shared memory exists: the functions that access ranges notify it."""
        self.needs_watch = self.needs_watch or bool(self.granule)

    def _matter(self, targets: list[Operand]) -> bool:
        """Tell whether what is loaded is used for more than a store."""
        return any(isinstance(each, Register) and each.index in self.judged for each in targets)

    # -- fragments in memory

    def _fragment(self, instruction: Instruction, shape: Shape, matrix: str) -> tuple[str, int, str]:
        name, m, n, k = self._shape(shape)
        type = shape.type
        count = {"a": m * k, "b": k * n}.get(matrix, m * n)
        each = max(count * _BITS.get(type, 8) // (2048 if type == "f64" else 1024), 1)
        if type == "f16" and matrix in "ab":
            each = 8
        if "row" in instruction.modifiers:
            layout = "row"
        else:
            layout = "col"
        return f"{name}.{matrix}.{type}.{layout}", each, {"f32": "f32", "f64": "f64"}.get(type, "b32")

    def _where(self, instruction: Instruction, shape: Shape, address: Operand, stride: Operand | None) -> str:
        self.needs_thread = True
        self._watch()
        assert isinstance(address, Address)
        space = shape.chosen.get("matrix_space", "").partition("::")[0]
        if stride is not None:
            given = self.value(stride, "u32")
        else:
            given = "None"
        return f"{self.everywhere(instruction, address, space)}, {given}"

    def do_wmma_load(self, instruction: Instruction, shape: Shape) -> None:
        """Write the load of a fragment, each lane for itself."""
        matrix = next(word for word in ("a", "b", "c") if word in shape.chosen.values())
        key, count, type = self._fragment(instruction, shape, matrix)
        operands = instruction.operands
        targets = self._items(instruction, operands[0], count, type)
        where = self._where(instruction, shape, operands[1], operands[2] if len(operands) == 3 else None)
        matters = self._matter(targets)
        self.put(f"x = fetch_fragment(T, {key!r}, {where}, {self.line}, {matters})", Note("generic", "read", 16, "", 0))
        self._spread(targets, type)

    def do_wmma_store(self, instruction: Instruction, shape: Shape) -> None:
        """Write the store of a fragment, each lane for itself."""
        key, count, type = self._fragment(instruction, shape, "d")
        operands = instruction.operands
        items = self._items(instruction, operands[1], count, type, read=True)
        where = self._where(instruction, shape, operands[0], operands[2] if len(operands) == 3 else None)
        values = "".join(f"{self.value(item, type)}, " for item in items)
        self.put(f"store_fragment(T, {key!r}, {where}, ({values}), {self.line})", Note("generic", "write", 16, "", 0))

    # -- ldmatrix, stmatrix, movmatrix

    def _rows(self, instruction: Instruction, shape: Shape, address: Operand) -> tuple[int, str, str]:
        self.needs_thread = True
        self._watch()
        assert isinstance(address, Address)
        count = int(next(word for word in ("x1", "x2", "x4") if word in shape.chosen.values())[1])
        if "incta" in shape.chosen:
            space = "shared"
        else:
            space = ""
        verb = f"{count}.{'trans' if 'trans' in shape.chosen else ''}"
        return count, verb, self.everywhere(instruction, address, space)

    def do_ldmatrix(self, instruction: Instruction, shape: Shape) -> None:
        """Write the load of matrices whose rows the lanes name."""
        target, address = instruction.operands
        count, verb, where = self._rows(instruction, shape, address)
        targets = self._items(instruction, target, count)
        note = Note("shared", "read", 16, "", 0)
        self.put(f"x = fetch_row(T, {where}, {8 * count}, 16, {self.line}, {self._matter(targets)})", note)
        self.put(f"x = yield 'ldmatrix', {verb!r}, 0xffffffff, {self.line}, x")
        self._spread(targets, "b32")

    def do_stmatrix(self, instruction: Instruction, shape: Shape) -> None:
        """Write the store of matrices whose rows the lanes name."""
        address, source = instruction.operands
        count, verb, where = self._rows(instruction, shape, address)
        items = self._items(instruction, source, count)
        values = "".join(f"{self.value(item, 'b32')}, " for item in items)
        self.put(f"x = yield 'stmatrix', {verb!r}, 0xffffffff, {self.line}, ({values})")
        self.put(f"store_row(T, {where}, x, {self.line})", Note("shared", "write", 16, "", 0))

    def do_movmatrix(self, instruction: Instruction, shape: Shape) -> None:
        """Write the transposition of a matrix in registers."""
        target, source = instruction.operands
        self.put(f"x = yield 'movmatrix', '', 0xffffffff, {self.line}, {self.value(source, 'b32')}")
        self.assign(target, "b32", "x")
