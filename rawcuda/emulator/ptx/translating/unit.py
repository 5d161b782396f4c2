"""The state that the functions of a module share during translation: addresses, layouts, calls, waiting.

Source       PTX ISA, "State Spaces" (windows), "Kernel and Function Directives"
Read next    translate.py
"""

from __future__ import annotations

from ..reading.syntax import (
    BITS,
    Function,
    Instruction,
    Module,
    Name,
    Rejected,
    Special,
    Symbol,
    Variable,
    Vector,
    python_name,
)
from .flow import Block, Plan, blocks_of, plan
from .table.forms import Shape, check
from .table.opcodes import TABLE
from .waits import is_watched, spins_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Callable

__all__ = ["CLUSTER_BITS", "CODE_BASE", "LOCAL_WINDOW", "PARAMETER_WINDOW", "SHARED_WINDOW", "Unit"]

# Generic addresses of memory that is not global: above any host address, below the first device address.
SHARED_WINDOW = 1 << 48
LOCAL_WINDOW = (1 << 48) + (1 << 40)
PARAMETER_WINDOW = (1 << 48) + (2 << 40)
CODE_BASE = (1 << 48) + (3 << 40)
CLUSTER_BITS = 24  # above these bits, an address of shared memory has a block of the cluster: see emit_clusters.py
CODE_STEP = 16
BUILTINS = ("vprintf", "__assertfail", "malloc", "free", "cudaGraphSetConditional")

_BLOCKING = frozenset(
    "bar barrier shfl vote match redux activemask elect nanosleep mbarrier mma wmma ldmatrix stmatrix movmatrix".split()
)

LEAST_FRAME = 16  # bytes of a function that may call itself
MOST_CALLS = 1000  # nested calls of such functions; each is a call of Python, and uses its stack
MOST_SHARED_USES = 1_000_000  # pairs of a shared variable and a function that reaches it, itself or by calls


class Prepared:
    """A checked function, divided into blocks, before it is written."""

    __slots__ = (
        "function",
        "blocks",
        "plan",
        "shapes",
        "calls",
        "blocking",
        "nests",
        "spins",
        "waits",
        "reserves",
        "shared",
    )

    def __init__(self, function: Function, blocks: list[Block], shapes: dict[int, Shape]) -> None:
        self.function = function
        self.blocks = blocks
        self.plan: Plan | None = plan(blocks)
        self.shapes = shapes
        self.calls: set[str] = set()
        self.blocking = False
        self.nests = False  # whether it may call itself, directly or through others
        self.spins: set[int] = set()  # the loops that wait: see waits.py
        self.waits = False  # whether it reaches such a loop: a kernel can then wait for any block of its grid
        self.shared: list[Variable] = []  # the shared variables that a kernel reaches
        # whether it runs in kernels whose shared memory has a part that the system reserves, because they name it
        self.reserves = any(
            isinstance(o, Special) and o.name.startswith("reserved_smem")
            for block in blocks
            for i in block.instructions
            for o in i.operands
        )


class Unit:
    """A module under translation."""

    BUILTINS = BUILTINS
    WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}

    def __init__(
        self,
        module: Module,
        addresses: dict[int, int],
        watch: bool = False,
        races: bool = False,
        delays: bool = False,
    ) -> None:
        self.module = module
        self.watch = watch  # whether races in shared memory and reads of unwritten memory are checked
        self.races = races  # whether the history of all memory is kept
        self.delays = delays  # whether stores may arrive late, if blocks communicate
        # by function: the size in bytes of the smallest access to shared memory of the kernels that call it; 0: none
        self.granules: dict[str, int] = {}
        self.copies = False  # whether there are asynchronous copies that the race checker must know of
        self.grain = 4  # the size in bytes of the smallest access to shared or global memory
        self.addresses = addresses  # of global and const variables, by the id of the variable
        self.prepared: dict[str, Prepared] = {}
        self.shared_variables: list[Variable] = []  # those of device functions, whose offset depends on the kernel
        self._shared_numbers: dict[int, int] = {}
        self._slots: dict[int, str] = {}
        for function in module.functions.values():
            function.python = python_name("k" if function.entry else "f", function.name, function.index, False)
            if function.body is not None:
                self.prepared[function.name] = self._prepare(function)
        self._functions = [name for name, made in self.prepared.items() if not made.function.entry]
        self._kernels = [name for name, made in self.prepared.items() if made.function.entry]
        self._callers = self._find_callers()
        self._find_spins()
        self._spread_blocking()
        self._spread_reserves()
        self._find_nests()
        self._find_shared()
        self.delays = delays and any(map(_communicates, self.prepared.values()))
        self.granules = dict.fromkeys(self.prepared, 0)
        if watch and any(variable.space == "shared" for variable in self._all_shared()):
            self._find_granules()
        if races:
            self.grain = min(self._widths(), default=8)

    def _widths(self) -> Iterator[int]:
        """Yield the widths of accesses to memory that other threads may access."""
        for made in self.prepared.values():
            for block in made.blocks:
                for instruction in block.instructions:
                    if instruction.opcode in ("ld", "ldu", "st", "atom", "red"):
                        if not {"local", "param", "const"} & set(instruction.modifiers):
                            yield _width(made.shapes[id(instruction)])

    def _find_granules(self) -> None:
        """Find the granule of each function; kernels that call the same function have the same granule."""
        widths = {name: self._shared_widths(made) for name, made in self.prepared.items()}
        links: dict[str, list[str]] = {}  # functions that kernels reach, in both directions of each call
        for name in self.below(self._kernels):
            for called in self._called(name):
                if called in self.prepared or called == "*":
                    links.setdefault(name, []).append(called)
                    links.setdefault(called, []).append(name)
        groups: list[set[str]] = []
        grouped: set[str] = set()
        for name in self.prepared:
            if name not in grouped:
                group = _closure([name], lambda each: links.get(each, ()))
                groups.append(group - {"*"})
                grouped |= group
        least = min((width for each in widths.values() for width in each), default=0)
        for group in groups:
            granule = min((width for name in group for width in widths[name]), default=least)
            self.granules.update(dict.fromkeys(group, granule))

    def _shared_widths(self, made: Prepared) -> set[int]:
        """Return the widths of accesses that may be to shared memory, at most 8 bytes."""
        widths = set()
        for block in made.blocks:
            for instruction in block.instructions:
                self.copies = self.copies or "async" in instruction.modifiers
                if instruction.opcode in ("ld", "ldu", "st", "atom", "red"):
                    shape = made.shapes[id(instruction)]
                    space = (shape.chosen.get("space") or shape.chosen.get("atomspace") or "").split("::")[0]
                    if space in ("", "shared"):
                        widths.add(_width(shape))
                elif instruction.opcode in ("cp", "ldmatrix", "stmatrix", "wmma"):
                    widths.add(4)
        return widths

    def _all_shared(self) -> list[Variable]:
        inner = [v for made in self.prepared.values() for v in made.function.variables]
        return [*self.module.variables.values(), *inner]

    # -- names and addresses

    def code_address(self, function: Function) -> int:
        """Return the address of a function as a value."""
        return CODE_BASE + CODE_STEP * function.index

    def slot_name(self, function: Function, variable: Variable) -> str:
        """Return the Python variable of a parameter; each declaration has its own, because scopes repeat `param0`."""
        name = self._slots.get(id(variable))
        if name is None:
            number = len(self._slots)
            name = self._slots[id(variable)] = python_name("p", variable.name, number, False)
        return name

    def shared_number(self, variable: Variable) -> int:
        """Return the index in Launch.shared_at of a shared variable of a device function."""
        number = self._shared_numbers.setdefault(id(variable), len(self.shared_variables))
        if number == len(self.shared_variables):
            self.shared_variables.append(variable)
        return number

    # -- checks and analysis

    def _prepare(self, function: Function) -> Prepared:
        shapes: dict[int, Shape] = {}
        body = function.body or []
        for item in body:
            if isinstance(item, Instruction):
                shape = TABLE.shape(item)
                check(item, shape, self.module.version, self.module.architecture)
                shapes[id(item)] = shape
        if function.parameters and function.entry:
            for variable in function.parameters:
                variable.linkage = "kernel parameter"
        made = Prepared(function, blocks_of(function), shapes)
        for item in body:
            if isinstance(item, Instruction):
                if item.opcode in _BLOCKING or "bulk" in item.modifiers:
                    made.blocking = True
                elif item.opcode == "call":
                    callee = self.callee(item)
                    if isinstance(callee, Function):
                        made.calls.add(callee.name)
                    else:
                        made.calls.add("*")
        return made

    def _find_spins(self) -> None:
        """Find the loops that wait, including those that wait by a read in a function that they call."""
        nothing: set[str] = set()
        reading = [
            name
            for name, made in self.prepared.items()
            if any(is_watched(instruction, nothing) for block in made.blocks for instruction in block.instructions)
        ]
        watchers = self._above(reading)
        for made in self.prepared.values():
            made.spins = spins_of(made, watchers)
            made.blocking = made.blocking or bool(made.spins)

    def _find_callers(self) -> dict[str, list[str]]:
        """Return the functions that call each function; "*" stands for a call through a pointer."""
        found: dict[str, list[str]] = {}
        for name, made in self.prepared.items():
            for called in made.calls:
                found.setdefault(called, []).append(name)
        return found

    def _called(self, name: str) -> Collection[str]:
        """Return what a function calls; "*" stands for all functions that a pointer may point to, and calls them."""
        if name == "*":
            return self._functions
        made = self.prepared.get(name)
        if made is not None:
            return made.calls
        return ()

    def below(self, names: Iterable[str]) -> set[str]:
        """Return functions and all that they reach by calls; names that are not in `prepared` may be among them."""
        return _closure(names, self._called)

    def _above(self, names: Iterable[str]) -> set[str]:
        """Return functions and all that reach one of them by calls; "*" is among them if a pointer may lead there."""

        def callers(name: str) -> Iterable[str]:
            made = self.prepared.get(name)
            through_pointers = made is not None and not made.function.entry
            return [*self._callers.get(name, ()), *(["*"] if through_pointers else [])]

        return _closure(names, callers)

    def callee(self, instruction: Instruction) -> Function | None:
        """Return the callee of a call, or None for a call through a register."""
        operands = list(instruction.operands)
        if operands and isinstance(operands[0], Vector):
            operands.pop(0)
        if not operands:
            raise Rejected.at(instruction.line, "Arguments mismatch for instruction 'call'")
        target = operands[0]
        if isinstance(target, Symbol) and isinstance(target.target, Function):
            return target.target
        if isinstance(target, Name):
            found = target.scope.find(target.text) or self.module.functions.get(target.text)
            if isinstance(found, Function):
                return found
            raise Rejected.at(instruction.line, f"Unknown symbol '{target.text[:80]}'")
        return None

    def _spread_blocking(self) -> None:
        """Find the functions that can wait, themselves or in a callee; a pointer may point to any function."""
        for name in self._above([name for name, made in self.prepared.items() if made.blocking]) - {"*"}:
            self.prepared[name].blocking = True
        for name in self._above([name for name, made in self.prepared.items() if made.spins]) - {"*"}:
            self.prepared[name].waits = True

    def _spread_reserves(self) -> None:
        """Find the functions that run in kernels with reserved shared memory."""
        naming = self._above([name for name, made in self.prepared.items() if made.reserves])
        for name in self.below(name for name in self._kernels if name in naming):
            if name in self.prepared:
                self.prepared[name].reserves = True

    def _find_nests(self) -> None:
        """Find functions that may call themselves, by removing those without callees until there are no more."""
        left = {name: sum(called in self.prepared for called in made.calls) for name, made in self.prepared.items()}
        callers, ends = self._callers, [name for name, count in left.items() if not count]
        while ends:
            for caller in callers.get(ends.pop(), ()):
                left[caller] -= 1
                if not left[caller]:
                    ends.append(caller)
        for name, made in self.prepared.items():
            made.nests = not made.function.entry and (left[name] > 0 or "*" in made.calls)

    # -- shared memory

    def _find_shared(self) -> None:
        """Find the shared variables of each kernel: its own, and those of the functions that it reaches.

        raises  Rejected   there are too many
        """
        users: dict[int, tuple[Variable, list[str]]] = {}  # by the id of the variable
        for name, made in self.prepared.items():
            for key, variable in _shared_in(made.function).items():
                users.setdefault(key, (variable, []))[1].append(name)
        uses = 0
        for variable, names in users.values():
            reaching = self._above(names)
            uses += len(reaching)
            if uses > MOST_SHARED_USES:
                message = f"More than {MOST_SHARED_USES} pairs of a shared variable and a function that reaches it"
                raise Rejected.at(variable.line, f"{message} are not emulated")
            for name in reaching - {"*"}:
                self.prepared[name].shared.append(variable)

    def shared_layout(self, kernel: Prepared) -> tuple[dict[int, int], int, list[Variable]]:
        """Lay out the shared variables of a kernel and its callees.

        returns   their offsets by id of the variable, the total size, and the variables
        """
        offset = 0
        placed: dict[int, int] = {}
        dynamic: list[Variable] = []
        for variable in sorted(kernel.shared, key=lambda each: each.line):
            if variable.linkage == "extern" or not variable.size:
                dynamic.append(variable)
            else:
                offset = -(-offset // variable.alignment) * variable.alignment
                placed[id(variable)] = offset
                offset += variable.size
        start = offset
        for variable in dynamic:
            start = max(start, -(-offset // variable.alignment) * variable.alignment)
        for variable in dynamic:
            placed[id(variable)] = start
        return placed, start if dynamic else offset, kernel.shared


def _closure(names: Iterable[str], more: Callable[[str], Iterable[str]]) -> set[str]:
    """Return names, and all to which they lead."""
    found: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += more(name)
    return found


def _shared_in(function: Function) -> dict[int, Variable]:
    """Return the shared variables that a function declares or names, by their ids."""
    found = {id(variable): variable for variable in function.variables if variable.space == "shared"}
    for item in function.body or ():
        if isinstance(item, Instruction):
            for operand in item.operands:
                symbol = getattr(operand, "base", operand)
                if isinstance(symbol, Symbol):
                    target = symbol.target
                else:
                    target = None
                if isinstance(target, Variable) and target.space == "shared":
                    found[id(target)] = target
    return found


def _width(shape: Shape) -> int:
    """Return the bytes of an access, or of an element of it, at most 8; st.bulk, which has no type, writes 8 each."""
    if shape.type:
        return min(BITS[shape.type] // 8, 8)
    return 8


def _communicates(made: Prepared) -> bool:
    """Tell whether a function may see what another block stores: it has strong reads of global or generic memory."""
    for block in made.blocks:
        for instruction in block.instructions:
            if instruction.opcode in ("atom", "ld") and is_watched(instruction, set()):
                if not {"shared", "local"} & set(instruction.modifiers):
                    return True
    return False


def frame_alignment(function: Function) -> int:
    """Return the alignment of a function's frame: at least 64 bytes."""
    return max([64, *(variable.alignment for variable in function.variables if variable.space == "local")])


def parameter_bytes(function: Function) -> int:
    """Return the bytes of the arrays that a function makes for the parameters of its calls and its results."""
    made = [variable for variable in function.variables if variable.space == "param"] + list(function.returns)
    return sum(variable.size for variable in made if not variable.scalar)


def local_layout(function: Function) -> int:
    """Lay out a function's local variables in its frame, and return the size of the frame."""
    offset = 0
    for variable in function.variables:
        if variable.space == "local":
            offset = -(-offset // variable.alignment) * variable.alignment
            variable.offset = offset
            offset += variable.size
    return offset
