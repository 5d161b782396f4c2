"""The nodes of a kernel for the second executor: calls are inlined, and what can wait is a node of its own.

A node is a sequence of instructions that runs without a branch. Nodes are numbered in an order in which the body of a
loop comes before what follows the loop, and both sides of a branch before the place where they join. If the executor
always continues with the smallest number, threads that took different branches join again.

A register of the kernel, of an inlined function, and the parameters of calls are all places in one list: `Inlined.base`
is the place of a function's first register.

Source       PTX ISA, "Control Flow Instructions"; S. Collange, "Stack-less SIMT reconvergence at low cost" (2011)
Read next    writing.py, which writes Python for the nodes
"""

from __future__ import annotations

from collections import deque

from ...reading.syntax import Instruction, Int, Register, Symbol, Variable, Vector
from ...running.lookups import LOCAL_LIMIT
from ...translating.flow import EXIT
from ...translating.registers import copied, defined_late, floating, reads_and_writes
from ...translating.unit import frame_alignment, local_layout, parameter_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...reading.syntax import Operand
    from ...translating.flow import Block
    from ...translating.table.forms import Shape
    from ...translating.unit import Prepared, Unit

__all__ = ["Inlined", "Item", "Node", "Program", "Unsuited", "program_of"]

MOST_NODES = 4000
MOST_INLINED = 40_000  # instructions of inlined functions: a function of n instructions may be called n times
MOST_IN_LOOPS = 1 << 17  # nodes, each counted once for every loop around it
MOST_LIVE = 1 << 20  # registers, summed over the nodes: a run lists them
DEEPEST_CALLS = 24
WAITING = frozenset(("bar", "barrier"))
WARP = frozenset(("shfl", "vote", "match", "redux", "activemask", "elect"))
_BUILTINS = ("vprintf", "__assertfail", "malloc", "free")


class Unsuited(Exception):
    """The reason why a kernel cannot run as arrays; the scalar executor then runs it."""


class Inlined:
    """A function that is inlined at one call: its registers, its frame in local memory, its parameters."""

    __slots__ = ("made", "base", "low", "size", "next", "slots", "caller", "holds_float", "copied", "carry", "late")

    def __init__(self, made: Prepared, base: int, low: int, size: int, caller: Inlined | None) -> None:
        self.made = made
        self.base = base
        self.low, self.size, self.next = low, size, low + size + 32
        self.slots: dict[int, int] = {}  # the place of each parameter, by the id of the variable
        self.caller = caller
        self.holds_float: list[bool] = []
        self.copied: set[int] = set()
        self.carry = -1
        self.late: list[Register] = []  # those that may be read before they are written

    def frames(self) -> list[tuple[int, int]]:
        """Return the frames in local memory that the function may access: its own and those of its callers."""
        found = []
        each: Inlined | None = self
        while each is not None:
            if each.size:
                found.append((each.low, each.size))
            each = each.caller
        return found


class Item:
    """An instruction of a node, or (without one) a step of a call: copies of values, or the creation of a frame.

    shape   action: "" an instruction, "copy" (place, its operand or place, type), "frame", "start"
    """

    __slots__ = ("instruction", "inlined", "action", "copies")

    def __init__(self, instruction: Instruction | None, inlined: Inlined, action: str = "") -> None:
        self.instruction = instruction
        self.inlined = inlined
        self.action = action
        self.copies: list[tuple[tuple[Inlined, Any], tuple[Inlined, Any]]] = []  # (target, source) of each


class Node:
    """A sequence of instructions, and where control goes after it.

    shape   kind: "go", "if" (a guard; the target if it is true comes first), "switch", "end", "bar", "warp", "trouble"
    """

    __slots__ = ("number", "items", "kind", "targets", "guard", "negated", "inlined", "branch", "live", "cost", "line")

    def __init__(self, inlined: Inlined) -> None:
        self.number = -1
        self.items: list[Item] = []
        self.kind = "go"
        self.targets: list[Node | None] = []
        self.guard: Register | None = None
        self.negated = False
        self.inlined = inlined
        self.branch: Instruction | None = None
        self.live = 0  # as bits: the places whose value at the beginning of the node is read later
        self.cost = 0
        self.line = 0


class Program:
    """All nodes of a kernel in their order."""

    def __init__(self, nodes: list[Node], places: int, root: Inlined, local_bytes: int, parameter_bytes: int) -> None:
        self.nodes = nodes
        self.places = places
        self.root = root
        self.local_bytes = local_bytes
        self.parameter_bytes = parameter_bytes  # of the arrays of all calls


class _Builder:
    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.nodes: list[Node] = []
        self.inlined = 0  # instructions of inlined functions
        self.places = 0
        self.top = 64
        self.parameter_bytes = 0
        self.late: dict[str, list[Register]] = {}
        self.held: dict[str, list[bool]] = {}
        self.copied: dict[str, set[int]] = {}

    def node(self, inlined: Inlined) -> Node:
        if len(self.nodes) >= MOST_NODES:
            raise Unsuited("too many blocks")
        made = Node(inlined)
        self.nodes.append(made)
        return made

    def inline(self, made: Prepared, caller: Inlined | None, after: Node | None) -> tuple[Node, Inlined]:
        """Add the nodes of a function; return the first one."""
        function = made.function
        depth, each = 0, caller
        while each is not None:
            depth += 1
            if each.made is made or depth > DEEPEST_CALLS:
                raise Unsuited(f"function {function.name} calls itself")
            each = each.caller
        if caller is not None:
            self.inlined += sum(len(block.instructions) for block in made.blocks)
        if self.inlined > MOST_INLINED:
            raise Unsuited("too many inlined instructions")
        alignment = frame_alignment(function)
        low = (caller.next if caller is not None else 64) + alignment - 1 & -alignment
        inlined = Inlined(made, self.places, low, local_layout(function), caller)
        if not inlined.size:
            if caller is not None:
                inlined.next = caller.next
            else:
                inlined.next = 64
        self.parameter_bytes += parameter_bytes(function)
        self.top = max(self.top, inlined.low + inlined.size if inlined.size else 0)
        if self.top + self.parameter_bytes > LOCAL_LIMIT:
            raise Unsuited("more local memory than a thread has")
        self.places += len(function.registers)
        for variable in [*function.parameters, *function.returns, *function.variables]:
            if variable.space == "param" and not (function.entry and variable in function.parameters):
                inlined.slots[id(variable)] = self.places
                self.places += 1
        inlined.carry = self.places
        self.places += 1
        name = function.name
        if name not in self.held:
            judged = [(i, made.shapes[id(i)]) for block in made.blocks for i in block.instructions]
            self.held[name] = floating(function, judged)
            self.copied[name] = copied(function, judged, self.held[name])
            self.late[name] = defined_late(function, made.blocks, made.shapes)
        inlined.holds_float, inlined.copied = self.held[name], self.copied[name]
        inlined.late = self.late[name]
        start = self.node(inlined)
        start.items.append(Item(None, inlined, "start"))
        first = [self.node(inlined) for _ in made.blocks]
        start.targets = [first[0]]
        for block in made.blocks:
            self._block(block, first, inlined, after)
        return start, inlined

    def _block(self, block: Block, first: list[Node], inlined: Inlined, after: Node | None) -> None:
        node = first[block.number]
        for instruction in block.instructions:
            if instruction is block.branch:
                break
            node = self._put(node, instruction, inlined, after)
        targets = [after if number == EXIT else first[number] for number in block.targets]
        branch = block.branch
        if branch is not None:
            node.line = branch.line
        if block.kind == "go":
            node.targets = targets
            if targets[0] is None:
                node.kind = "end"
        elif block.kind == "if":
            assert branch is not None
            node.kind, node.targets, node.guard, node.negated = "if", targets, branch.guard, branch.negated
        elif block.kind == "switch":
            node.kind, node.targets, node.branch = "switch", targets, branch
        elif branch is not None and branch.opcode == "trap":
            node.kind = "trouble"
        elif branch is not None and branch.opcode == "ret" and after is not None:
            node.targets = [after]
        else:
            node.kind = "end"

    def _put(self, node: Node, instruction: Instruction, inlined: Inlined, after: Node | None) -> Node:
        """Add an instruction to a node; return the node for the next one."""
        opcode = instruction.opcode
        node.line = node.line or instruction.line
        leaves = opcode in ("ret", "exit", "trap")
        waits = opcode in WAITING or opcode in WARP
        if not (leaves or waits or opcode == "call"):
            node.items.append(Item(instruction, inlined))
            return node
        following = self.node(inlined)
        if instruction.guard is not None:
            inner = self.node(inlined)
            node.kind, node.targets = "if", [inner, following]
            node.guard, node.negated = instruction.guard, instruction.negated
            node = inner
        if leaves:
            if opcode == "trap":
                node.kind = "trouble"
            elif opcode == "ret" and after is not None:
                node.targets = [after]
            else:
                node.kind = "end"
            return following
        if opcode == "call":
            self._call(node, instruction, inlined, following)
            return following
        inner = self.node(inlined)
        node.targets = [inner]
        node = inner
        node.items.append(Item(instruction, inlined))
        warp = opcode in WARP or "warp" in instruction.modifiers
        node.kind, node.targets, node.line = "warp" if warp else "bar", [following], instruction.line
        if not warp:
            _check_barrier(instruction)
        return following

    def _call(self, node: Node, instruction: Instruction, inlined: Inlined, following: Node) -> None:
        callee = self.unit.callee(instruction)
        if callee is None:
            raise Unsuited("a call through a pointer")
        made = self.unit.prepared.get(callee.name)
        if made is None:
            if callee.name not in _BUILTINS:
                raise Unsuited(f"a call of {callee.name}")
            node.kind = "trouble"
            return
        operands = list(instruction.operands)
        returns: list[Operand] = []
        if isinstance(operands[0], Vector) and operands[0].round:
            returns = operands.pop(0).items  # type: ignore[union-attr]
        operands.pop(0)
        given: list[Operand] = []
        if operands and isinstance(operands[0], Vector) and operands[0].round:
            given = operands.pop(0).items  # type: ignore[union-attr]
        results = self.node(inlined)
        start, inner = self.inline(made, inlined, results)
        enter = Item(instruction, inlined, "copy")
        wanted: list[Variable | Register] = [*callee.parameters, *callee.parameter_registers]
        enter.copies = [((inner, want), (inlined, give)) for want, give in zip(wanted, given)]
        node.items.append(enter)
        node.targets = [start]
        leave = Item(instruction, inlined, "copy")
        made_results: list[Variable | Register] = [*callee.returns, *callee.return_registers]
        leave.copies = [((inlined, want), (inner, give)) for want, give in zip(returns, made_results)]
        results.items.append(leave)
        results.targets = [following]


def _check_barrier(instruction: Instruction) -> None:
    modifiers = instruction.modifiers
    if "cluster" in modifiers:
        raise Unsuited("a barrier of a cluster")
    if not isinstance(instruction.operands[1 if "red" in modifiers else 0], Int):
        raise Unsuited("a barrier with a number that is not constant")
    count = len(instruction.operands) - (3 if "red" in modifiers else 1)
    if "arrive" in modifiers or count > 0:
        raise Unsuited("a barrier for some of the threads")


def program_of(unit: Unit, kernel: Prepared) -> Program:
    """Return the nodes of a kernel, in the order of their numbers.

    raises  Unsuited   the kernel recurses, calls through pointers, or is too large
    """
    builder = _Builder(unit)
    start, root = builder.inline(kernel, None, None)
    order = _ordered(start)
    for number, node in enumerate(order):
        node.number = number
    made = Program(order, builder.places, root, builder.top if builder.top > 64 else 0, builder.parameter_bytes)
    _find_live(made)
    return made


# -- the order


def _ordered(start: Node) -> list[Node]:
    """Return the reachable nodes in a reverse postorder in which the exits of a loop come after its body."""
    start = _short(start)
    inner = _loop_depths(start)
    seen = {id(start)}
    post: list[Node] = []
    stack = [(start, iter(_successors(start, inner)))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if id(target) not in seen:
                seen.add(id(target))
                stack.append((target, iter(_successors(target, inner))))
                break
        else:
            stack.pop()
            post.append(node)
    return post[::-1]


def _short(start: Node) -> Node:
    """Skip nodes that do nothing."""

    def follow(node: Node | None) -> Node | None:
        passed = 0
        while node is not None and node.kind == "go" and not node.items and passed < MOST_NODES:
            if not node.targets:
                return node
            node = node.targets[0]
            passed += 1
        if node is not None and node.kind == "end" and not node.items:
            return None
        return node

    todo, seen = [start], {id(start)}
    while todo:
        node = todo.pop()
        node.targets = [follow(target) for target in node.targets]
        if node.kind == "go" and (not node.targets or node.targets[0] is None):
            node.kind, node.targets = "end", []
        for target in node.targets:
            if target is not None and id(target) not in seen:
                seen.add(id(target))
                todo.append(target)
    return start


def _successors(node: Node, inner: dict[int, frozenset[int]]) -> list[Node]:
    """Return the targets, first those that leave more loops: the target visited first comes last in the order."""
    mine = inner.get(id(node), frozenset())
    targets = [target for target in node.targets if target is not None]
    return sorted(targets, key=lambda target: len(mine & inner.get(id(target), frozenset())))


def _loop_depths(start: Node) -> dict[int, frozenset[int]]:
    """Return for each node the headers of the loops around it: targets of back edges that can reach the back edge."""
    before: dict[int, list[Node]] = {}
    nodes: dict[int, Node] = {id(start): start}
    back: list[tuple[Node, Node]] = []
    state = {id(start): 1}
    stack = [(start, iter([t for t in start.targets if t is not None]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            before.setdefault(id(target), []).append(node)
            if state.get(id(target)) == 1:
                back.append((node, target))
            elif id(target) not in state:
                state[id(target)] = 1
                nodes[id(target)] = target
                stack.append((target, iter([t for t in target.targets if t is not None])))
                break
        else:
            stack.pop()
            state[id(node)] = 2
    loops: dict[int, set[int]] = {}
    count = 0
    for latch, header in back:
        body = loops.setdefault(id(header), {id(header)})
        work = [latch]
        while work:
            node = work.pop()
            if id(node) not in body:
                body.add(id(node))
                count += 1
                if count > MOST_IN_LOOPS:
                    raise Unsuited("too many loops in loops")
                work += before.get(id(node), ())
    found: dict[int, set[int]] = {}
    for header_id, body in loops.items():
        for each in body:
            found.setdefault(each, set()).add(header_id)
    return {each: frozenset(headers) for each, headers in found.items()}


# -- which places are read later


def touched(item: Item) -> tuple[set[int], set[int], set[int]]:
    """Return the places that an item reads, those that it writes, and those of them that it writes only in part."""
    inlined = item.inlined
    instruction = item.instruction
    if item.action == "copy":
        reads = {place for _, source in item.copies for place in _places(*source)}
        writes = {place for target, _ in item.copies for place in _places(*target)}
        return reads, writes, set()
    if instruction is None:
        return set(), started(inlined), set()
    shape: Shape = inlined.made.shapes[id(instruction)]
    read, written = reads_and_writes(instruction, shape)
    reads = {inlined.base + register.index for register in read}
    writes = {inlined.base + register.index for register in written}
    parts: set[int] = set()
    if "param" in instruction.modifiers or any(m.startswith("param::") for m in instruction.modifiers):
        for operand in instruction.operands:
            base = getattr(operand, "base", None)
            if isinstance(base, Symbol):
                target = base.target
            else:
                target = None
            if target is not None and id(target) in inlined.slots:
                place = inlined.slots[id(target)]
                if instruction.opcode == "st":
                    writes.add(place)
                    if not getattr(target, "scalar", True):
                        parts.add(place)
                else:
                    reads.add(place)
    if shape.result == "!carry":
        if "cf" in shape.form.value:
            reads.add(inlined.carry)
        if "cc" in shape.chosen:
            writes.add(inlined.carry)
    if instruction.guard is not None:
        parts |= writes
    return reads, writes, parts


def started(inlined: Inlined) -> set[int]:
    """Return the places that get a value when a function starts: late registers, parameters of calls, the carry."""
    late = {inlined.base + register.index for register in inlined.late}
    own = {id(variable) for variable in inlined.made.function.parameters}
    return late | {place for key, place in inlined.slots.items() if key not in own} | {inlined.carry}


def _places(home: Inlined, thing: object) -> list[int]:
    if isinstance(thing, Register):
        return [home.base + thing.index]
    if isinstance(thing, Symbol):
        thing = thing.target
    if isinstance(thing, Variable) and id(thing) in home.slots:
        return [home.slots[id(thing)]]
    of = getattr(thing, "of", None)
    if isinstance(of, Register):
        return [home.base + of.index]
    return []


def _find_live(program: Program) -> None:
    gains: list[int] = []
    kills: list[int] = []
    for node in program.nodes:
        gain = kill = 0
        for item in node.items:
            reads, writes, parts = touched(item)
            for place in reads | parts:
                gain |= (1 << place) & ~kill
            for place in writes - parts:
                kill |= 1 << place
        asked = []
        if node.guard is not None:
            asked.append(node.guard)
        if node.branch is not None:
            asked += [o for o in node.branch.operands if isinstance(o, Register)]
        for register in asked:
            gain |= (1 << node.inlined.base + register.index) & ~kill
        gains.append(gain)
        kills.append(kill)
    before: list[list[Node]] = [[] for _ in program.nodes]
    for node in program.nodes:
        for target in node.targets:
            if target is not None:
                before[target.number].append(node)
    work = deque(reversed(program.nodes))
    while work:
        node = work.popleft()
        after = 0
        for target in node.targets:
            if target is not None:
                after |= target.live
        live = gains[node.number] | after & ~kills[node.number]
        if live != node.live:
            node.live = live
            work += before[node.number]
    if sum(bin(node.live).count("1") for node in program.nodes) > MOST_LIVE:
        raise Unsuited("too many registers are live in too many blocks")
