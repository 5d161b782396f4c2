"""The libraries that the emulator replaces: their names, their functions, and the code that answers calls.

What it is   `LIBRARIES`, one row for each library.
Read next    attaching.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .. import Emulator

    Answers = Callable[[str], "int | None"]

__all__ = ["LIBRARIES", "Library"]


class Library:
    """A library that is impersonated.

    sonames  the names under which programs load it
    names    returns the names of the functions that it exports
    open     gets the emulator of this process, and returns a function that returns the address of the C function of a
             name, or None if there is none. That function is called once for each name, when it is first used.
    codes    what a function returns after the interpreter has ended, in a forked child, if the function does not exist,
             and if the emulator cannot be started
    telling  the functions that describe errors: two return the name and the text through a pointer, and two return them
             as their results
    errors   returns the name and the text of each error
    unknown  the text of any other code
    version  the version of all its symbols, or ""
    lacks    tells whether the function of a name, which is exported, is not emulated, and has an address all the same
    initializes  whether its functions initialize the driver, and are refused in a child that is forked afterwards
    """

    __slots__ = ("sonames", "names", "open", "codes", "telling", "errors", "unknown", "version", "lacks", "initializes")

    def __init__(
        self,
        sonames: tuple[str, ...],
        names: Callable[[], list[str]],
        open: Callable[[Emulator], Answers],
        codes: tuple[int, int, int, int],
        telling: tuple[str, str, str, str] = ("", "", "", ""),
        errors: Callable[[], dict[int, tuple[bytes, bytes]]] = dict,
        unknown: bytes = b"",
        version: str = "",
        lacks: Callable[[str], bool] = lambda name: False,
        initializes: bool = False,
    ) -> None:
        self.version, self.lacks, self.initializes = version, lacks, initializes
        self.telling, self.errors, self.unknown = telling, errors, unknown
        self.sonames, self.names, self.open, self.codes = sonames, names, open, codes


# of cudaGL.h, cudaEGL.h and cudaVDPAU.h: each returns 801, but without them, some programs do not start
_GRAPHICS = """
cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGLGetDevices cuGLGetDevices_v2 cuGLCtxCreate cuGLCtxCreate_v2
cuGLInit cuGLRegisterBufferObject cuGLUnregisterBufferObject cuGLSetBufferObjectMapFlags cuGLMapBufferObject
cuGLMapBufferObject_v2 cuGLMapBufferObjectAsync cuGLMapBufferObjectAsync_v2 cuGLUnmapBufferObject
cuGLUnmapBufferObjectAsync cuGraphicsEGLRegisterImage cuGraphicsResourceGetMappedEglFrame cuEventCreateFromEGLSync
cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags cuEGLStreamConsumerDisconnect
cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame cuVDPAUGetDevice
cuVDPAUCtxCreate cuVDPAUCtxCreate_v2 cuGraphicsVDPAURegisterVideoSurface cuGraphicsVDPAURegisterOutputSurface
"""


def _driver_names() -> list[str]:
    from ...headers import cuda_h

    return sorted({*cuda_h.prototypes(), *_GRAPHICS.split()})


def _driver(emulator: Emulator) -> Answers:
    return emulator.address


def _driver_errors() -> dict[int, tuple[bytes, bytes]]:
    from ..machine.codes import NAMES, TEXTS

    return {code: (NAMES[code], TEXTS[code]) for code in NAMES}


def _nvml_errors() -> dict[int, tuple[bytes, bytes]]:
    from .nvml import TEXTS

    return {code: (text, text) for code, text in TEXTS.items()}


def _nvml_names() -> list[str]:
    from .nvml import NAMES

    return NAMES


def _nvml(emulator: Emulator) -> Answers:
    from .nvml import open_nvml

    return open_nvml(emulator)


def _runtime(major: int) -> Library:
    def names() -> list[str]:
        from ..runtime.runtime_table import functions

        return sorted(functions(major))

    def open(emulator: Emulator) -> Answers:
        from ..runtime.serving import open_runtime

        return open_runtime(emulator, major)

    def lacks(name: str) -> bool:
        from ..runtime.serving import lacks

        return lacks(major, name)

    def errors() -> dict[int, tuple[bytes, bytes]]:
        from ..runtime.runtime_errors import NAMES, TEXTS

        return {code: (NAMES[code], TEXTS[code]) for code in NAMES}

    if major == 11:
        soname = "libcudart.so.11.0"
    else:
        soname = f"libcudart.so.{major}"
    # 4: cudaErrorCudartUnloading, 3: InitializationError, 801: NotSupported, 999: Unknown
    return Library(
        (soname,),
        names,
        open,
        (4, 3, 801, 999),
        ("", "", "cudaGetErrorName", "cudaGetErrorString"),
        errors,
        b"unrecognized error code",
        version=soname,
        lacks=lacks,
        initializes=True,
    )


def _compiler(major: int) -> Library:
    from functools import partial

    def names() -> list[str]:
        from .compilers import names

        return names()

    def open(emulator: Emulator, major: int) -> Answers:
        from .compilers import open_nvrtc

        return open_nvrtc(emulator, major)

    # 11: NVRTC_ERROR_INTERNAL_ERROR
    if major == 11:
        soname = "libnvrtc.so.11.2"
    else:
        soname = f"libnvrtc.so.{major}"
    return Library((soname,), names, partial(open, major=major), (11, 11, 11, 11))


def _linker(major: int) -> Library:
    from functools import partial

    def names() -> list[str]:
        from .linker import names

        return names()

    def open(emulator: Emulator, major: int) -> Answers:
        from .linker import open_nvjitlink

        return open_nvjitlink(emulator, major)

    # 6: NVJITLINK_ERROR_INTERNAL
    return Library((f"libnvJitLink.so.{major}",), names, partial(open, major=major), (6, 6, 6, 6))


LIBRARIES: dict[str, Library] = {
    # 4: CUDA_ERROR_DEINITIALIZED, 3: NOT_INITIALIZED, 801: NOT_SUPPORTED, 999: UNKNOWN
    "libcuda": Library(
        ("libcuda.so.1", "libcuda.so"),
        _driver_names,
        _driver,
        (4, 3, 801, 999),
        ("cuGetErrorName", "cuGetErrorString", "", ""),
        _driver_errors,
        initializes=True,
    ),
    # 1: NVML_ERROR_UNINITIALIZED, 13: FUNCTION_NOT_FOUND, 999: UNKNOWN
    "nvml": Library(
        ("libnvidia-ml.so.1", "libnvidia-ml.so"),
        _nvml_names,
        _nvml,
        (1, 1, 13, 999),
        ("", "", "nvmlErrorString", ""),
        _nvml_errors,
        b"unknown error",
    ),
    # the newest first: it answers programs that were linked without one, and therefore ask for no version
    **{f"libcudart{major}": _runtime(major) for major in (13, 12, 11)},
    **{f"libnvrtc{major}": _compiler(major) for major in (11, 12, 13)},
    **{f"libnvJitLink{major}": _linker(major) for major in (12, 13)},
}
