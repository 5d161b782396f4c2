"""A loaded module: its variables in memory, its compiled functions, its kernels.

Source       PTX ISA, "Kernel and Function Directives", "Performance-Tuning Directives"; CUDA Driver API,
             cuModuleLoadDataEx
Read next    running/scheduler.py
"""

from __future__ import annotations

import itertools
import linecache
import math
import re
import sys
import time
from collections import deque
from copy import deepcopy
from types import CodeType

from ..machine.codes import INVALID_IMAGE, INVALID_PTX, NO_BINARY_FOR_GPU, OUT_OF_MEMORY
from ..machine.recovery import RUNNING, is_outside
from ..machine.space import Allocation, Fault, Space, say
from .checking.delays import Delays
from .checking.history import History
from .reading.header import NEWEST
from .reading.parser import parse
from .reading.syntax import Function, Module, Rejected, Symbol, Variable, signature
from .running import half, integers, rounding
from .running.called import barrier, beyond, caller, finish, misaligned, pack, unpack, wrapped
from .running.clusters import divide
from .running.grid import run_alone, run_apart, run_together
from .running.later_writes import LaterWrites, orders_blocks
from .running.lookups import LOCAL_LIMIT, Exited, Launch, Limits
from .running.report import explain, finding
from .running.thread import Thread
from .running.undefined import Marked, Undefined, both, carried, chosen, computed, joined, raised, taken
from .translating.emitting.emit import Line
from .translating.recording import RecordingTracker, RecordingWriter, Script
from .translating.tracking import Tracker
from .translating.translate import Translated, translate
from .translating.unit import Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from ..machine.holdings import Heap
    from .running.recorder import Recorder
    from .vectors.executor_choice import Arrays

    Progress = Callable[[int, int], None]

__all__ = ["Code", "Entry", "load", "text_of"]

_SECONDS_BETWEEN_PROGRESS = 0.1
LEAST_THREADS = 512  # of a launch that the second executor may run
MOST_SHARED = 48 << 10  # bytes that a kernel may declare; a launch may add more
MOST_SHARED_OF_ONE = {  # the same in a module for one architecture only, such as sm_90a; source: ptxas 13.0's errors
    (9, 0): 227 << 10, (10, 0): 227 << 10, (10, 3): 227 << 10, (12, 0): 99 << 10,
}  # fmt: skip
MOST_CONSTANT = 64 << 10
MOST_GLOBAL = 4 << 30
MOST_TEXT = 64 << 20  # characters of a module; TOKEN_LIMIT is about 30 MB, and debug sections have no tokens
MOST_REGISTERS = 1_000_000  # of a function
REGISTERS = 1 << 16  # of a multiprocessor, which gives them to four warps at a time
_AT_ONCE = 500  # kernels; before Python 3.12, compile() takes the square of their number: 50 seconds for 40,000
_SIZE_AT_ONCE = 1 << 20  # characters of generated code; compile() takes about 90 bytes of memory for each
MOST_OF_ONE = 32 << 20  # characters of the generated code of a kernel, or of all functions
MOST_SOURCE = 256 << 20  # the same of a module
_serial = itertools.count(1)


class Entry:
    """A kernel: its properties, and the function that runs it."""

    def __init__(self, code: Code, function: Function, translated: Translated) -> None:
        self._code = code
        self._translated = translated
        self.name = function.name
        self.parameters = [(variable.offset, variable.size) for variable in function.parameters]
        self.parameter_bytes = max((offset + size for offset, size in self.parameters), default=0)
        self.static_shared, self.shared_names = translated.shared_size, translated.shared_names
        self.constant_bytes = code.constant_bytes
        limits = function.limits
        most = min([255, *limits.get("maxnreg", ()), code.most_registers or 255])
        estimated = min(most, max(16, (8 + translated.registers // 2 + 7) // 8 * 8))
        required = limits.get("reqntid")
        self.required_block = _three(required) if required else None
        self.max_threads = 1024
        for bound in (required, limits.get("maxntid")):
            if bound:
                x, y, z = _three(bound)
                self.max_threads = min(self.max_threads, x * y * z)
        # a multiprocessor has enough registers for the largest block, as if the kernel had been compiled for that size
        self.registers = min(estimated, REGISTERS // (-(-self.max_threads // 128) * 128 or 128) // 8 * 8)
        cluster = limits.get("reqnctapercluster")
        self.required_cluster = _three(cluster) if cluster else None
        self.explicit_cluster = "explicitcluster" in limits or cluster is not None
        self.blocks_are_clusters = "blocksareclusters" in limits
        self.most_in_cluster = limits.get("maxclusterrank", (0,))[0]  # 0: the kernel sets no limit
        self.ptx_version = code.ptx_version
        self.target: int = code.target
        self.waits = translated.prepared.waits  # whether a block can wait for any other one
        self._arrays: Arrays | None = None
        self._orders: bool | None = None
        self._local_bytes: int | None = None
        self._system_calls: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @property
    def local_bytes(self) -> int:
        """Return the size of the local memory of a thread, with that of all functions that the kernel reaches."""
        if self._local_bytes is None:
            self._local_bytes = sum(self._code.frames.get(name, 0) for name in self._reached())
        return self._local_bytes

    @property
    def system_calls(self) -> frozenset[str]:
        """Return which functions of the device's system the kernel may call, such as malloc."""
        if self._system_calls is None:
            self._system_calls = frozenset(self._reached() & {"vprintf", "malloc", "free"})
        return self._system_calls

    def _reached(self) -> set[str]:
        """Return the names of the kernel and of all functions that it reaches; this is not kept, for it can be much."""
        return self._code._unit.below([self.name])

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        parameters: bytes,
        *,
        progress: Progress | None = None,
        cooperative: bool = False,  # whether all blocks may synchronize with each other
        limits: Limits | None = None,
        rights: Callable[[Allocation], int] | None = None,
        cluster: tuple[int, int, int] | None = None,
        resident: int = 0,
        multiprocessors: int = Launch.multiprocessors,
        opaque: Callable[[int], Any] | None = None,
        site: str = "",
        output_size: int = Launch.output_size,
        heap: Heap | None = None,
        heap_size: int = Launch.heap_size,
        recorder: Recorder | None = None,
    ) -> None:
        """Run the kernel over a grid.

        shape   parameters: parameter_bytes bytes, in the layout of PTX; rights: returns the access to an allocation, 0
                (none), 1 (read) or 3 (read and write); cluster: the size of a cluster in blocks, or None; resident:
                how many blocks fit on the device at the same time, 0: all; multiprocessors: their number on the device;
                opaque: returns the texture or surface of a handle; site: the line of the program that launched the
                kernel, for reports; heap: of the context; output_size, heap_size: see Launch; recorder: records the
                steps of one warp
        raises  Fault   an error of the kernel
        Why long  it is a list of what a run needs, and of what its end reports
        """
        code = self._code
        launch = Launch(
            self.name,
            grid,
            block,
            bytes(parameters),
            self.static_shared,
            dynamic_shared,
            code.space,
            limits or Limits(),
        )
        launch.number = next(_serial)
        launch.rights, launch.opaque, launch.site, launch.cooperative = rights, opaque, site, cooperative
        launch.kernel, launch.resident, launch.multiprocessors = self, resident, multiprocessors
        launch.output_size, launch.heap_size, launch.heap = output_size, heap_size, heap or launch.heap
        if self._translated.prepared.reserves:
            launch.reserve()
        if cluster is not None:
            divide(launch, cluster)
        launch.code_name, launch.tracked = code.filename, code.tracked
        launch.register_name = code.register_name
        launch.say = lambda text, frame: finding(text, frame, launch, code.filename, code.lines, code.module)
        code.prepare(launch, self._translated, code.functions if recorder is None else code.recorded.functions)
        clock = _Clock(progress, launch.gx * launch.gy * launch.gz)
        if progress is not None:
            launch.after_refill = clock.look
        else:
            launch.after_refill = None
        name = self._translated.prepared.function.python
        kernel = code.functions[name]
        if recorder is not None:
            told = code.recorded
            launch.tracked, launch.recorder = told.tracked, recorder
            kernel = recorder.attach(launch, kernel, told.functions[name], told.script, code.module)
        try:
            with RUNNING:
                if code.space.races:
                    launch.history = History(launch, code._unit.grain)
                if code._unit.delays and clock.total > 1:
                    launch.delays = Delays(code.space.choose)
                if self._translated.blocking:
                    way = run_together
                else:
                    way = run_apart
                if recorder is not None or not self._may_be_divided() or not self._run_arrays(launch, clock, way):
                    way(kernel, launch, clock.step, 0, clock.total)
                if launch.history is not None:
                    launch.history.end()
        except MemoryError:
            raise
        except Exception as reason:
            if is_outside(reason):
                raise
            found = explain(reason, launch, code.filename, code.lines, code.module)
            if recorder is not None:
                recorder.error = found.report
            raise found from reason
        finally:
            launch.later.end()
            launch.delays.end()
            launch.close()
            if launch.output:
                _print(b"".join(launch.output), launch)
            if launch.printed > launch.kept:
                say(
                    f"kernel {launch.name} printed {launch.printed} bytes, and the oldest "
                    f"{launch.printed - launch.kept} are lost: its buffer has {launch.output_size} "
                    "(CU_LIMIT_PRINTF_FIFO_SIZE)"
                )

    def orders_blocks(self) -> bool:
        """Tell whether the kernel contains an instruction that may order the accesses of different blocks."""
        if self._orders is None:
            prepared = self._code._unit.prepared
            self._orders = orders_blocks([prepared[name] for name in self._reached() if name in prepared])
        return self._orders

    def _may_be_divided(self) -> bool:
        """Tell whether some blocks may run before the others start, or as arrays: none of them can wait for another."""
        space = self._code.space
        return not (
            self.waits
            or space.executor == "scalar"
            or space.races
            or self._code._unit.delays
            or space.meetings
            and self._translated.blocking
        )

    def _run_arrays(self, launch: Launch, clock: _Clock, way: Callable[..., None]) -> bool:
        """Run the launch with the second executor, if that is faster; tell whether it was run."""
        executor = self._code.space.executor
        threads = launch.gx * launch.gy * launch.gz * launch.threads
        if executor == "auto" and threads < LEAST_THREADS or launch.cluster_size > 1:
            return False
        code = self._code
        if self._arrays is None:
            from .vectors.executor_choice import Arrays

            self._arrays = Arrays(code._unit, self._translated, code.functions, self.name)
        kernel = code.functions[self._translated.prepared.function.python]

        def scalar(first: int, count: int) -> None:
            way(kernel, launch, clock.step, first, count)
            launch.block = None

        def probe(number: int, thread: int, memory: Space) -> None:
            state = vars(launch)
            before = dict(state)
            launch.space, launch.heap, launch.later = memory, deepcopy(launch.heap), LaterWrites(launch)
            launch.functions, launch.output = {}, deque()  # functions remember where they have found memory
            try:
                code.prepare(launch, self._translated, code.functions)
                run_alone(kernel, launch, number, thread, self._translated.blocking)
            finally:
                state.update(before, block=launch.block)

        return self._arrays.run(launch, executor, clock.look, clock.step, scalar, probe)


def _print(output: bytes, launch: Launch) -> None:
    """Write the output of a kernel to stdout, and report an error of stdout without failing the kernel."""
    text = output.decode("utf-8", "surrogateescape")
    if launch.space.write_output is not None:
        launch.space.write_output(text)
        return
    stdout = sys.stdout
    try:
        if stdout is None:
            raise ValueError("sys.stdout is None")
        if text.encode("utf-8", "replace") != output and hasattr(stdout, "buffer"):  # it is not UTF-8
            stdout.flush()
            stdout.buffer.write(output)
        else:
            try:
                stdout.write(text)
            except UnicodeEncodeError:
                encoding = getattr(stdout, "encoding", None) or "ascii"
                stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stdout.flush()
    except Exception as reason:
        launch.space.warnings.append(
            f"the output of kernel {launch.name} could not be printed: {type(reason).__name__}: {reason}\n    "
            f"{output[:1000].decode('utf-8', 'backslashreplace')}"
        )


class _Clock:
    """A clock that reports progress at intervals."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self._last = time.monotonic()

    def step(self, blocks: int) -> None:
        self.done += blocks
        if self.progress is not None:
            self.look()

    def look(self) -> None:
        if self.progress is not None and time.monotonic() - self._last > _SECONDS_BETWEEN_PROGRESS:
            self.progress(self.done, self.total)
            self._last = time.monotonic()  # it may take long itself


class Code:
    """A loaded module."""

    def __init__(
        self, module: Module, space: Space, dump: Callable[[str], str] | None = None, most_registers: int = 0
    ) -> None:
        self.most_registers = most_registers
        self.space = space
        self.module = module
        self._dump = dump
        self.ptx_version = module.version[0] * 10 + module.version[1]
        self.target: int = module.architecture[0] * 10 + module.architecture[1]
        self.variables: dict[str, Allocation] = {}
        self._memory: dict[int, Allocation] = {}  # by the id of the variable
        self._tracked: dict[int, tuple[Callable[..., Any], dict[int, int]]] = {}  # see tracked()
        self._signatures: dict[int, str] = {}  # of functions, by their numbers
        self._numbers: dict[int, list[int]] = {}  # of the lines of generated code, by the id of their instruction
        self._numbered = 0  # how many lines are in it
        self._recorded: _Recorded | None = None
        self._wanted: dict[Translated, list[Function]] = {}  # the device functions that each kernel can call
        self.info = ""
        try:
            self._allocate()
            self._compile()
        except BaseException:
            self.unload()
            raise
        self.frames = {t.prepared.function.name: t.frame_size for t in self.translated}  # bytes of local memory
        self.constant_bytes = sum(v.size for v in self.module.variables.values() if v.space == "const")
        self.entries = {
            t.prepared.function.name: Entry(self, t.prepared.function, t)
            for t in self.translated
            if t.prepared.function.entry
        }
        self.info = "".join(
            f"ptxas info    : Compiling entry function '{name}' for 'sm_{self.target}'\n"
            f"ptxas info    : Used {entry.registers} registers, {entry.static_shared} bytes smem\n"
            for name, entry in self.entries.items()
        )

    def _variables(self) -> list[Variable]:
        """Return the variables that live as long as the module: its own, and static ones of functions."""
        inner = [v for function in self.module.functions.values() for v in function.variables]
        kept = [*self.module.variables.values(), *inner]
        return [v for v in kept if v.space in ("global", "const") and v.linkage != "extern"]

    def _allocate(self) -> None:
        space = self.space
        variables = self._variables()
        constant = sum(variable.size for variable in variables if variable.space == "const")
        if constant > MOST_CONSTANT:
            raise Rejected(
                INVALID_PTX,
                f"ptxas error   : File uses too much global constant data ({constant:#x} bytes, {MOST_CONSTANT:#x} "
                f"max)",
            )
        if sum(variable.size for variable in variables) > MOST_GLOBAL:
            raise Rejected(OUT_OF_MEMORY, f"ptxas fatal   : Variables of more than {MOST_GLOBAL:#x} bytes do not fit")
        for variable in variables:
            label = f".{variable.space} {variable.name}"
            size = max(variable.size, 1)
            try:
                if variable.managed:
                    made = space.allocate_host(size, kind="managed", label=label, poison=False)
                else:
                    alignment = max(variable.alignment, 16)
                    made = space.allocate(size, kind="variable", alignment=alignment, label=label, poison=False)
            except Fault as reason:
                raise Rejected.at(variable.line, reason.report, OUT_OF_MEMORY) from None
            made.constant = variable.space == "const"
            self._memory[id(variable)] = made
            self.variables.setdefault(variable.name, made)

    def _compile(self) -> None:
        space = self.space
        unit = Unit(
            self.module, {key: made.base for key, made in self._memory.items()}, space.watch, space.races, space.delays
        )
        for variable in self._variables():
            self._initialise(unit, variable)
        self._unit = unit
        for each in self.module.functions.values():
            self._signatures[each.index] = signature(
                (*each.parameters, *each.parameter_registers), (*each.returns, *each.return_registers)
            )
        self.translated = [translate(unit, prepared) for prepared in unit.prepared.values()]
        most = MOST_SHARED
        if self.module.target.endswith("a"):
            most = MOST_SHARED_OF_ONE.get(self.module.architecture, MOST_SHARED)
        for translated in self.translated:
            _check_size(translated, most)
        lines: list[Line] = []
        starts = []
        for translated in self.translated:
            if translated.prepared.function.entry:
                starts.append(len(lines))
                lines += translated.lines
        starts.append(len(lines))
        lines.append(Line(0, "def functions(L):", 1, None))
        lines.append(Line(1, "made = {}", 1, None))
        for translated in self.translated:
            if not translated.prepared.function.entry:
                lines += translated.lines
        lines.append(Line(1, "return made", 1, None))
        _limit("this module", sum(len(line.text) + 4 * line.indent for line in lines), MOST_SOURCE)
        self.lines = lines
        self._texts = texts = _texts(lines)
        source = self.source
        if self._dump is not None:
            self.filename = self._dump(source)
        else:
            self.filename = f"<ptx {next(_serial)}>"
        names: dict[str, Any] = {"__builtins__": _BUILTINS, "__name__": "ptx"}
        names.update(_NAMES)
        if _UNITS.search(source):
            from .running.units import call_units

            names.update((name, getattr(call_units, name)) for name in call_units.__all__)
        for first, last in _pieces(starts, [len(text) for text in texts]):
            exec(self._code(texts[first:last], first), names)
        self.functions = names
        linecache.cache[self.filename] = (len(source), None, texts, self.filename)  # the list will get longer

    @property
    def source(self) -> str:
        """Return the generated code."""
        return "".join(self._texts)

    def _initialise(self, unit: Unit, variable: Variable) -> None:
        made = self._memory[id(variable)]
        for offset, value, width in variable.initial:
            if isinstance(value, Symbol):
                value = self._address(unit, value, variable)
            made.data[offset : offset + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")

    def _address(self, unit: Unit, symbol: Symbol, variable: Variable) -> int:
        target = symbol.target
        if isinstance(target, Function):
            address = unit.code_address(target) + symbol.offset
        elif id(target) in self._memory:
            address = self._memory[id(target)].base + symbol.offset
        else:
            raise Rejected.at(variable.line, f"Initial value of '{variable.name[:80]}' is not a constant address")
        if symbol.mask:
            shift = (symbol.mask & -symbol.mask).bit_length() - 1
            address = (address & symbol.mask) >> shift
        return address

    def prepare(self, launch: Launch, kernel: Translated, names: dict[str, Any]) -> None:
        """Add to a launch the device functions that its kernel can call, and the offsets of their shared variables.

        shape   names: those of the generated code, in its ordinary or its recorded form
        """
        wanted = self._wanted.get(kernel)
        if wanted is None:
            reached = self._unit.below([kernel.prepared.function.name])
            called = [self.module.functions[name] for name in reached if name in self._unit.prepared]
            wanted = self._wanted[kernel] = [function for function in called if not function.entry]
        if wanted:
            launch.shared_at = [kernel.shared.get(id(variable), 0) for variable in self._unit.shared_variables]
            launch.signatures = self._signatures
            launch.prototypes = self.module.prototypes
            makers = names["functions"](launch)
            for function in wanted:
                launch.functions[function.index] = makers[function.index]()

    def _function(self, index: int) -> Function:
        return next(each for each in self.module.functions.values() if each.index == index)

    def register_name(self, function: int, register: int) -> str:
        """Return the name of a register, by the numbers of its function and of the register."""
        return self._function(function).registers[register].name

    def tracked(self, index: int) -> tuple[Callable[..., Any], dict[int, int]]:
        """Return the form of a function that tracks undefined values, made on first use.

        returns   the function, and where it continues for each line of the generated code
        """
        found = self._tracked.get(index)
        if found is None:
            writer = Tracker(self._unit, self._unit.prepared[self._function(index).name])
            found = self._tracked[index] = self.add_tracked(writer, self.functions)
        return found

    def add_tracked(self, writer: Tracker, names: dict[str, Any]) -> tuple[Callable[..., Any], dict[int, int]]:
        """Write and compile a form that tracks undefined values; return what `tracked` returns."""
        writer.flow()
        lines = writer.finish()
        for number in range(self._numbered, len(self.lines)):
            self._numbers.setdefault(id(self.lines[number].instruction), []).append(number + 1)
        self._numbered = len(self.lines)
        starts = {number: start for key, start in writer.starts.items() for number in self._numbers.get(key, ())}
        self._add(lines, names)
        return names[writer.name], starts

    def _add(self, lines: list[Line], names: dict[str, Any]) -> None:
        """Compile more lines, which reports then find as they find the others."""
        before = len(self.lines)
        self.lines += lines
        texts = _texts(lines)
        exec(self._code(texts, before), names)
        self._texts += texts

    def _code(self, texts: list[str], before: int) -> CodeType:
        """Compile lines of generated code, which follow so many others."""
        return _lower(compile("".join(texts), self.filename, "exec", dont_inherit=True), before)

    @property
    def recorded(self) -> _Recorded:
        """Return the form that tells a recorder of each instruction, made on first use."""
        if self._recorded is None:
            self._recorded = _Recorded(self, self._unit)
        return self._recorded

    def add_recorded(self, script: Script) -> dict[str, Any]:
        """Write and compile the recorded form of all functions, and return its names."""
        names = dict(self.functions)
        made: dict[bool, list[Line]] = {True: [], False: []}
        for prepared in script.prepared.values():
            writer = RecordingWriter(self._unit, prepared, script)
            writer.flow()
            made[prepared.function.entry] += writer.finish()
        head, tail = (
            [Line(0, "def functions(L):", 1, None), Line(1, "made = {}", 1, None)],
            Line(1, "return made", 1, None),
        )
        self._add([*made[True], *head, *made[False], tail], names)
        return names

    @property
    def allocations(self) -> list[Allocation]:
        """Return the memory of all variables."""
        return list(self._memory.values())

    def unload(self) -> None:
        """Free the module's variables, its source, and the places of its findings."""
        for made in self._memory.values():
            if self.space.find(made.base) is made:
                self.space.free(made.base)
        filename = getattr(self, "filename", "")
        linecache.cache.pop(filename, None)
        self.space.told.difference_update([key for key in list(self.space.told) if key[0] == filename])


class _Recorded:
    """The recorded form of a module: its names, its statements, and its own forms that track undefined values."""

    def __init__(self, code: Code, unit: Unit) -> None:
        self._code, self._unit = code, unit
        self.script = Script(unit, code.module)
        self.functions = code.add_recorded(self.script)
        self._tracked: dict[int, tuple[Callable[..., Any], dict[int, int]]] = {}

    def tracked(self, index: int) -> tuple[Callable[..., Any], dict[int, int]]:
        """Return the recorded form of a function that tracks undefined values, as Code.tracked does."""
        found = self._tracked.get(index)
        if found is None:
            name = next(each.name for each in self._code.module.functions.values() if each.index == index)
            writer = RecordingTracker(self._unit, self.script.prepared[name], self.script)
            found = self._tracked[index] = self._code.add_tracked(writer, self.functions)
        return found


_UNITS = re.compile(r"\b(?:started|fetch_|store_|SMALL|to_half_randomly|tensor_map|VIDEO)")
_BUILTINS = {each.__name__: each for each in (abs, any, bin, bytearray, bytes, float, len, locals, max, min)}
_NAMES: dict[str, Any] = {
    "Thread": Thread, "Exited": Exited, "barrier": barrier, "beyond": beyond, "caller": caller, "finish": finish,
    "pack": pack, "misaligned": misaligned, "unpack": unpack, "wrapped": wrapped, "Marked": Marked,
    "Undefined": Undefined, "both": both, "carried": carried, "chosen": chosen, "computed": computed, "joined": joined,
    "raised": raised, "taken": taken,
}  # fmt: skip
for _module in (integers, half, rounding):
    _NAMES.update((name, getattr(_module, name)) for name in _module.__all__)
_NAMES.update(sqrt=math.sqrt, tanh=math.tanh, copysign=math.copysign)


def _limit(what: str, length: int, most: int) -> None:
    if length > most:
        raise Rejected(
            OUT_OF_MEMORY,
            f"ptxas fatal   : The code generated from {what} would have {length} characters, {most} max",
        )


def _pieces(starts: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield what is compiled at once: the first line, and the one after the last.

    starts  the first line of each kernel, and that of the functions
    sizes   the characters of each line
    """
    first = kernels = size = 0
    for start, end in zip(starts, [*starts[1:], len(sizes)]):
        more = sum(sizes[start:end])
        _limit("one kernel or the functions of this module", more, MOST_OF_ONE)
        if kernels == _AT_ONCE or size + more > _SIZE_AT_ONCE and start > first:
            yield first, start
            first, kernels, size = start, 0, 0
        kernels, size = kernels + 1, size + more
    yield first, len(sizes)


def _check_size(translated: Translated, most_shared: int) -> None:
    name = translated.prepared.function.name[:80]
    if translated.shared_size > most_shared:
        raise Rejected(
            INVALID_PTX,
            f"ptxas error   : Entry function '{name}' uses too much shared data ({translated.shared_size:#x} bytes, "
            f"{most_shared:#x} max)",
        )
    if translated.registers > MOST_REGISTERS:
        raise Rejected(
            OUT_OF_MEMORY,
            f"ptxas fatal   : Function '{name}' names {translated.registers} registers, {MOST_REGISTERS} max",
        )
    local = translated.frame_size + translated.parameter_bytes
    if local > LOCAL_LIMIT:
        raise Rejected(
            INVALID_PTX,
            f"ptxas error   : Function '{name}' uses too much local data ({local:#x} bytes, {LOCAL_LIMIT:#x} max)",
        )


def _texts(lines: list[Line]) -> list[str]:
    return [f"{'    ' * line.indent}{line.text}  # {line.line}\n" for line in lines]


def _lower(code: CodeType, lines: int) -> CodeType:
    """Return code whose source stands so many lines lower; empty lines before it would take time for each function."""
    constants = [_lower(each, lines) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=tuple(constants))


def _three(values: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z


def load(
    image: bytes,
    space: Space,
    *,
    architecture: tuple[int, int] = (9, 0),
    newest: tuple[int, int] = NEWEST,
    dump: Callable[[str], str] | None = None,
    most_registers: int = 0,
) -> Code:
    """Load a module: parse, check and compile all of it.

    shape   newest: the newest .version; most_registers: the limit for a thread; 0: only the limit in the text; dump:
            takes the generated source and returns the name of its file, so that breakpoints in this file work
    raises  Rejected   with the log that the JIT compiler would write
    """
    text = text_of(image)
    if len(text) > MOST_TEXT:
        raise Rejected(OUT_OF_MEMORY, f"ptxas fatal   : A module of {len(text)} characters, {MOST_TEXT} max")
    module = parse(text, architecture, newest)
    module.text = text
    try:
        return Code(module, space, dump, most_registers)
    except RecursionError:
        raise Rejected(INVALID_PTX, "ptxas fatal   : Ptx assembly is nested too deeply") from None


def text_of(image: bytes) -> str:
    """Return the PTX text of an image, refusing binaries and everything else."""
    if image[:4] == b"\x7fELF":
        raise Rejected(
            NO_BINARY_FOR_GPU,
            "A cubin contains machine code, which is not emulated: load PTX instead (nvcc -ptx, or -gencode "
            "arch=compute_90,code=compute_90; nvrtcGetPTX). The command `emulate` lets NVRTC, nvJitLink, nvcc -cubin "
            "and ptxas make PTX",
        )
    if image[:4] == b"\x50\xed\x55\xba":
        raise Rejected(NO_BINARY_FOR_GPU, "A fatbin is not unpacked here: load the PTX instead")
    raw = bytes(image).split(b"\0", 1)[0]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(INVALID_IMAGE, "The image is neither PTX text nor a cubin") from None
    if not text.strip():
        raise Rejected(INVALID_IMAGE, "The image is empty")
    if ".version" not in text and ".target" not in text:
        raise Rejected(INVALID_IMAGE, "The image is neither PTX text nor a cubin")
    return text
