"""What real drivers and devices answer, as data: attributes, limits, sizes, alignments, names.

What it is   `Answers`, what one emulator answers: by default what this module lists, or what a report of `check` says
             of a real driver (`RAWCUDA_EMULATOR=report=FILE`). `capability_of`, the limits of a multiprocessor.
What not     a model of a product: by default a device has four multiprocessors and 4 GiB, so that a grid whose size
             depends on the device stays small, and numbers that only describe speed are invented. The names and texts
             of result codes are in codes.py, and what functions do in captures is in headers/behaviour.py.
How          The attributes are those of compute capability 9.0, and those that depend on another architecture are
             replaced by its own. The attributes of features that are not emulated are 0, so programs that query them do
             not use these features; a report does not change that.
Source       cuda.h, enum CUdevice_attribute; CUDA Programming Guide, "Technical specifications per compute capability";
             cuda_occupancy.h; for the defaults of limits, "Heap memory allocation" and "Formatted output". The
             largest values of limits, the alignments and the pitch are plausible; no source tells them.
Read next    entries/hardware/device_entries.py
"""

from __future__ import annotations

import json
import sys

from ...headers import behaviour, cuda_h
from .codes import NAMES, TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ATTRIBUTE_NAMES", "Answers", "Capability", "capability_of"]

# number, value, name; attributes without a row are 0
_ATTRIBUTES = """
  1 1024        MAX_THREADS_PER_BLOCK
  2 1024        MAX_BLOCK_DIM_X
  3 1024        MAX_BLOCK_DIM_Y
  4 64          MAX_BLOCK_DIM_Z
  5 2147483647  MAX_GRID_DIM_X
  6 65535       MAX_GRID_DIM_Y
  7 65535       MAX_GRID_DIM_Z
  8 49152       MAX_SHARED_MEMORY_PER_BLOCK
  9 65536       TOTAL_CONSTANT_MEMORY
 10 32          WARP_SIZE
 11 2147483647  MAX_PITCH
 12 65536       MAX_REGISTERS_PER_BLOCK
 13 1000000     CLOCK_RATE
 14 512         TEXTURE_ALIGNMENT
 15 1           GPU_OVERLAP
 16 4           MULTIPROCESSOR_COUNT
 19 1           CAN_MAP_HOST_MEMORY
 21 131072      MAXIMUM_TEXTURE1D_WIDTH
 22 131072      MAXIMUM_TEXTURE2D_WIDTH
 23 65536       MAXIMUM_TEXTURE2D_HEIGHT
 24 16384       MAXIMUM_TEXTURE3D_WIDTH
 25 16384       MAXIMUM_TEXTURE3D_HEIGHT
 26 16384       MAXIMUM_TEXTURE3D_DEPTH
 27 32768       MAXIMUM_TEXTURE2D_LAYERED_WIDTH
 28 32768       MAXIMUM_TEXTURE2D_LAYERED_HEIGHT
 29 2048        MAXIMUM_TEXTURE2D_LAYERED_LAYERS
 30 512         SURFACE_ALIGNMENT
 31 1           CONCURRENT_KERNELS
 36 1000000     MEMORY_CLOCK_RATE
 37 512         GLOBAL_MEMORY_BUS_WIDTH
 38 8388608     L2_CACHE_SIZE
 39 2048        MAX_THREADS_PER_MULTIPROCESSOR
 40 2           ASYNC_ENGINE_COUNT
 41 1           UNIFIED_ADDRESSING
 42 32768       MAXIMUM_TEXTURE1D_LAYERED_WIDTH
 43 2048        MAXIMUM_TEXTURE1D_LAYERED_LAYERS
 44 1           CAN_TEX2D_GATHER
 45 32768       MAXIMUM_TEXTURE2D_GATHER_WIDTH
 46 32768       MAXIMUM_TEXTURE2D_GATHER_HEIGHT
 47 8192        MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE
 48 8192        MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE
 49 32768       MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE
 51 32          TEXTURE_PITCH_ALIGNMENT
 52 32768       MAXIMUM_TEXTURECUBEMAP_WIDTH
 53 32768       MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH
 54 2046        MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS
 55 32768       MAXIMUM_SURFACE1D_WIDTH
 56 131072      MAXIMUM_SURFACE2D_WIDTH
 57 65536       MAXIMUM_SURFACE2D_HEIGHT
 58 16384       MAXIMUM_SURFACE3D_WIDTH
 59 16384       MAXIMUM_SURFACE3D_HEIGHT
 60 16384       MAXIMUM_SURFACE3D_DEPTH
 61 32768       MAXIMUM_SURFACE1D_LAYERED_WIDTH
 62 2048        MAXIMUM_SURFACE1D_LAYERED_LAYERS
 63 32768       MAXIMUM_SURFACE2D_LAYERED_WIDTH
 64 32768       MAXIMUM_SURFACE2D_LAYERED_HEIGHT
 65 2048        MAXIMUM_SURFACE2D_LAYERED_LAYERS
 66 32768       MAXIMUM_SURFACECUBEMAP_WIDTH
 67 32768       MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH
 68 2046        MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS
 69 268435456   MAXIMUM_TEXTURE1D_LINEAR_WIDTH
 70 131072      MAXIMUM_TEXTURE2D_LINEAR_WIDTH
 71 65000       MAXIMUM_TEXTURE2D_LINEAR_HEIGHT
 72 2097120     MAXIMUM_TEXTURE2D_LINEAR_PITCH
 73 32768       MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH
 74 32768       MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT
 75 9           COMPUTE_CAPABILITY_MAJOR
 76 0           COMPUTE_CAPABILITY_MINOR
 77 32768       MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
 78 1           STREAM_PRIORITIES_SUPPORTED
 79 1           GLOBAL_L1_CACHE_SUPPORTED
 80 1           LOCAL_L1_CACHE_SUPPORTED
 81 233472      MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
 82 65536       MAX_REGISTERS_PER_MULTIPROCESSOR
 83 1           MANAGED_MEMORY
 87 2           SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
 89 1           CONCURRENT_MANAGED_ACCESS
 90 1           COMPUTE_PREEMPTION_SUPPORTED
 91 1           CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
 95 1           COOPERATIVE_LAUNCH
 97 232448      MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
 99 1           HOST_REGISTER_SUPPORTED
102 1           VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
103 1           HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
106 32          MAX_BLOCKS_PER_MULTIPROCESSOR
108 4194304     MAX_PERSISTING_L2_CACHE_SIZE
109 134213632   MAX_ACCESS_POLICY_WINDOW_SIZE
111 1024        RESERVED_SHARED_MEMORY_PER_BLOCK
113 1           READ_ONLY_HOST_REGISTER_SUPPORTED
115 1           MEMORY_POOLS_SUPPORTED
119 1           MEMPOOL_SUPPORTED_HANDLE_TYPES
120 1           CLUSTER_LAUNCH
122 1           CAN_USE_64_BIT_STREAM_MEM_OPS
123 1           CAN_USE_STREAM_WAIT_VALUE_NOR
125 1           IPC_EVENT_SUPPORTED
126 4           MEM_SYNC_DOMAIN_COUNT
127 1           TENSOR_MAP_ACCESS_SUPPORTED
131 -1          NUMA_ID
134 0           HOST_NUMA_ID
141 1           HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
142 1           HOST_NUMA_MEMORY_POOLS_SUPPORTED
144 1           HOST_MEMORY_POOLS_SUPPORTED
145 1           HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
"""
_LAST = 147  # the last attribute in the header
_MAJOR, _MINOR, _MULTIPROCESSORS, _CLUSTERS, _TENSOR_MAPS = 75, 76, 16, 120, 127
_PERSISTING_L2 = 108
_SIZES = 12  # the attributes up to this one are sizes of blocks, grids, memory and warps, and so at least 1
_MOST = (1 << 31) - 1  # of an int
# the end of a question in a report -> which answers it is one of; see tools/checking/groups/
_SITUATIONS = {
    "in a capture": "captures",
    "without a context": "contextless",
    "in another context": "elsewhere",
}

ATTRIBUTE_NAMES: dict[int, str] = {}
_VALUES: dict[int, int] = dict.fromkeys(range(1, _LAST + 1), 0)
for _line in _ATTRIBUTES.strip().splitlines():
    _number, _value, _name = _line.split()
    _VALUES[int(_number)] = int(_value)
    ATTRIBUTE_NAMES[int(_number)] = _name


# -- multiprocessors


class Capability:
    """The limits of a multiprocessor; sizes are in bytes.

    threads, blocks  how many of them are resident at the same time at most
    shared           the most shared memory; sizes: the possible sizes of it; optin: the most for one block
    unit, reserved   the unit in which blocks get shared memory, and what the system uses of it in each block
    parts            into how many parts the register file is divided
    """

    __slots__ = ("threads", "blocks", "shared", "sizes", "optin", "unit", "reserved", "parts")

    def __init__(self, row: str) -> None:
        threads, blocks, optin, unit, reserved, parts, sizes = row.split()
        self.threads, self.blocks, self.unit, self.parts = int(threads), int(blocks), int(unit), int(parts)
        self.optin, self.reserved = int(optin) << 10, int(reserved)
        self.sizes = [int(size) << 10 for size in sizes.split(",")]
        self.shared = self.sizes[-1]

    def attributes(self) -> dict[int, int]:
        """Return the device attributes for these limits, by number."""
        return {39: self.threads, 81: self.shared, 97: self.optin, 106: self.blocks, 111: self.reserved}

    def size_for(self, wanted: int) -> int:
        """Return the smallest size of shared memory that holds a number of bytes, or the largest size."""
        return next((size for size in self.sizes if size >= wanted), self.shared)


_LARGE, _SMALL = "0,8,16,32,64,100,132,164,196,228", "0,8,16,32,64,100"
# architecture: threads, blocks, KiB for one block, unit, reserved, parts, sizes in KiB
_CAPABILITIES = {
    50: "2048 32 48 256 0 4 64",
    52: "2048 32 48 256 0 4 96",
    53: "2048 32 48 256 0 4 64",
    60: "2048 32 48 256 0 2 64",
    61: "2048 32 48 256 0 4 96",
    62: "2048 32 48 256 0 4 64",
    70: "2048 32 96 256 0 4 0,8,16,32,64,96",
    75: "1024 16 64 256 0 4 32,64",
    80: "2048 32 163 128 1024 4 0,8,16,32,64,100,132,164",
    86: f"1536 16 99 128 1024 4 {_SMALL}",
    87: "1536 16 163 128 1024 4 0,8,16,32,64,100,132,164",
    89: f"1536 24 99 128 1024 4 {_SMALL}",
    90: f"2048 32 227 128 1024 4 {_LARGE}",
    100: f"2048 32 227 128 1024 4 {_LARGE}",
    101: f"1536 24 227 128 1024 4 {_LARGE}",
    103: f"2048 32 227 128 1024 4 {_LARGE}",
    110: f"1536 24 227 128 1024 4 {_LARGE}",
    120: f"1536 24 99 128 1024 4 {_SMALL}",
}
_known: dict[int, Capability] = {}


def capability_of(architecture: int) -> Capability:
    """Return the limits of an architecture such as 90, or of the newest one in the table that is not newer."""
    found = _known.get(architecture)
    if found is None:
        row = max((number for number in _CAPABILITIES if number <= architecture), default=50)
        found = _known[architecture] = Capability(_CAPABILITIES[row])
    return found


# -- all answers of one emulator


class Answers:
    """What the driver and the devices of one emulator answer.

    name           of all devices
    memory         the size of a device's memory, in bytes
    attributes     number -> value
    limits         CUlimit -> its default and its largest value; 3, the synchronization depth, exists only before sm_90
    priorities     the least and the greatest of a stream
    between_peers  CUdevice_P2PAttribute -> its value for two devices that reach each other
    alignment      of an allocation, in bytes
    pitch          of which the pitches of the driver are multiples, in bytes
    granularity    of virtual memory, in bytes
    captures       function -> the code that it returns in a capture of another stream, where a report tells it
    contextless    the same without a current context
    elsewhere      the same while another context than that of its objects is current; only a launch heeds it
    names, texts   of the result codes, by code
    cuda           the CUDA version of the driver in a report, or 0; mig: whether its devices are MIG instances
    architecture   of the devices: 90 is compute capability 9.0
    """

    def __init__(self, architecture: int = 90) -> None:
        self.architecture, self.cuda, self.mig = architecture, 0, False
        self.name = f"{__name__.partition('.emulator.')[0].rpartition('.')[2]} emulator"
        self.memory = 4 << 30 if sys.maxsize > 1 << 32 else 2 << 30  # a size_t must hold it
        self.attributes = {**_VALUES, _MAJOR: architecture // 10, _MINOR: architecture % 10}
        if architecture != 90:
            self.attributes.update(capability_of(architecture).attributes())
        if architecture < 90:
            self.attributes.update({_CLUSTERS: 0, _TENSOR_MAPS: 0})
        self.limits = {
            0: (1024, 512 << 10),
            1: (1 << 20, self.memory),
            2: (8 << 20, self.memory),
            3: (2, 24),
            4: (2048, 1 << 20),
            5: (64, 128),
            6: (0, self.attributes[_PERSISTING_L2]),
        }
        self.priorities = 0, -5
        # performance rank, access, native atomics, access to arrays, some native atomics only
        self.between_peers = {1: 0, 2: 1, 3: 1, 4: 0, 5: 0}
        self.alignment, self.pitch, self.granularity = 512, 512, 2 << 20
        self.captures: dict[str, int] = {}
        self.contextless: dict[str, int] = {}
        self.elsewhere: dict[str, int] = {}
        self.names, self.texts = NAMES, TEXTS

    def is_unsafe(self, symbol: str) -> bool:
        """Tell whether a function is refused, and breaks the capture, while any stream is captured."""
        known, code = behaviour.of(symbol).capture, self.captures.get(symbol)
        if code is None or known == "captured":
            return known == "unsafe"
        return code != 0

    @classmethod
    def from_report(cls, path: str, number: int = 0) -> Answers:
        """Return the answers of a real driver, from a report that `check` wrote on a machine with a GPU.

        number   which device of the report
        raises   ValueError  the file cannot be read, or is not such a report
        """
        try:
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            device = report["devices"][number]
            major, minor = map(int, device["compute_capability"].split("."))
            _ranged("major", major, 1, 99), _ranged("minor", minor, 0, 9)
            made = cls(10 * major + minor)
            made._take(report, device)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            known = isinstance(error, (OSError, ValueError, OverflowError, RecursionError))
            said = error if known else f"{error!r} is missing, or of another type"
            raise ValueError(
                f"report={path}: {said}: give the file that `check` wrote on a machine whose driver worked"
            ) from None
        return made

    def _take(self, report: dict[str, Any], device: dict[str, Any]) -> None:
        """Replace what a report tells."""
        self.name, self.memory = f"{device['name']} (emulated)", _ranged("memory", device["memory"], 1)
        self.name.encode()
        self.cuda, self.mig = _ranged("cuda", report["cuda"], 0, _MOST), "MIG" in device["modes"]
        numbers = cuda_h.enum("CUdevice_attribute")
        for name, value in _facts(device["attributes"]):
            number = numbers.get(f"CU_DEVICE_ATTRIBUTE_{name}", 0)
            if self.attributes.get(number):  # the others are 0: features that are not emulated, or the default
                if number <= _SIZES or number == _MULTIPROCESSORS:
                    least = 1
                else:
                    least = min(self.attributes[number], 0)
                self.attributes[number] = _ranged(name, value, least, _MOST)
        for name, value in _facts(device["limits"]):
            number = cuda_h.enum("CUlimit")[f"CU_LIMIT_{name.upper()}"]
            if number in self.limits:
                limit = _ranged(name, value, 0)
                self.limits[number] = limit, max(limit, self.limits[number][1])
        if isinstance(device["priorities"], list):
            least, greatest = [_ranged("a priority", each, -_MOST, _MOST) for each in device["priorities"]]
            if not greatest <= 0 <= least:
                raise ValueError(
                    f"the priorities are {least} and {greatest}: the least is from 0 on, the greatest up to 0"
                )
            self.priorities = least, greatest
        answers = report["answers"]
        self.alignment = int(answers.get("alignment of an allocation", self.alignment))
        self.pitch = int(answers.get("pitch of a row of one byte", self.pitch))
        self.granularity = int(answers.get("granularity of virtual memory", self.granularity))
        for name in ("alignment", "pitch", "granularity"):
            size = getattr(self, name)
            if not 0 < size <= 1 << 40 or size & size - 1:
                raise ValueError(f"the {name} is {size}, not a power of two up to 2 ** 40")
        for question, code in answers.items():
            symbol, _, situation = question.partition(" ")
            if situation in _SITUATIONS:
                getattr(self, _SITUATIONS[situation])[symbol] = _ranged(question, code, 0, _MOST)
        codes = dict(_facts(report["codes"]))
        if codes:
            self.names = {int(code): name.encode() for code, (name, _) in codes.items()}
            self.texts = {int(code): text.encode() for code, (_, text) in codes.items()}


def _ranged(name: str, value: Any, least: int, most: int = (1 << 63) - 1) -> int:
    """Return a fact of a report, which must be a number from `least` to `most`."""
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}, not a number from {least} to {most}")
    return number


def _facts(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the items of a part of a report; none if `check` did not find them, but an error."""
    if "error" in found:
        return []
    return [*found.items()]
