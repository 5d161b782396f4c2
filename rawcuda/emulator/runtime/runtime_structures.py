"""The structures of the runtime: those that are passed by value, and those that calls read or write.

What it is   ctypes structures, and `device_properties` and `function_attributes`, whose layouts depend on the version.
Source       driver_types.h, vector_types.h and texture_types.h of CUDA 11.8, 12.0, 12.9 and 13.0; the tests compare
             the layouts with what a C compiler says of these headers
Read next    runtime_table.py
"""

from __future__ import annotations

import ctypes
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "ChannelFormat",
    "Copy",
    "Extent",
    "PeerCopy",
    "PitchedPointer",
    "Position",
    "Resource",
    "STRUCTURES",
    "Texture",
    "device_properties",
    "function_attributes",
    "pointer_attributes",
]

_Size, _Int, _Uint = ctypes.c_size_t, ctypes.c_int, ctypes.c_uint


class Dim3(ctypes.Structure):
    """The dimensions of a grid or a block: dim3."""

    _fields_ = [("x", _Uint), ("y", _Uint), ("z", _Uint)]


class Extent(ctypes.Structure):
    """Width, height and depth: cudaExtent."""

    _fields_ = [("width", _Size), ("height", _Size), ("depth", _Size)]


class Position(ctypes.Structure):
    """A position: cudaPos."""

    _fields_ = [("x", _Size), ("y", _Size), ("z", _Size)]


class PitchedPointer(ctypes.Structure):
    """An address with a pitch: cudaPitchedPtr."""

    _fields_ = [("pointer", _Size), ("pitch", _Size), ("xsize", _Size), ("ysize", _Size)]


class Location(ctypes.Structure):
    """A place of memory: cudaMemLocation."""

    _fields_ = [("type", _Int), ("id", _Int)]


class Handle(ctypes.Structure):
    """A handle of memory or of an event for other processes: cudaIpcMemHandle_t, cudaIpcEventHandle_t."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class ChannelFormat(ctypes.Structure):
    """The bits of each component of an element, and their kind: cudaChannelFormatDesc."""

    _fields_ = [("x", _Int), ("y", _Int), ("z", _Int), ("w", _Int), ("kind", _Int)]


class Copy(ctypes.Structure):
    """A copy in three dimensions: cudaMemcpy3DParms."""

    _fields_ = [
        ("source_array", _Size),
        ("source_position", Position),
        ("source", PitchedPointer),
        ("target_array", _Size),
        ("target_position", Position),
        ("target", PitchedPointer),
        ("extent", Extent),
        ("kind", _Int),
    ]


class PeerCopy(ctypes.Structure):
    """A copy in three dimensions between devices: cudaMemcpy3DPeerParms."""

    _fields_ = [
        ("source_array", _Size),
        ("source_position", Position),
        ("source", PitchedPointer),
        ("source_device", _Int),
        ("target_array", _Size),
        ("target_position", Position),
        ("target", PitchedPointer),
        ("target_device", _Int),
        ("extent", Extent),
    ]


class Resource(ctypes.Structure):
    """What a texture or a surface reads: cudaResourceDesc, without its last member, which CUDA 13 has added."""

    class _Linear(ctypes.Structure):
        _fields_ = [("pointer", _Size), ("format", ChannelFormat), ("size", _Size)]

    class _Pitched(ctypes.Structure):
        _fields_ = [
            ("pointer", _Size),
            ("format", ChannelFormat),
            ("width", _Size),
            ("height", _Size),
            ("pitch", _Size),
        ]

    class _Union(ctypes.Union):
        pass

    _Union._fields_ = [("array", _Size), ("linear", _Linear), ("pitched", _Pitched)]
    _fields_ = [("type", _Int), ("of", _Union)]


class Texture(ctypes.Structure):
    """How a texture is read: cudaTextureDesc, without its last member, which CUDA 12 has added."""

    _fields_ = [
        ("address_mode", _Int * 3),
        ("filter_mode", _Int),
        ("read_mode", _Int),
        ("srgb", _Int),
        ("border_color", ctypes.c_float * 4),
        ("normalized", _Int),
        ("max_anisotropy", _Uint),
        ("mipmap_filter_mode", _Int),
        ("mipmap_level_bias", ctypes.c_float),
        ("min_mipmap_level", ctypes.c_float),
        ("max_mipmap_level", ctypes.c_float),
        ("disable_trilinear", _Int),
    ]


# by their names in C
STRUCTURES: dict[str, Any] = {
    "dim3": Dim3,
    "cudaExtent": Extent,
    "cudaPitchedPtr": PitchedPointer,
    "cudaMemLocation": Location,
    "cudaIpcMemHandle_t": Handle,
    "cudaIpcEventHandle_t": Handle,
    "cudaChannelFormatDesc": ChannelFormat,
}

# The members of cudaDeviceProp. After a member come the versions that have it, if not all have it, and its value: the
# number of a device attribute, or the numbers of those of an array. Other members are 0, or those of
# runtime_devices.py.
_DEVICE_PROPERTIES = """
char name[256]
char uuid[16]
char luid[8]
unsigned int luidDeviceNodeMask
size_t totalGlobalMem
size_t sharedMemPerBlock                       = 8
int regsPerBlock                               = 12
int warpSize                                   = 10
size_t memPitch                                = 11
int maxThreadsPerBlock                         = 1
int maxThreadsDim[3]                           = 2 3 4
int maxGridSize[3]                             = 5 6 7
int clockRate                            11-12 = 13
size_t totalConstMem                           = 9
int major                                      = 75
int minor                                      = 76
size_t textureAlignment                        = 14
size_t texturePitchAlignment                   = 51
int deviceOverlap                        11-12 = 15
int multiProcessorCount                        = 16
int kernelExecTimeoutEnabled             11-12 = 17
int integrated                                 = 18
int canMapHostMemory                           = 19
int computeMode                          11-12 = 20
int maxTexture1D                               = 21
int maxTexture1DMipmap                         = 77
int maxTexture1DLinear                   11-12 = 69
int maxTexture2D[2]                            = 22 23
int maxTexture2DMipmap[2]                      = 73 74
int maxTexture2DLinear[3]                      = 70 71 72
int maxTexture2DGather[2]                      = 45 46
int maxTexture3D[3]                            = 24 25 26
int maxTexture3DAlt[3]                         = 47 48 49
int maxTextureCubemap                          = 52
int maxTexture1DLayered[2]                     = 42 43
int maxTexture2DLayered[3]                     = 27 28 29
int maxTextureCubemapLayered[2]                = 53 54
int maxSurface1D                               = 55
int maxSurface2D[2]                            = 56 57
int maxSurface3D[3]                            = 58 59 60
int maxSurface1DLayered[2]                     = 61 62
int maxSurface2DLayered[3]                     = 63 64 65
int maxSurfaceCubemap                          = 66
int maxSurfaceCubemapLayered[2]                = 67 68
size_t surfaceAlignment                        = 30
int concurrentKernels                          = 31
int ECCEnabled                                 = 32
int pciBusID                                   = 33
int pciDeviceID                                = 34
int pciDomainID                                = 50
int tccDriver                                  = 35
int asyncEngineCount                           = 40
int unifiedAddressing                          = 41
int memoryClockRate                      11-12 = 36
int memoryBusWidth                             = 37
int l2CacheSize                                = 38
int persistingL2CacheMaxSize                   = 108
int maxThreadsPerMultiProcessor                = 39
int streamPrioritiesSupported                  = 78
int globalL1CacheSupported                     = 79
int localL1CacheSupported                      = 80
size_t sharedMemPerMultiprocessor              = 81
int regsPerMultiprocessor                      = 82
int managedMemory                              = 83
int isMultiGpuBoard                            = 84
int multiGpuBoardGroupID                       = 85
int hostNativeAtomicSupported                  = 86
int singleToDoublePrecisionPerfRatio     11-12 = 87
int pageableMemoryAccess                       = 88
int concurrentManagedAccess                    = 89
int computePreemptionSupported                 = 90
int canUseHostPointerForRegisteredMem          = 91
int cooperativeLaunch                          = 95
int cooperativeMultiDeviceLaunch         11-12 = 96
size_t sharedMemPerBlockOptin                  = 97
int pageableMemoryAccessUsesHostPageTables     = 100
int directManagedMemAccessFromHost             = 101
int maxBlocksPerMultiProcessor                 = 106
int accessPolicyMaxWindowSize                  = 109
size_t reservedSharedMemPerBlock               = 111
int hostRegisterSupported                12-13 = 99
int sparseCudaArraySupported             12-13 = 112
int hostRegisterReadOnlySupported        12-13 = 113
int timelineSemaphoreInteropSupported    12-13 = 114
int memoryPoolsSupported                 12-13 = 115
int gpuDirectRDMASupported               12-13 = 116
unsigned int gpuDirectRDMAFlushWritesOptions 12-13 = 117
int gpuDirectRDMAWritesOrdering          12-13 = 118
unsigned int memoryPoolSupportedHandleTypes 12-13 = 119
int deferredMappingCudaArraySupported    12-13 = 121
int ipcEventSupported                    12-13 = 125
int clusterLaunch                        12-13 = 120
int unifiedFunctionPointers              12-13 = 129
int deviceNumaConfig                     13    = 130
int deviceNumaId                         13    = 131
int mpsEnabled                           13    = 133
int hostNumaId                           13    = 134
unsigned int gpuPciDeviceID              13    = 139
unsigned int gpuPciSubsystemID           13    = 140
int hostNumaMultinodeIpcSupported        13    = 143
int reserved12[63]                       12
int reserved13[56]                       13
"""
_FUNCTION_ATTRIBUTES = """
size_t sharedSizeBytes                         = 1
size_t constSizeBytes                          = 2
size_t localSizeBytes                          = 3
int maxThreadsPerBlock                         = 0
int numRegs                                    = 4
int ptxVersion                                 = 5
int binaryVersion                              = 6
int cacheModeCA                                = 7
int maxDynamicSharedSizeBytes                  = 8
int preferredShmemCarveout                     = 9
int clusterDimMustBeSet                  12-13 = 10
int requiredClusterWidth                 12-13 = 11
int requiredClusterHeight                12-13 = 12
int requiredClusterDepth                 12-13 = 13
int clusterSchedulingPolicyPreference    12-13 = 15
int nonPortableClusterSizeAllowed        12-13 = 14
int reserved[16]                         12-13
"""
_POINTER_ATTRIBUTES = """
int type
int device
size_t devicePointer
size_t hostPointer
size_t reserved[8]                       13
"""
_MEMBER = re.compile(r"([\w ]+?) (\w+)(?:\[(\d+)\])? *(?:(\d\d)(?:-(\d\d))?)? *(?:= ([\d ]+))?")
_TYPES: dict[str, Any] = {"char": ctypes.c_char, "int": _Int, "unsigned int": _Uint, "size_t": _Size}


class Layout:
    """A structure of a version, and the attributes of which its members are the values.

    numbers  the name of each such member, and the numbers of its attributes
    """

    __slots__ = ("structure", "numbers")

    def __init__(self, text: str, major: int) -> None:
        fields: list[tuple[str, Any]] = []
        self.numbers: dict[str, list[int]] = {}
        for line in text.strip().splitlines():
            found = _MEMBER.fullmatch(line.rstrip())
            if found is None:
                raise ValueError(f"{line!r} is not a member")
            c_type, name, count, first, last, numbers = found.groups()
            if first and not int(first) <= major <= int(last or first):
                continue
            fields.append((name, _TYPES[c_type] * int(count) if count else _TYPES[c_type]))
            if numbers:
                self.numbers[name] = [int(number) for number in numbers.split()]
        self.structure: Any = type("Structure", (ctypes.Structure,), {"_fields_": fields})


_KNOWN: dict[tuple[str, int], Layout] = {}


def _layout(text: str, major: int) -> Layout:
    key = text, major
    if key not in _KNOWN:
        _KNOWN[key] = Layout(text, major)
    return _KNOWN[key]


def device_properties(major: int) -> Layout:
    """Return the layout of cudaDeviceProp, which the library of CUDA 12 has in those of 11 and 12."""
    return _layout(_DEVICE_PROPERTIES, major)


def function_attributes(major: int) -> Layout:
    """Return the layout of cudaFuncAttributes."""
    return _layout(_FUNCTION_ATTRIBUTES, major)


def pointer_attributes(major: int) -> Layout:
    """Return the layout of cudaPointerAttributes."""
    return _layout(_POINTER_ATTRIBUTES, major)
