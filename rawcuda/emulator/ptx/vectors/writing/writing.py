"""Python source for the nodes of a kernel: one function for each, on arrays with an element for each thread.

    def n4(g, R, M):                 # the threads that are here, their registers, the memory
        r2, r7 = R[2], R[7]
        r9 = r7 + r2
        (x0,) = M.load(g, 3, r9, 0, 4, 1, True, None)
        r11 = x0.view(f4)
        R[11] = r11
        return r4                    # the condition of the branch at the end

A value that is the same for all threads is a NumPy scalar, and every expression is written so that it takes both. No
array is changed in place, so a move needs no copy.

Read next    write_values.py for the rows of the opcode table, accesses.py for memory,
             ../running/running.py, which calls the nodes
"""

from __future__ import annotations

import re

from ...reading.syntax import BITS, Pair, Register
from ...translating.registers import never_written, with_branches
from .accesses import Accesses
from .value_graph import WAITING, WARP, Unsuited, started, touched
from .write_values import width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .value_graph import Item, Node

__all__ = ["Writer"]

_REGISTER = re.compile(r"\br(\d+)\b")
LOOK = 8  # instructions of a node between two looks at the clock: some take as long as Python needs for each thread
POISONED = 0xFBFBFBFBFBFBFBFBFBFBFBFBFBFBFBFB


class Writer(Accesses):
    """The writer of all nodes of one kernel."""

    text = ""

    def write(self) -> None:
        """Write all nodes.

        raises  Unsuited   an instruction that arrays cannot execute
        """
        texts = []
        for node in self.program.nodes:
            self.node(node)
            texts.append("\n".join(self.lines))
            if node.kind == "warp":
                texts.append(self.mask(node))
        self.text = "\n\n".join(texts) + "\n"

    def mask(self, node: Node) -> str:
        """Return the source of a function that returns the member mask of a warp operation."""
        self.inlined, self.guard, self.lines = node.inlined, "", []
        instruction = node.items[0].instruction
        assert instruction is not None
        text = self.mask_of(instruction)
        lines = [f"def m{node.number}(g, R, M):"]
        lines += [f"    r{place} = R[{place}]" for place in sorted({int(found) for found in _REGISTER.findall(text)})]
        return "\n".join([*lines, f"    return {text}"])

    def node(self, node: Node) -> None:
        """Write one node."""
        self.lines = []
        read: set[int] = set()
        written: set[int] = set()
        cost = 0
        for item in node.items:
            reads, writes, parts = touched(item)
            read |= (reads | parts) - written
            written |= writes - parts
        for number, item in enumerate(node.items):
            if number % LOOK == LOOK - 1:  # shorter nodes leave it to the loop over nodes
                self.put("M.launch.look_at_clock()")
            self.item(item)
            cost += item.action == ""
        node.cost = cost + (node.kind in ("if", "switch") or bool(node.kind == "end"))
        self.inlined, self.guard = node.inlined, ""
        result = ""
        asked: list[Register] = [node.guard] if node.guard is not None else []
        if node.guard is not None:
            result = f"{'~' if node.negated else ''}r{self.place(node.guard)}"
        if node.branch is not None:
            selector = node.branch.operands[0]
            result = self.value(selector, "u32")
            asked += [selector] if isinstance(selector, Register) else []
        everything = {place for item in node.items for place in touched(item)[1]}
        read |= {self.place(register) for register in asked} - written
        after = 0
        for target in node.targets:
            after |= target.live if target is not None else 0
        keep = sorted(place for place in everything if after >> place & 1)
        head = [f"def n{node.number}(g, R, M):"]
        head += [f"    r{place} = R[{place}]" for place in sorted(read)]
        self.lines = [*head, *self.lines]
        for place in keep:
            self.put(f"R[{place}] = r{place}")
        self.put(f"return {result}")

    def item(self, item: Item) -> None:
        """Write one instruction or one step of a call."""
        self.inlined, self.guard = item.inlined, ""
        instruction = item.instruction
        if item.action == "start":
            self.start()
            return
        if item.action == "copy":
            self.copy(item)
            return
        assert instruction is not None
        self.line = instruction.line
        shape = item.inlined.made.shapes[id(instruction)]
        if instruction.guard is not None and not (instruction.opcode in WAITING or instruction.opcode in WARP):
            self.guard = f"r{self.place(instruction.guard)}"
            if instruction.negated:
                self.guard = f"~{self.guard}"
            if instruction.operands and isinstance(instruction.operands[0], Pair):  # whose first half may be the guard
                self.put(f"guard = {self.guard}")
                self.guard = "guard"
        if shape.result[0] != "!":
            self.general(instruction, shape)
            return
        method: Any = getattr(self, "do_" + shape.result[1:], None)
        if method is None:
            raise Unsuited(f"{instruction.text} at line {self.line}")
        method(instruction, shape)

    def start(self) -> None:
        """Write the beginning of a function: its frame, and the values that are read before they are written."""
        inlined = self.inlined
        if inlined.size:
            self.put(f"M.enter(g, {inlined.low}, {inlined.size})")
        places = started(inlined)
        for register in inlined.late:
            if register.type == "pred":
                kind = "b1"
            else:
                kind = f"u{width_of(register.type)}"
            if kind == "b1":
                text = "FALSE"
            else:
                text = self.constant(kind, POISONED & (1 << BITS[register.type]) - 1)
            if self.holds_float(register):
                text = f"{text}.view(f{width_of(register.type)})"
            self.put(f"r{self.place(register)} = {text}")
        function = inlined.made.function
        for variable in [*function.returns, *function.variables]:
            place = inlined.slots.get(id(variable))
            if place is not None and place in places:
                self.put(f"r{place} = {self.blank(variable)}")
        uses = with_branches(inlined.made.blocks, inlined.made.shapes)
        for line in never_written(uses, inlined.late, self.judged()).values() if self.unit.watch else ():
            self.line = line
            self.put(f"M.never_written({self.site()})")
        self.put(f"r{inlined.carry} = {self.constant('u1', 0)}")
