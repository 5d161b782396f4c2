"""Control flow: a function's instructions become basic blocks, and the blocks become nested Python.

Python has `if`, `for`, `continue` and `break`, but no goto. The plan follows the dominator tree: a block with one
predecessor is nested in the branch that leads to it; a block with several predecessors follows the block that dominates
it; a loop becomes a loop, and the blocks after it follow. A jump is then one of

    nothing      if control reaches the target anyway
    continue, break, return
    at = 7       plus one of the above, if blocks must be skipped: these begin with `if at == 7:`

Irreducible control flow (a loop with two entries) and control flow that nests too deeply for Python become numbered
blocks in one loop, which is slower but always possible.

Source       Norman Ramsey, "Beyond Relooper" (ICFP 2022); for dominators, Cooper, Harvey and Kennedy, "A Simple, Fast
             Dominance Algorithm"; for long ways up their tree, Myers, "An applicative random-access stack"
Read next    translate.py, which writes the source by the plan
"""

from __future__ import annotations

from ..reading.syntax import Function, Instruction, Label, Name, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Block", "Plan", "blocks_of", "plan", "reverse_postorder"]

DEEPEST_NEST = 40  # Python permits 100 levels of indentation
DEEPEST_LOOPS = 15  # and 20 nested loops
MOST_STEPS = 1_000_000  # of the plan of one function; above that, blocks are numbered
MOST_CASES = 100  # targets of a switch: Python's compiler nests each `elif` in the one before
MOST_EDGES = 1_000_000  # edges between the blocks of one function
MOST_SHARED = 4  # times that the tables of a function may be used, on average; compilers write a table for each brx.idx
FREE_EDGES = 100  # that are not counted for this

EXIT = -1  # the number of the end of a function


class Block:
    """A basic block: instructions that run one after the other, and the targets of the last one.

    shape   kind: "go" (one target), "if" (branch, then fall through), "switch", "end"
    """

    __slots__ = ("number", "instructions", "kind", "targets", "branch", "line")

    def __init__(self, number: int) -> None:
        self.number = number
        self.instructions: list[Instruction] = []
        self.kind = "end"
        self.targets: list[int] = []
        self.branch: Instruction | None = None
        self.line = 0


def blocks_of(function: Function) -> list[Block]:
    """Divide a function's body into basic blocks.

    raises  Rejected   a branch to an unknown label; too many targets of brx.idx
    """
    body = function.body or []
    _limit_tables(function, body)
    used = _branched_to(body)
    made = [Block(0)]
    for item in body:
        current = made[-1]
        if isinstance(item, Label):
            if id(item) in used and (current.instructions or current.number == 0):
                made.append(Block(len(made)))
            item.number = made[-1].number
        elif item.opcode in ("bra", "brx"):
            current.branch = item
            made.append(Block(len(made)))
        else:
            current.instructions.append(item)
            if item.opcode in ("ret", "exit", "trap") and item.guard is None:
                current.branch = item
                made.append(Block(len(made)))
    for block in made:
        if block.number + 1 < len(made):
            following = block.number + 1
        else:
            following = EXIT
        branch = block.branch
        if branch is None:
            block.kind, block.targets = "go", [following]
        elif branch.opcode == "bra":
            target = _target(branch, branch.operands[0] if branch.operands else None)
            if branch.guard is None or target == following:
                block.kind, block.targets = "go", [target]
            else:
                block.kind, block.targets = "if", [target, following]
        elif branch.opcode == "brx":
            block.kind, block.targets = "switch", [_target(branch, label) for label in _table(branch)]
            if branch.guard is not None:
                raise Rejected.at(branch.line, "A guarded 'brx' is not emulated")
        if branch is not None:
            block.line = branch.line
        else:
            block.line = 0
    if sum(len(block.targets) for block in made) > MOST_EDGES:
        raise Rejected.at(function.line, f"More than {MOST_EDGES} branch targets in one function")
    return _reachable(_join(made))


def _limit_tables(function: Function, body: list[Instruction | Label]) -> None:
    """Refuse a function whose brx.idx have far more targets than its tables, before anything is done for each target.

    raises  Rejected   as it says
    """
    switches = [_table(item) for item in body if isinstance(item, Instruction) and item.opcode == "brx"]
    written = sum(len(table) for table in {id(table): table for table in switches}.values())
    total = sum(map(len, switches))
    if total > MOST_SHARED * written + FREE_EDGES:
        text = f"'brx.idx' with {total} targets in one function, whose tables have {written}, are not emulated"
        raise Rejected.at(function.line, text)


def _branched_to(body: list[Instruction | Label]) -> set[int]:
    used: set[int] = set()
    for item in body:
        if isinstance(item, Instruction) and item.opcode in ("bra", "brx"):
            names = _table(item) if item.opcode == "brx" else item.operands[:1]
            for name in names:
                if isinstance(name, Name):
                    found = name.scope.find_label(name.text)
                    if found is not None:
                        used.add(id(found))
    return used


def _table(branch: Instruction) -> list[Name]:
    if len(branch.operands) == 2:
        name = branch.operands[1]
    else:
        name = None
    if isinstance(name, Name):
        found = name.prototype
    else:
        found = None
    if found is None or found.labels is None:
        raise Rejected.at(branch.line, "'brx.idx' needs the name of a .branchtargets table")
    return found.labels


def _target(branch: Instruction, name: object) -> int:
    if not isinstance(name, Name):
        raise Rejected.at(branch.line, f"Label expected for instruction '{branch.opcode}'")
    found = name.scope.find_label(name.text)
    if found is None:
        raise Rejected.at(branch.line, f"Unknown symbol '{name.text[:80]}'")
    return found.number


def _join(blocks: list[Block]) -> list[Block]:
    """Redirect jumps to an empty block to the successor of that block."""
    final: dict[int, int] = {}

    def follow(number: int) -> int:
        path: dict[int, None] = {}
        while number != EXIT and number not in final:
            block = blocks[number]
            if block.kind != "go" or block.instructions or number in path:
                break
            path[number] = None
            number = block.targets[0]
        end = final.get(number, number)
        for passed in path:
            final[passed] = end
        return end

    for block in blocks:
        block.targets = [follow(target) for target in block.targets]
        if block.kind == "if" and block.targets[0] == block.targets[1]:
            block.kind, block.targets = "go", block.targets[:1]
    return blocks


def _reachable(blocks: list[Block]) -> list[Block]:
    order = [0]
    new = {0: 0}
    for number in order:
        for target in blocks[number].targets:
            if target != EXIT and target not in new:
                new[target] = 0
                order.append(target)
    kept = [block for block in blocks if block.number in new]
    for number, block in enumerate(kept):
        new[block.number] = number
    new[EXIT] = EXIT
    for block in kept:
        block.targets = [new[target] for target in block.targets]
    for number, block in enumerate(kept):
        block.number = number
    return kept


class Plan:
    """The place of each block in nested code.

    shape   inside[b]: the blocks that follow b at its level; after[b]: those that follow the loop of b; both in order
    """

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        count = len(blocks)
        self.inside: list[list[int]] = [[] for _ in range(count)]
        self.after: list[list[int]] = [[] for _ in range(count)]
        self.parent: list[tuple[str, int, int]] = [("root", 0, 0)] * count
        self._next: list[tuple[str, int, int]] = []  # where _walk goes after each block and all that is nested in it
        self.loops: set[int] = set()  # headers
        self.bodies: dict[int, set[int]] = {}  # header -> the blocks of its loop
        self.numbered: set[int] = set()  # blocks that test `at`
        self.relays: dict[int, dict[int, str]] = {}  # loop header -> {target: the statement after that loop}
        self._jumps: dict[tuple[int, int], tuple[str, bool, list[int]]] = {}
        self.steps = 0

    def is_inline(self, source: int, target: int) -> bool:
        """Tell whether target is nested in the branch of source."""
        return target != EXIT and self.parent[target][:2] == ("inline", source)

    def jump(self, source: int, target: int) -> tuple[str, bool]:
        """Return the statement for a jump from source to target, and whether `at` must be set before."""
        if target == EXIT:
            return "return", False
        statement, skips, left = self._jumps[source, target]
        return statement, skips or target in self.numbered or any(header in self.relays for header in left)

    def route(self, source: int, target: int) -> None:
        """Plan a jump: which blocks it skips, and which loops it leaves."""
        statement = ""
        passed: list[int] = []
        left: list[int] = []
        for is_loop, number in self._walk(source):
            self.steps += 1
            if not is_loop:
                if number == target:
                    break
                passed.append(number)
                continue
            if number == target:
                verb = "continue"
            else:
                verb = "break"
            if left:  # a test directly after the inner loop leaves or continues this loop, too
                self.relays.setdefault(left[-1], {})[target] = verb
            else:
                statement = verb
            passed.clear()
            if number == target:
                break
            left.append(number)
        self.numbered.update(passed)
        self._jumps[source, target] = (statement, bool(passed), left)

    def find_ways(self, order: list[int]) -> None:
        """Find where control goes after each block, when all have their places; order: parents before children.

        Blocks after which nothing follows are passed here, so that a jump out of many of them takes one step.
        """
        self._next = list(self.parent)
        for number in order[1:]:
            part, above, at = self.parent[number]
            if part == "inline":
                part, at = ("inside", 0)
            else:
                part, at = (part, at + 1)
            follows = part == "inside" and (at < len(self.inside[above]) or above in self.loops or self.after[above])
            if follows or part == "after" and at < len(self.after[above]):
                self._next[number] = part, above, at
            else:
                self._next[number] = self._next[above]

    def _walk(self, number: int) -> Iterator[tuple[bool, int]]:
        """Return where control goes after a block: (False, block), or (True, header) at the end of a loop."""
        part, at = "inside", 0
        while part != "root":
            if part == "inside":
                for place in range(at, len(self.inside[number])):
                    yield False, self.inside[number][place]
                if number in self.loops:
                    yield True, number
                at = 0
            for place in range(at, len(self.after[number])):
                yield False, self.after[number][place]
            part, number, at = self._next[number]


def plan(blocks: list[Block]) -> Plan | None:
    """Return a plan that nests the blocks, or None if Python cannot express it."""
    if any(len(block.targets) > MOST_CASES for block in blocks):
        return None
    made = Plan(blocks)
    order = reverse_postorder(blocks)
    rank = {number: at for at, number in enumerate(order)}
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for target in dict.fromkeys(block.targets):
            if target != EXIT:
                before[target].append(block.number)
    tree = _dominators(order, rank, before)
    bodies = made.bodies
    for number in order:
        for target in blocks[number].targets:
            if target != EXIT and rank[target] <= rank[number]:
                if tree.meet(target, number) != target:
                    return None
                _natural_loop(bodies.setdefault(target, {target}), number, before)
                made.steps += len(bodies[target])
                if made.steps > MOST_STEPS:
                    return None
    made.loops.update(bodies)
    chains = _loop_chains(order, bodies, tree.above)
    if chains is None:
        return None
    for number in order[1:]:
        above = tree.above[number]
        ways = sum(blocks[source].targets.count(number) for source in before[number] if rank[source] < rank[number])
        left = [header for header in chains[above] if number not in bodies[header]]
        if left:
            made.parent[number] = ("after", left[0], len(made.after[left[0]]))
            made.after[left[0]].append(number)
        elif ways > 1:
            made.parent[number] = ("inside", above, len(made.inside[above]))
            made.inside[above].append(number)
        else:
            made.parent[number] = ("inline", above, 0)
    made.find_ways(order)
    for block in blocks:
        for target in dict.fromkeys(block.targets):
            if target != EXIT and not made.is_inline(block.number, target):
                made.route(block.number, target)
                if made.steps > MOST_STEPS:
                    return None
    if _fits(made, order):
        return made
    return None


def _fits(made: Plan, order: list[int]) -> bool:
    nest = [0] * len(made.blocks)
    for number in order:
        part, above, _ = made.parent[number]
        if number:
            level = nest[above]
        else:
            level = 0
        if part == "after":
            level -= 1  # after that loop
        if part == "inline" and made.blocks[above].kind != "go" or number in made.numbered:
            level += 1
        nest[number] = level + (number in made.loops)
        if nest[number] > DEEPEST_NEST:
            return False
    return True


def reverse_postorder(blocks: list[Block]) -> list[int]:
    """Return the numbers of all blocks; each comes after its predecessors, except those that lead back to it."""
    seen = {0}
    order: list[int] = []
    stack: list[tuple[int, Iterator[int]]] = [(0, iter(blocks[0].targets))]
    while stack:
        number, targets = stack[-1]
        for target in targets:
            if target != EXIT and target not in seen:
                seen.add(target)
                stack.append((target, iter(blocks[target].targets)))
                break
        else:
            order.append(number)
            stack.pop()
    return order[::-1]


class _Tree:
    """The tree of dominators, which grows from its root.

    shape   above: the dominator of each block; far: a block further up, by which long ways up take few steps
    """

    def __init__(self, root: int) -> None:
        self.above, self.far, self.depth = {root: root}, {root: root}, {root: 0}

    def add(self, number: int, above: int) -> None:
        """Add a block below its dominator.

        It jumps as far as its dominator does twice, if both of those jumps have the same length, else by one.
        """
        middle = self.far[above]
        end = self.far[middle]
        same = self.depth[above] - self.depth[middle] == self.depth[middle] - self.depth[end]
        self.above[number], self.far[number], self.depth[number] = above, end if same else above, self.depth[above] + 1

    def meet(self, a: int, b: int) -> int:
        """Return the lowest block that dominates two blocks; each dominates itself."""
        if self.depth[a] < self.depth[b]:
            a, b = b, a
        while self.depth[a] > self.depth[b]:
            if self.depth[self.far[a]] >= self.depth[b]:
                a = self.far[a]
            else:
                a = self.above[a]
        while a != b:  # blocks of the same depth jump equally far
            if self.far[a] != self.far[b]:
                a, b = self.far[a], self.far[b]
            else:
                a, b = self.above[a], self.above[b]
        return a


def _dominators(order: list[int], rank: dict[int, int], before: list[list[int]]) -> _Tree:
    """Return the tree of dominators, of all ways without jumps back.

    The other ways change nothing, if each jump back goes to a block that dominates its source in this tree: a way
    with such a jump has passed its target before. If one does not, control flow is irreducible, and there is no plan.
    """
    tree = _Tree(order[0])
    for number in order[1:]:
        sources = [source for source in before[number] if rank[source] < rank[number]]
        above = sources[0]
        for source in sources[1:]:
            above = tree.meet(source, above)
        tree.add(number, above)
    return tree


def _natural_loop(body: set[int], latch: int, before: list[list[int]]) -> None:
    stack = [latch]
    while stack:
        number = stack.pop()
        if number not in body:
            body.add(number)
            stack.extend(before[number])


def _loop_chains(
    order: list[int], bodies: dict[int, set[int]], dominator: dict[int, int]
) -> dict[int, list[int]] | None:
    """Return for each block the headers of the loops around it, outermost first, or None if there are too many."""
    chains: dict[int, list[int]] = {}
    for number in order:
        if number == order[0]:
            chain = []
        else:
            chain = [h for h in chains[dominator[number]] if number in bodies[h]]
        if number in bodies:
            chain = [*chain, number]
        if len(chain) > DEEPEST_LOOPS:
            return None
        chains[number] = chain
    return chains
