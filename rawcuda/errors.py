"""All exceptions of this package: one class per remedy, each with a built-in base class that programs may catch.

What it is   the tree of exceptions; `from_code` chooses the class for a CUresult and writes the message.
What not     it never calls the driver: names and texts are passed in.
Source       CUDA Driver API, "Data types used by CUDA driver", enum CUresult (which codes end a process: the
             header's own words "the process must be terminated and relaunched")
Read next    ownership.py, then driver.py, which raises most of these
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "RawCudaError",
    "DriverNotFound",
    "SymbolNotFound",
    "CudaError",
    "OutOfMemory",
    "InvalidUse",
    "NotFound",
    "Unsupported",
    "CompileFailed",
    "CompilerNotFound",
    "CacheDamaged",
    "LinkFailed",
    "LinkerNotFound",
    "ContextLost",
    "ForkedAfterInit",
    "Closed",
    "ProtocolError",
    "PtxError",
    "from_code",
    "unsupported",
    "refusal",
    "protecting",
    "worded",
    "a_kind",
    "shown",
]


class RawCudaError(Exception):
    """The base class of every exception that this package defines."""


class _NothingFound(RawCudaError, OSError):
    def __init__(
        self, message: str, *, tried: list[tuple[str, str, str]] | tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.tried = list(tried)


class DriverNotFound(_NothingFound):
    """No CUDA driver could be loaded; `tried` is a list of (path, why it was tried, the loader's message)."""


class SymbolNotFound(RawCudaError, NotImplementedError, AttributeError):
    """The loaded driver lacks an entry point: `symbol`, `since` (the CUDA version that added it) and `driver_version`.

    It is an AttributeError, too, so that hasattr(cu, "cuX") tells whether the driver has a function.
    """

    def __init__(
        self, message: str, *, symbol: str = "", since: tuple[int, int] = (0, 0), driver_version: int = 0
    ) -> None:
        super().__init__(message)
        self.symbol, self.since, self.driver_version = symbol, since, driver_version


class CudaError(RawCudaError, RuntimeError):
    """A driver call failed: `code` and `name` of the CUresult, `call`, and `arguments` ("parameter=value" strings)."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 999,
        name: str = "CUDA_ERROR_UNKNOWN",
        call: str = "",
        arguments: list[str] | tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.name, self.call, self.arguments = code, name, call, tuple(arguments)


class OutOfMemory(CudaError, MemoryError):
    """There was not enough memory: free some, or use a pool."""


class InvalidUse(CudaError, ValueError):
    """An argument or a handle was wrong: correct the call."""


class NotFound(InvalidUse, KeyError):
    """A module has no kernel or variable of that name; the message lists those that it has."""

    def __str__(self) -> str:  # KeyError's own shows the repr of the message
        return str(self.args[0])


class Unsupported(CudaError, NotImplementedError):
    """This device, this driver or this copy of the package does not support the operation."""


def unsupported(message: str, call: str = "") -> Unsupported:
    """Return the error for what the device or the driver does not support."""
    return Unsupported(message, code=801, name="CUDA_ERROR_NOT_SUPPORTED", call=call)


class CompileFailed(CudaError):
    """A compiler rejected CUDA C or PTX: `log` is its log, `source` the text.

    For CUDA C, `filename`, `lineno` and `text` are those of the first error.
    """

    log: str = ""
    source: str = ""
    filename: str = ""
    lineno: int = 0
    text: str = ""


class CompilerNotFound(_NothingFound):
    """No compiler for CUDA C was found; `tried` is a list of (place, why it was tried, what was wrong)."""


class CacheDamaged(RawCudaError, OSError):
    """A file in a cache of compiled code is not what was written there; `path` names it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class LinkFailed(CompileFailed):
    """Images of code could not be linked: `log` is the linker's log, `symbols` the missing or duplicate ones."""

    symbols: tuple[str, ...] = ()


class LinkerNotFound(CompilerNotFound):
    """No linker was found; `tried` is a list of (place, why it was tried, what was wrong)."""


class ContextLost(CudaError):
    """The device's context is lost and cannot be used again: call Device.reset(), or restart this process.

    On the emulator it says what a kernel did. On a GPU these attributes are empty:
    checker        "memcheck", "initcheck", "racecheck", "synccheck", or ""
    kernel         its name in the code
    file, line     of the source; without line information "<ptx>" and the line of the PTX
    text           this line itself, if it is known
    block, thread  their indices, each three numbers, or None
    address        of the access, or None
    allocation     the memory there, or near it, in words: its size, its address, and who allocated it
    launch         "file:line" of the call that launched the kernel
    """

    checker: str = ""
    kernel: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None
    allocation: str = ""
    launch: str = ""


class ForkedAfterInit(RawCudaError, RuntimeError):
    """The driver was used in a child of fork(): start child processes with spawn."""


class Closed(RawCudaError, ValueError):
    """An object was used after its close() or detach()."""


class ProtocolError(RawCudaError, BufferError):
    """A violation or limit of an exchange protocol; `protocol` and `field` name the place.

    protects   whether no other protocol may be tried: the memory does not hold all that the elements mean
    """

    protects = False

    def __init__(self, message: str, *, protocol: str = "", field: str = "") -> None:
        super().__init__(message)
        self.protocol, self.field = protocol, field


def refusal(protocol: str, field: str, value: object, why: str) -> ProtocolError:
    """Return a ProtocolError that names the protocol, the field, the value, and the reason or the remedy."""
    return ProtocolError(f"{protocol}: {field} {worded(value, 200)}: {why}", protocol=protocol, field=field)


def protecting(protocol: str, field: str, value: object, why: str) -> ProtocolError:
    """Return a refusal that ends the search for a protocol, since another one would give wrong values in silence.

    These are the elements that the memory alone does not describe: nulls, masks, conjugates, gradients.
    """
    error = refusal(protocol, field, value, why)
    error.protects = True
    return error


class PtxError(RawCudaError, SyntaxError):
    """PTX text is wrong; `lineno`, `offset` and `text` name the place, as in any SyntaxError."""

    def __init__(self, message: str, details: tuple[str | None, int, int, str] | None = None) -> None:
        super().__init__(message, details or ("<ptx>", 0, 0, ""))


# code: (class, remedy). Any other code is a plain CudaError without a remedy.
_REMEDIES: dict[int, tuple[type[CudaError], str]] = {
    1: (InvalidUse, "Check the values above against the call's documentation."),
    2: (OutOfMemory, "Free memory or use a pool."),
    3: (InvalidUse, "Call cuInit(0) first."),
    4: (CudaError, "The driver is shutting down: close your objects before the interpreter exits."),
    34: (Unsupported, "This libcuda is the toolkit's stub: remove its folder from the library path."),
    36: (Unsupported, "The call needs a newer driver: update it."),
    46: (CudaError, "Another process holds the device exclusively, or it is being reset."),
    100: (Unsupported, "No GPU that CUDA can use: see nvidia-smi and CUDA_VISIBLE_DEVICES."),
    101: (InvalidUse, "devices() lists the ordinals that exist."),
    102: (Unsupported, "The license of the virtual GPU is not applied: ask who runs the virtual machines."),
    200: (InvalidUse, "Give PTX text, a cubin or a fatbin."),
    201: (InvalidUse, "No context is current in this thread: use a Device, or push a context."),
    209: (Unsupported, "Build the code for this device's architecture, or give PTX."),
    214: (ContextLost, "The memory failed its error check: restart this process, and see nvidia-smi."),
    215: (Unsupported, "This device does not have this limit: see Device.limits."),
    217: (Unsupported, "These devices cannot reach each other's memory: copy through the host."),
    218: (CompileFailed, "Correct the PTX as the log says."),
    220: (ContextLost, "A link between devices failed: restart this process."),
    221: (
        Unsupported,
        "The driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed: install it, or give a cubin.",
    ),
    222: (Unsupported, "The PTX is newer than this driver: compile for an older .version, or update the driver."),
    223: (Unsupported, "Compiling PTX is disabled (CUDA_DISABLE_PTX_JIT): give a cubin."),
    225: (Unsupported, "Device code may not call cudaDeviceSynchronize(): end the kernel, and launch another one."),
    226: (ContextLost, "The GPU contained a hardware or peer error. Restart this process, and see nvidia-smi."),
    400: (InvalidUse, "The handle was closed, belongs to another context, or never was a handle."),
    401: (InvalidUse, "The object is not in a state that allows this."),
    500: (NotFound, "Check the name against those in the module."),
    600: (InvalidUse, "The work is not done yet: synchronize() first."),
    700: (
        ContextLost,
        "A kernel accessed memory that is not allocated. Restart this process; compute-sanitizer or the "
        "emulator names the line.",
    ),
    701: (InvalidUse, "Use a smaller block, less shared memory or fewer registers."),
    702: (ContextLost, "A kernel ran longer than the display's watchdog allows. Restart this process."),
    704: (InvalidUse, "Peer access is already enabled."),
    705: (InvalidUse, "Enable peer access first."),
    708: (InvalidUse, "Set this before the primary context is first used."),
    709: (ContextLost, "Other code destroyed the context. Restart this process."),
    710: (ContextLost, "An assert in a kernel failed. Restart this process."),
    712: (InvalidUse, "This host memory is already registered."),
    713: (InvalidUse, "This host memory is not registered."),
    714: (ContextLost, "A kernel's stack was corrupted. Restart this process."),
    715: (ContextLost, "A kernel executed an illegal instruction or a trap. Restart this process."),
    716: (ContextLost, "A kernel used a misaligned address. Restart this process."),
    717: (ContextLost, "A kernel used an address of the wrong address space. Restart this process."),
    718: (ContextLost, "A kernel jumped out of its code. Restart this process."),
    719: (ContextLost, "A kernel failed. Restart this process; compute-sanitizer or the emulator names the line."),
    720: (InvalidUse, "A cooperative grid must fit on the device at once: see Kernel.max_active_blocks()."),
    721: (ContextLost, "A kernel ended without freeing its tensor memory. Restart this process."),
    800: (InvalidUse, "A host function may not call the driver."),
    801: (Unsupported, "This device or driver cannot do that: see Device.attribute()."),
    802: (CudaError, "The system is not ready: is the fabric manager running?"),
    803: (Unsupported, "The kernel module and libcuda are of different versions: reboot, or reinstall the driver."),
    804: (Unsupported, "This GPU does not support the forward-compatible libcuda: use the driver's own."),
    805: (CudaError, "No connection to the MPS daemon or server: is nvidia-cuda-mps-control running?"),
    806: (CudaError, "A call of the MPS server failed: see its log, and restart this process."),
    807: (CudaError, "The MPS server is recovering from a failure: try again later."),
    808: (CudaError, "The MPS server has no room for another process: end one, or do without MPS."),
    809: (CudaError, "The MPS server has no room for another connection: end a process, or do without MPS."),
    810: (ContextLost, "The MPS server has ended this client. Restart this process."),
    811: (Unsupported, "Kernels cannot launch kernels here, as with MPS: launch them from the host."),
    900: (InvalidUse, "This is not allowed while a stream is being captured."),
    901: (InvalidUse, "An earlier call invalidated the capture: end it and begin another."),
    902: (
        InvalidUse,
        "Two captures cannot be joined: let each of their streams wait only for work of its own capture.",
    ),
    903: (InvalidUse, "End the capture on the stream on which it began."),
    904: (
        InvalidUse,
        "Let the captured stream wait for every stream that joined its capture, before the capture ends.",
    ),
    905: (InvalidUse, "A captured stream can wait only for work of the same capture: wait before it begins."),
    906: (InvalidUse, "The legacy default stream cannot be captured, and cannot be waited for during a capture."),
    907: (InvalidUse, "An event that was recorded in a capture cannot be used outside of it: record it again."),
    908: (InvalidUse, "End the capture in the thread that began it."),
    911: (ContextLost, "A device outside of the GPU reported an error. Restart this process."),
    912: (InvalidUse, "Use smaller clusters: see Kernel.max_potential_cluster_size()."),
    916: (CudaError, "The rotation of the keys of confidential computing failed: restart this process."),
    999: (CudaError, 'The driver gives no reason: restart this process, and see the system\'s log (dmesg) for "Xid".'),
}


def from_code(
    code: int,
    name: str,
    text: str,
    call: str,
    arguments: list[str] | tuple[str, ...] = (),
    detail: str = "",
    *,
    private: bool = False,
    report: Any = None,
    earlier: bool = False,
) -> CudaError:
    """Return the exception for a CUresult; it is not raised.

    code       the CUresult
    name text  the driver's name and description of it
    arguments  "parameter=value" strings
    detail     more information, such as a compiler's log, shown below the message
    private    whether a context belongs to this package only, as in the emulator, so that it can simply be reset
    report     a memory checker's report; a ContextLost begins with it, and has its attributes
    earlier    whether an earlier exception has shown this report

    The message of a ContextLost begins with what happened, because the call that returned the code did nothing wrong.
    """
    kind, remedy = _REMEDIES.get(code, (CudaError, ""))
    if private:
        remedy = remedy.replace("Restart this process", "Call reset() of the Device, or restart this process")
        remedy = remedy.replace("; compute-sanitizer or the emulator names the line", "")  # the report does
        remedy = remedy.replace("A kernel ran longer than the display's watchdog allows", "A kernel does not end")
    text = text.rstrip(".")
    message, said = f"{call}({', '.join(arguments)})", f"{name} ({code}): {text}."
    if kind is ContextLost:
        happened, _, remedy = remedy.partition(". ")
        happened = str(report or happened).rstrip().rstrip(".")
        if earlier:
            happened = f"an earlier kernel failed: {happened.splitlines()[0]}"
        message = f"{happened}\n{message} noticed it"
    elif report:
        remedy = "" if code == _OUT_OF_MEMORY else remedy  # the report says whether there can be enough
        detail = "\n".join(filter(None, (report, detail)))
    message += f": {said} {remedy}".rstrip()
    if detail:
        message += "\n" + detail.rstrip()
    made = kind(message, code=code, name=name, call=call, arguments=arguments)
    if kind is ContextLost:
        vars(made).update({fact: getattr(report, fact) for fact in _OF_REPORTS if hasattr(report, fact)})
    return made


_OUT_OF_MEMORY = 2
_OF_REPORTS = "checker kernel file line text block thread address allocation launch".split()


def worded(value: Any, longest: int = 60) -> str:
    """Return a text for a value in a message: its repr if that is short, otherwise its type."""
    if issubclass(type(value), int) and int.bit_length(value) > 256:  # Python may refuse to convert it to text
        return f"an int of {int.bit_length(value)} bits"
    try:
        text = repr(value)
    except Exception:  # a message about a bad value must not fail because its repr does
        text = ""
    if text and len(text) <= longest:
        return text
    return a_kind(value)


def a_kind(value: Any) -> str:
    """Return the name of a value's type with its article: "an int", "a Memory"."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' or name == 'ndarray' else 'a'} {name}"


def shown(text: str) -> str:
    """Return text of others with its control characters escaped, except tabs and ends of lines.

    A terminal would obey them. Whatever the commands, the emulator and traces print goes through this function, except
    the output of a program or kernel that they run. The messages of exceptions hold foreign text as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode("ascii") for each in text
    )
