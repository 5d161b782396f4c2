"""The code of asynchronous copies and of barriers in shared memory: calls of the block's `Late`.

Source       PTX ISA, "Asynchronous copy operations", "mbarrier"
Read next    ptx/running/units/late_units.py
"""

from __future__ import annotations

from ...reading.syntax import BITS, Address, Float, Int, Not, Register, Sink, Symbol, Texel, Variable
from ..table.forms import check_read
from .emit import FLOAT_TYPES, Note
from .emit_clusters import ClusterEmitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...reading.syntax import Instruction, Operand
    from ..table.forms import Shape

__all__ = ["AsyncEmitter"]


class AsyncEmitter(ClusterEmitter):
    """The emitter of instructions whose effect is delayed.

    Why long  it has a method for each instruction of its kind
    """

    def started(self) -> str:
        """Return the expression for the block's `Late`."""
        self.needs_block = True
        return "(B.late or started(B))"

    def put_fence(self, instruction: Instruction, shape: Shape) -> None:
        """Write the calls that tell the checkers of a fence, which may order bulk copies after plain writes."""
        super().put_fence(instruction, shape)
        if self.granule and any(word.partition("::")[0] == "async" for word in instruction.modifiers):
            self.put(f"{self.started()}.fence_proxy()")

    def point(self, instruction: Instruction, address: Address, named: str) -> tuple[str, bool]:
        """Return an address of shared memory as an expression, and whether it is generic."""
        base = address.base
        if isinstance(base, Symbol):
            if not isinstance(base.target, Variable) or base.target.space != "shared":
                raise self.reject(
                    f"State space mismatch between instruction and address in instruction '{instruction.opcode}'"
                )
            return self.symbol(Symbol(base.target, base.offset + address.offset)), False
        if not isinstance(base, Register):
            raise self.reject("Immediate addresses allowed only for .local state space")
        if base.type[0] == "f" or BITS[base.type] not in (32, 64) or not named and BITS[base.type] != 64:
            raise self.mismatch(instruction)
        text = self.value(base, f"b{BITS[base.type]}")
        return f"{text} + {address.offset}" if address.offset else text, not named

    def everywhere(self, instruction: Instruction, address: Address, space: str) -> str:
        """Return an address in a state space (or "" for a generic one) as a generic address."""
        base = address.base
        if isinstance(base, Symbol):
            if isinstance(base.target, Variable):
                held = base.target.space
            else:
                held = "function"
            if held == "function" or space and held != space:
                raise self.reject(
                    f"State space mismatch between instruction and address in instruction '{instruction.opcode}'"
                )
            text, space = self.symbol(Symbol(base.target, base.offset + address.offset)), held
        elif isinstance(base, Register):
            wide = BITS[base.type]
            if base.type[0] == "f" or wide not in (32, 64) or wide == 32 and space == "global":
                raise self.mismatch(instruction)
            text = self.value(base, f"b{wide}")
            if address.offset:
                text = f"{text} + {address.offset}"
        else:
            raise self.mismatch(instruction)
        window = self.unit.WINDOWS.get(space)
        if window is not None:
            return f"{text} + {window:#x}"
        return text

    # -- groups

    def do_group(self, instruction: Instruction, shape: Shape) -> None:
        """Write the end of a group of copies, or a wait for groups."""
        if "bulk" in instruction.modifiers:
            kind = "bulk"
        else:
            kind = "cp"
        if shape.has("commit_group"):
            self.put(f"{self.started()}.commit({kind!r})")
            return
        if instruction.operands:
            most = instruction.operands[0]
        else:
            most = None
        reads = ", True" if shape.has("read") else ""
        self.put(f"{self.started()}.wait({kind!r}, {most.value if isinstance(most, Int) else -1}{reads})")

    def do_cp_async(self, instruction: Instruction, shape: Shape) -> None:
        """Write the start of a copy of 4 to 16 bytes from global to shared memory."""
        operands = list(instruction.operands)
        if shape.has("L2::cache_hint"):
            check_read(instruction, operands.pop(), "u64", False)
        target, source, size = operands[:3]
        assert isinstance(target, Address) and isinstance(source, Address)
        self.everywhere(instruction, target, "shared")
        self.everywhere(instruction, source, "global")
        if (
            not isinstance(size, Int)
            or size.value not in (4, 8, 16)
            or ("cg" in shape.chosen.values() and size.value != 16)
        ):
            raise self.reject("Copy size of 'cp.async' must be 4, 8 or 16 bytes, and 16 with '.cg'")
        total = size.value
        if len(operands) == 4:
            wanted = operands[3]
        else:
            wanted = None
        if isinstance(wanted, (Register, Not)) and (isinstance(wanted, Not) or wanted.type == "pred"):
            self.put(f"u = 0 if {self.value(wanted, 'pred')} else {total}")
        elif wanted is not None:
            check_read(instruction, wanted, "u32", False)
            if isinstance(wanted, Int) and wanted.value > total:
                raise self.reject(f"Source size {wanted.value} of 'cp.async' is larger than its copy size {total}")
            if isinstance(wanted, Int) and wanted.value == total:
                wanted = None
            else:
                self.put(f"u = min({self.value(wanted, 'u32')}, {total})")
        _, index, note = self._place_shared(target, "B", total, "write")
        self.put(f"k = {index}; s_B[k + {total - 1}]", note)
        late = self.started()
        if wanted is None:
            view, index, note = self._place_global("global", source, "B", total, "read")
            self._put_read(note, str(total))
            self.put(f"{late}.copy_group(k, {total}, {view}, {index}, {total}, {self.line})", note)
            return
        base, offset = self._address(source)
        note = Note("global", "read", total, base, offset)
        self.put(f"if u == {total}:")
        self.indent += 1
        view, index, _ = self._place_global("global", source, "B", total, "read")
        self.put(f"w, j = {view}, {index}")
        self.indent -= 1
        self.put("elif u:")
        self.indent += 1  # only these bytes are read, and must be accessible
        self.put(f"w, j, _ = L.reach({base}, {offset}, 'B', 1); L.reach({base}, {offset} + u - 1, 'B', 1)", note)
        self.put(f"if {base} + {offset} & {total - 1}: L.reach({base}, {offset}, 'B', {total})", note)
        self.put(f"j = {base} - j")
        self.indent -= 1
        self.put("else:")
        self.put("    w, j = b'', 0")
        if self.unit.races:
            self.put("if u:")
            self.indent += 1
            self._put_read(note, "u")
            self.indent -= 1
        self.put(f"{late}.copy_group(k, {total}, w, j, u, {self.line})", note)

    def _put_read(self, note: Note, total: str) -> None:
        """Write the call that tells the history of the read of a copy."""
        if self.unit.races:
            self.needs_past = True
            self.put(f"past_read({self._generic(note)}, {total}, {self._place()}, 0)", note)

    def do_copies_arrive(self, instruction: Instruction, shape: Shape) -> None:
        """Write an arrival that happens when the thread's copies are complete."""
        where = self._barrier_at(instruction, instruction.operands[0], shape)
        self.put(f"{self.started()}.arrive_after_copies({where}, {shape.has('noinc')})")

    # -- mbarrier

    def _barrier_at(self, instruction: Instruction, operand: Operand, shape: Shape, named: str = "") -> str:
        assert isinstance(operand, Address)
        spaces = [word for word in instruction.modifiers if word.partition("::")[0] == "shared"]
        address, generic = self.point(instruction, operand, named or "".join(spaces))
        return f"{address}, {generic}"

    def do_mbarrier(self, instruction: Instruction, shape: Shape) -> None:
        """Write an operation on a barrier in shared memory."""
        words, operands = instruction.modifiers, instruction.operands
        verb = next(word for word in words if word in _VERBS)
        late = self.started()
        if verb == "pending_count":
            self.assign(operands[0], "b32", f"{self.value(operands[1], 'b64')} & 0xfffff")
            return
        address = next(each for each in operands if isinstance(each, Address))
        rest = operands[operands.index(address) + 1 :]
        where = self._barrier_at(instruction, address, shape)
        numbers = [self.value(each, "b64" if each is rest[0] and "wait" in verb and "parity" not in words else "u32")
                   for each in rest]  # fmt: skip
        self.put_order()
        if verb == "init":
            self.put(f"{late}.init({where}, {numbers[0]})")
        elif verb == "inval":
            self.put(f"{late}.invalidate({where})")
        elif verb in ("expect_tx", "complete_tx") and "arrive" not in words and "arrive_drop" not in words:
            if verb == "complete_tx":
                sign = "-"
            else:
                sign = ""
            self.put(f"{late}.transact({where}, {sign}{numbers[0]})")
        elif verb in ("test_wait", "try_wait"):
            call = f"{late}.passed({where}, {numbers[0]}, {'parity' in words})"
            self.put(f"x = {call}")
            self.put("if not x:")
            self.indent += 1
            self.put(f"yield 'spin', {self.line}")
            self.put(f"x = {call}")
            self.indent -= 1
            self.assign(operands[0], "pred", "x")
        else:
            self._arrive(operands[0], where, numbers, words)

    def _arrive(self, target: Operand, where: str, numbers: list[str], words: tuple[str, ...]) -> None:
        expects = "expect_tx" in words
        if numbers and not expects and "noComplete" not in words and self.unit.module.architecture < (9, 0):
            raise self.reject(".noComplete modifier required for instruction 'mbarrier.arrive with count argument'")
        if numbers and not expects:
            count = numbers[0]
        else:
            count = "1"
        if expects:
            nbytes = numbers[0]
        else:
            nbytes = "0"
        completes = "noComplete" not in words
        call = f"{self.started()}.arrive({where}, {count}, {nbytes}, {'arrive_drop' in words}, {completes})"
        if isinstance(target, (Sink, Address)):
            self.put(call)
        else:
            self.assign(target, "b64", call)

    # -- bulk copies

    def do_bulk(self, instruction: Instruction, shape: Shape) -> None:
        """Write the start of a copy of many bytes."""
        words, operands = instruction.modifiers, list(instruction.operands)
        target, source, size = operands[:3]
        assert isinstance(target, Address) and isinstance(source, Address)
        if isinstance(size, Int) and size.value % 16:
            raise self.reject(f"Size {size.value} of a bulk copy is not a multiple of 16")
        self.needs_thread = True
        count = self.value(size, "u32")
        late = self.started()
        if shape.type:
            kind = f"{shape.type}.{next((word for word in words if word in _REDUCTIONS), '')}"
        else:
            kind = "."
        if "bulk_group" in words:
            if "cp_mask" in words:
                mask = self.value(operands[-1], "u16")
            else:
                mask = "None"
            to, of = self.everywhere(instruction, target, "global"), self.everywhere(instruction, source, "shared")
            self.put(
                f"bulk_out(T, {late}, {to}, {of}, {count}, {kind!r}, {mask}, {self.line})",
                Note("global", "write", 16, "", 0),
            )
            return
        place, _ = self.point(instruction, target, "shared")
        barrier = operands[3]
        assert isinstance(barrier, Address)
        at, _ = self.point(instruction, barrier, "shared")
        if "multicast::cluster" in words:
            ranks = self.value(operands[4], "u16")
        else:
            ranks = "0"
        if "global" in words:
            space = "global"
        else:
            space = "shared"
        of = self.everywhere(instruction, source, space)
        self.put(
            f"bulk_in(T, {late}, {place}, {of}, {count}, {at}, {ranks}, {kind!r}, {self.line})",
            Note(space, "read", 16, "", 0),
        )

    def _coordinates(self, instruction: Instruction, shape: Shape, texel: Operand) -> tuple[str, str]:
        """Return the address of a tensor map, and the coordinates of a box."""
        assert isinstance(texel, Texel)
        rank = int(shape.chosen["dims"][0])
        items = texel.coordinates.items
        if len(items) != rank:
            raise self.mismatch(instruction)
        for item in items:
            check_read(instruction, item, "s32", False)
        if isinstance(texel.base, Symbol):
            space = "global"
        else:
            space = ""
        where = self.everywhere(instruction, Address(texel.base, texel.offset), space)
        return where, f"({''.join(self.signed(item, 's32') + ', ' for item in items)})"

    def do_tensor(self, instruction: Instruction, shape: Shape) -> None:
        """Write the start of a copy of a box, as a tensor map describes it."""
        words, operands = instruction.modifiers, instruction.operands
        self.needs_thread = True
        late = self.started()
        texel = next(each for each in operands if isinstance(each, Texel))
        first = next(each for each in operands if isinstance(each, Address))
        where, coordinates = self._coordinates(instruction, shape, texel)
        place, _ = self.point(instruction, first, "shared")
        if "bulk_group" in words:
            if "reduce" in words:
                verb = next((word for word in words if word in _REDUCTIONS), "")
            else:
                verb = ""
            self.put(
                f"tensor_out(T, {late}, {where}, {coordinates}, {place}, {verb!r}, {self.line})",
                Note("global", "write", 16, "", 0),
            )
            return
        barrier = operands[2]
        assert isinstance(barrier, Address)
        at, _ = self.point(instruction, barrier, "shared")
        if "multicast::cluster" in words:
            ranks = self.value(operands[3], "u16")
        else:
            ranks = "0"
        self.put(
            f"tensor_in(T, {late}, {where}, {coordinates}, {place}, {at}, {ranks}, {self.line})",
            Note("global", "read", 16, "", 0),
        )

    def do_policy(self, instruction: Instruction, shape: Shape) -> None:
        """Write a policy of the cache, which has no effect."""
        target = instruction.operands[0]
        if isinstance(target, Register) and target.type == "f64":
            raise self.mismatch(instruction)
        if shape.has("range"):
            self.space_of(instruction, shape)
            first, all_of_it = instruction.operands[2:]
            if isinstance(first, Int) and isinstance(all_of_it, Int) and first.value % 2**32 > all_of_it.value % 2**32:
                raise self.reject(
                    f"Argument 3 of instruction 'createpolicy.range': value '{first.value}' must be less than or equal "
                    f"to the value '{all_of_it.value}' of argument 4"
                )
        self.assign(target, "b64", "0")

    def do_st_bulk(self, instruction: Instruction, shape: Shape) -> None:
        """Write zeros to a range of shared memory."""
        self.needs_thread = True
        target, size, _ = instruction.operands
        assert isinstance(target, Address)
        if "shared::cta" in shape.chosen and not isinstance(target.base, Register):
            raise self.reject("Argument 0 of instruction 'st.bulk': must be register")
        if isinstance(size, Int) and size.value % 8:
            raise self.reject(
                f"Argument 1 of instruction 'st.bulk': unexpected value '{size.value}', expected to be multiple of 8"
            )
        where = self.everywhere(instruction, target, "shared" if "shared::cta" in shape.chosen else "")
        self.put(f"store_zeros(T, {where}, {self.value(size, 'u64')}, {self.line})", Note("shared", "write", 8, "", 0))

    def do_discard(self, instruction: Instruction, shape: Shape) -> None:
        """Write the end of what a line of global memory holds."""
        self.needs_thread = True
        target = instruction.operands[0]
        assert isinstance(target, Address)
        self.space_of(instruction, shape)
        where = self.everywhere(instruction, target, "global")
        self.put(f"store_poison(T, {where}, {self.line})", Note("global", "write", 128, "", 0))

    def do_tensor_prefetch(self, instruction: Instruction, shape: Shape) -> None:
        """Check a prefetch of a box."""
        self._coordinates(instruction, shape, instruction.operands[0])

    def do_tensormap_replace(self, instruction: Instruction, shape: Shape) -> None:
        """Write the change of a field of a tensor map."""
        self.needs_thread = True
        operands = instruction.operands
        address, value = operands[0], operands[-1]
        assert isinstance(address, Address)
        if isinstance(value, Float) or isinstance(value, Register) and value.type[0] == "f":
            raise self.mismatch(instruction)
        space = next(word for word in instruction.modifiers if word in ("global", "shared::cta")).partition("::")[0]
        field = next(word for word in instruction.modifiers if word in _FIELDS)
        if len(operands) == 3:
            number = operands[1]
        else:
            number = None
        if self.unit.module.target[-1] not in "af":
            raise self.reject(f"Instruction 'tensormap.replace' not supported on .target '{self.unit.module.target}'")
        if isinstance(number, Int) and not 0 <= number.value < (4 if field == "global_stride" else 5):
            raise self.reject(f"Ordinal '{number.value}' of 'tensormap.replace' out of range")
        if isinstance(number, Int):
            at = number.value
        else:
            at = 0
        self.put(
            f"tensor_map_replace(T, {self.everywhere(instruction, address, space)}, {field!r}, {at}, "
            f"{self.value(value, shape.types[1])}, {self.line})",
            Note(space, "write", 128, "", 0),
        )

    def do_tensormap_copy(self, instruction: Instruction, shape: Shape) -> None:
        """Write the copy of a tensor map by a warp."""
        self.needs_thread = True
        target, source = instruction.operands[:2]
        assert isinstance(target, Address) and isinstance(source, Address)
        to, of = self.everywhere(instruction, target, "global"), self.everywhere(instruction, source, "shared")
        self.put(f"tensor_map_copy(T, {to}, {of}, {self.line})", Note("global", "write", 128, "", 0))

    # -- stores and atomics that arrive on a barrier

    def _places(
        self, instruction: Instruction, target: Operand, barrier: Operand, shape: Shape
    ) -> tuple[str, str, bool]:
        """Return the places of a value and of its barrier, and whether they are generic."""
        assert isinstance(target, Address) and isinstance(barrier, Address)
        if shape.has("shared::cluster"):
            named = "shared"
        else:
            named = ""
        place, generic = self.point(instruction, target, named)
        at, other = self.point(instruction, barrier, named)
        if generic != other:
            raise self.mismatch(instruction)
        return place, at, generic

    def do_st_async(self, instruction: Instruction, shape: Shape) -> None:
        """Write a store to the shared memory of a block of the cluster."""
        target, given, barrier = instruction.operands
        type = shape.type
        items = self._elements(instruction, shape, given, type)
        if any(isinstance(item, Register) and BITS[item.type] != BITS[type] for item in items):
            raise self.mismatch(instruction)
        if type in FLOAT_TYPES:
            code = "f" if type == "f32" else "d"
        elif BITS[type] == 32:
            code = "I"
        else:
            code = "Q"
        values = ", ".join(self.value(item, type) for item in items)
        place, at, generic = self._places(instruction, target, barrier, shape)
        data = f"packed_as('{len(items)}{code}', {values})"
        self.put(f"{self.started()}.async_store({place}, {generic}, {data}, {at}, {self.line})")

    def do_red_async(self, instruction: Instruction, shape: Shape) -> None:
        """Write an atomic operation on the shared memory of a block of the cluster."""
        target, given, barrier = instruction.operands
        verb = next(word for word in instruction.modifiers if word in _REDUCTIONS)
        place, at, generic = self._places(instruction, target, barrier, shape)
        kind = f"{verb!r}, {shape.type!r}, {self.value(given, shape.type)}"
        self.put(f"{self.started()}.async_reduction({place}, {generic}, {kind}, {at}, {self.line})")


_VERBS = (
    "init",
    "inval",
    "pending_count",
    "test_wait",
    "try_wait",
    "arrive",
    "arrive_drop",
    "expect_tx",
    "complete_tx",
)
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_FIELDS = (
    "global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype",
    "interleave_layout", "swizzle_mode", "fill_mode",
)  # fmt: skip
