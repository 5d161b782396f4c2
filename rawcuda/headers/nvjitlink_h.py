"""nvJitLink.h as data: the functions, constants and types of nvJitLink, NVIDIA's linker as a library.

What it is   the C text of the header, and each of its names as an attribute of this module, made when it is first used;
             cuda_h.py explains the form of the text, reader.py the reader.
What not     it loads no library and calls nothing.
Source       nvJitLink.h of CUDA 12.0 to 13.5; the symbols that these libraries export; NVIDIA, "nvJitLink" (user guide)
Read next    nvrtc_h.py

The header calls each function by a name with the version of the library: __nvJitLinkCreate_12_4. A library exports one
for each version of CUDA of its major version, up to its own, and from 12.3 on also the plain names. `versioned` after
a function's version means that from this version on it has names of the first kind.
"""

from __future__ import annotations

from .reader import Header, Prototypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PROTOTYPES", "ENUMS", "TYPES", "HEADER", "prototypes", "enum"]

PROTOTYPES = r"""
nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor);   // 12.3  get the library's CUDA version
nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t numOptions, const char **options);
        // 12.0 versioned  begin a link; -arch=sm_90 is required
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle);   // 12.0 versioned  free a link and its results
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType, const void *data, size_t size,
        const char *name);   // 12.0 versioned  add code from memory; the name is for messages
nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType inputType, const char *fileName);
        // 12.0 versioned  add code from a file
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle);   // 12.0 versioned  link; the logs tell why it failed
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size);
        // 12.0 versioned  get the size of the cubin
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin);   // 12.0 versioned  get the cubin
nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t *size);
        // 12.0 versioned  get the size of the PTX, with its final zero; needs -lto and -ptx
nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char *ptx);   // 12.0 versioned  get the PTX
nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t *size);
        // 13.3 versioned  get the size of the LTO-IR
nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void *ltoir);   // 13.3 versioned  get the LTO-IR
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size);
        // 12.0 versioned  get the size of the errors, with the final zero
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);   // 12.0 versioned  get the errors
nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t *size);
        // 12.0 versioned  get the size of the warnings and information, with the final zero
nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char *log);
        // 12.0 versioned  get the warnings and information
"""

ENUMS = r"""
enum nvJitLinkResult {
    NVJITLINK_SUCCESS = 0,
    NVJITLINK_ERROR_UNRECOGNIZED_OPTION = 1,
    NVJITLINK_ERROR_MISSING_ARCH = 2,   // -arch=sm_90 is required
    NVJITLINK_ERROR_INVALID_INPUT = 3,
    NVJITLINK_ERROR_PTX_COMPILE = 4,
    NVJITLINK_ERROR_NVVM_COMPILE = 5,
    NVJITLINK_ERROR_INTERNAL = 6,
    NVJITLINK_ERROR_THREADPOOL = 7,   // 12.3
    NVJITLINK_ERROR_UNRECOGNIZED_INPUT = 8,   // 12.4
    NVJITLINK_ERROR_FINALIZE = 9,   // 12.6
    NVJITLINK_ERROR_NULL_INPUT = 10,   // 13.0  in CUDA 12 it and the next five were INVALID_INPUT or INTERNAL
    NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS = 11,   // 13.0
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12,   // 13.0
    NVJITLINK_ERROR_ARCH_MISMATCH = 13,   // 13.0
    NVJITLINK_ERROR_OUTDATED_LIBRARY = 14,   // 13.0  the input is of a newer CUDA than the library
    NVJITLINK_ERROR_MISSING_FATBIN = 15,   // 13.0
    NVJITLINK_ERROR_UNRECOGNIZED_ARCH = 16,   // 13.0
    NVJITLINK_ERROR_UNSUPPORTED_ARCH = 17,   // 13.0
    NVJITLINK_ERROR_LTO_NOT_ENABLED = 18,   // 13.0  LTO-IR needs -lto
};
enum nvJitLinkInputType {
    NVJITLINK_INPUT_NONE = 0,
    NVJITLINK_INPUT_CUBIN = 1,
    NVJITLINK_INPUT_PTX = 2,
    NVJITLINK_INPUT_LTOIR = 3,
    NVJITLINK_INPUT_FATBIN = 4,
    NVJITLINK_INPUT_OBJECT = 5,   // a host's object file with device code inside
    NVJITLINK_INPUT_LIBRARY = 6,   // an archive of such files
    NVJITLINK_INPUT_INDEX = 7,   // 12.6
    NVJITLINK_INPUT_ANY = 10,   // 12.4  the library determines the type
};
"""

TYPES = r"""
typedef struct nvJitLink *nvJitLinkHandle;   // a link: its options, its inputs and what was linked of them
"""

HEADER = Header(__name__, lambda: iter((PROTOTYPES,)), lambda: ENUMS, lambda: TYPES)


def prototypes() -> Prototypes:
    """Return every function of the header by its plain name."""
    return HEADER.prototypes


def enum(name: str) -> dict[str, int]:
    """Return the enumerators of one enum by name."""
    return HEADER.enum(name)


def __getattr__(name: str) -> Any:
    """Return what a name of the header stands for: an int, an IntEnum, a ctypes type."""
    return HEADER.attribute(name, globals())


def __dir__() -> list[str]:
    return HEADER.all_names(globals())
