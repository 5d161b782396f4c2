"""nvrtc.h as data: the functions, constants and types of NVRTC, NVIDIA's compiler as a library.

What it is   the C text of the header, and each of its names as an attribute of this module, made when it is first used;
             cuda_h.py explains the form of the text, reader.py the reader.
What not     it loads no library: compiler/nvrtc.py does.
Source       nvrtc.h of CUDA 11.8 to 13.5; the symbols that these libraries export; NVIDIA, "NVRTC" (user guide)
Read next    nvjitlink_h.py
"""

from __future__ import annotations

from .reader import Header, Prototypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PROTOTYPES", "ENUMS", "TYPES", "HEADER", "prototypes", "enum"]

PROTOTYPES = r"""
const char *nvrtcGetErrorString(nvrtcResult result);   // 7.0  get the name of a status: "NVRTC_ERROR_COMPILATION"
nvrtcResult nvrtcVersion(int *major, int *minor);   // 7.0  get the library's CUDA version
nvrtcResult nvrtcGetNumSupportedArchs(int *numArchs);   // 11.2  get how many architectures it compiles for
nvrtcResult nvrtcGetSupportedArchs(int *supportedArchs);   // 11.2  get them, in ascending order: 90 is sm_90

/* Programs */
nvrtcResult nvrtcCreateProgram(nvrtcProgram *prog, const char *src, const char *name, int numHeaders,
        const char * const *headers, const char * const *includeNames);   // 7.0  make a program of a source
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *prog);   // 7.0  free a program
nvrtcResult nvrtcAddNameExpression(nvrtcProgram prog, const char * const name_expression);
        // 8.0  register a name expression, such as an instance of a template, before compiling
nvrtcResult nvrtcSetFlowCallback(nvrtcProgram prog, nvrtcFlowCallback callback, void *payload);
        // 12.8  set a function that is called during compilation; if it returns 1, the compilation is cancelled
nvrtcResult nvrtcCompileProgram(nvrtcProgram prog, int numOptions, const char * const *options);
        // 7.0  compile; the log tells why it failed

/* Results. A text's size includes its final zero */
nvrtcResult nvrtcGetLoweredName(nvrtcProgram prog, const char * const name_expression, const char **lowered_name);
        // 8.0  get the name in the code that a name expression has
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram prog, size_t *logSizeRet);   // 7.0  get the size of the log
nvrtcResult nvrtcGetProgramLog(nvrtcProgram prog, char *log);   // 7.0  get the log
nvrtcResult nvrtcGetPTXSize(nvrtcProgram prog, size_t *ptxSizeRet);   // 7.0  get the size of the PTX
nvrtcResult nvrtcGetPTX(nvrtcProgram prog, char *ptx);   // 7.0  get the PTX
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram prog, size_t *cubinSizeRet);   // 11.1  get the size of the cubin
nvrtcResult nvrtcGetCUBIN(nvrtcProgram prog, char *cubin);   // 11.1  get the cubin
nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram prog, size_t *LTOIRSizeRet);   // 12.0  get the size of the LTO-IR
nvrtcResult nvrtcGetLTOIR(nvrtcProgram prog, char *LTOIR);   // 12.0  get the LTO-IR
nvrtcResult nvrtcGetOptiXIRSize(nvrtcProgram prog, size_t *optixirSizeRet);   // 12.0  get the size of the OptiX IR
nvrtcResult nvrtcGetOptiXIR(nvrtcProgram prog, char *optixir);   // 12.0  get the OptiX IR
nvrtcResult nvrtcGetTileIRSize(nvrtcProgram prog, size_t *TileIRSizeRet);   // 13.2  get the size of the Tile IR
nvrtcResult nvrtcGetTileIR(nvrtcProgram prog, char *TileIR);   // 13.2  get the Tile IR
nvrtcResult nvrtcGetNVVMSize(nvrtcProgram prog, size_t *nvvmSizeRet);
        // 11.4 gone  get the size of the LTO-IR: up to CUDA 12.9, the old name of nvrtcGetLTOIRSize
nvrtcResult nvrtcGetNVVM(nvrtcProgram prog, char *nvvm);
        // 11.4 gone  get the LTO-IR: up to CUDA 12.9, the old name of nvrtcGetLTOIR

/* Precompiled headers */
nvrtcResult nvrtcGetPCHHeapSize(size_t *ret);   // 12.8  get the size of the heap for precompiled headers
nvrtcResult nvrtcSetPCHHeapSize(size_t size);   // 12.8  set the size of the heap for precompiled headers
nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram prog);   // 12.8  return whether a precompiled header was made
nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram prog, size_t *size);
        // 12.8  get the size of the heap that the precompiled header needed

/* The headers of CUDA that the library carries */
nvrtcResult nvrtcInstallBundledHeaders(const char *installPath, unsigned int flags, const char **errorLog);
        // 13.3  write the headers to a folder, see NVRTC_INSTALL_HEADERS_*
nvrtcResult nvrtcGetBundledHeadersInfo(nvrtcBundledHeadersInfo *info, const char **errorLog);
        // 13.3  get how many and how large the headers are
nvrtcResult nvrtcRemoveBundledHeaders(const char *installPath, const char **errorLog);   // 13.3  remove them again
"""

ENUMS = r"""
enum nvrtcResult {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,   // the log gives the reason
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,   // most often, the builtins library was not found
    NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
    NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
    NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
    NVRTC_ERROR_INTERNAL_ERROR = 11,
    NVRTC_ERROR_TIME_FILE_WRITE_FAILED = 12,   // 12.1
    NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED = 13,   // 12.8
    NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED = 14,   // 12.8
    NVRTC_ERROR_PCH_CREATE = 15,   // 12.8
    NVRTC_ERROR_CANCELLED = 16,   // 12.8  by the callback of nvrtcSetFlowCallback
    NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED = 17,   // 13.0
    NVRTC_ERROR_BUSY = 18,   // 13.3  another process writes to the folder
};
#define NVRTC_INSTALL_HEADERS_SKIP_IF_EXISTS 0   // 13.3
#define NVRTC_INSTALL_HEADERS_FORCE_OVERWRITE 1   // 13.3
#define NVRTC_INSTALL_HEADERS_NO_WAIT 2   // 13.3
"""

TYPES = r"""
typedef struct _nvrtcProgram *nvrtcProgram;   // a source, its headers and what was compiled of it
typedef int (*nvrtcFlowCallback)(void *, void *);
        // 12.8  payload, and a pointer that is always NULL; the header has no name for it
struct nvrtcBundledHeadersInfo {   // 13.3  how many and how large the headers are that the library carries
    int available;
    size_t compressedSize;
    size_t uncompressedSize;
    int cudaVersionMajor;
    int cudaVersionMinor;
    unsigned int numFiles;
};
"""

HEADER = Header(__name__, lambda: iter((PROTOTYPES,)), lambda: ENUMS, lambda: TYPES)


def prototypes() -> Prototypes:
    """Return every function of the header by its name."""
    return HEADER.prototypes


def enum(name: str) -> dict[str, int]:
    """Return the enumerators of one enum by name."""
    return HEADER.enum(name)


def __getattr__(name: str) -> Any:
    """Return what a name of the header stands for: an int, an IntEnum, a ctypes type."""
    return HEADER.attribute(name, globals())


def __dir__() -> list[str]:
    return HEADER.all_names(globals())
