"""The options of a launch, by name: priority, programmatic dependent launch, memory synchronization domains and others.

What it is   `read_options` turns the options of Kernel.configure and Kernel.launch into the attributes of a launch.
What not     grid, block, shared memory, cooperation and clusters: kernels/configuration.py reads these alone.
How          A row of OPTIONS has the number of the attribute, the driver's version that brought it, the device
             attribute that tells whether the device has it, and the function that reads its value.
Source       CUDA Driver API, "Data types used by CUDA driver": CUlaunchAttributeID, CUlaunchAttributeValue
Read next    attributes.py
"""

from __future__ import annotations

import ctypes
from struct import pack

from ...errors import a_kind, worded
from ..kernels.configuration import Asked, ask, check_version, chosen, extents, refused, require, truth, whole
from ..streams.attributes import AccessPolicyWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..kernels.kernel import Kernel

    Extents = tuple[int, int, int]
    Reader = Callable[["Reading", str, Any], bytes]

__all__ = ["ALIASES", "OPTIONS", "read_options"]


class Reading:
    """The options of one launch while they are read, with the objects that the driver will use."""

    __slots__ = ("kernel", "cluster", "preferred", "uses")

    def __init__(self, kernel: Kernel, cluster: tuple[int, int, int] | None) -> None:
        self.kernel, self.cluster = kernel, cluster
        self.preferred: tuple[int, int, int] | None = None
        self.uses: list[Any] = []


def _flag(_: Reading, name: str, given: Any) -> bytes:
    return pack("<i", truth(name, given))


def _one_of(*words: str) -> Reader:
    """Return a reader for the values of an enumeration, given by name or by number."""

    def read(_: Reading, name: str, given: Any) -> bytes:
        return pack("<i", chosen(name, given, words))

    return read


def _priority(reading: Reading, name: str, given: Any) -> bytes:
    number, (least, greatest) = whole(name, given), _priorities(reading.kernel)
    if not greatest <= number <= least:
        raise ValueError(
            f"priority={worded(number)}: device {reading.kernel.device.ordinal} has the priorities {greatest} "
            f"(the highest) to {least}"
        )
    return pack("<i", number)


def _priorities(kernel: Kernel) -> tuple[int, int]:
    """Return the lowest and the highest priority of the device, as numbers; the highest is the smallest number.

    calls   cuCtxGetStreamPriorityRange
    """
    known = kernel._primary.attributes.get(_PRIORITIES)
    if known is None:
        least, greatest = ctypes.c_int(), ctypes.c_int()
        with kernel.device.current():
            kernel._primary.driver.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest))
        known = kernel._primary.attributes[_PRIORITIES] = least.value, greatest.value
    return known


_PRIORITIES = ("priorities",)  # a key beside the device attributes


def _percent(_: Reading, name: str, given: Any) -> bytes:
    number = whole(name, given)
    if not 0 <= number <= 100:
        raise ValueError(f"{name}={worded(number)}: give a percentage of the shared memory and L1 cache, 0 to 100")
    return pack("<I", number)


def _domains(reading: Reading, name: str, given: Any) -> bytes:
    """Read the numbers of the physical domains for the default and the remote domain."""
    if isinstance(given, dict):
        if set(given) != {"default", "remote"}:
            raise ValueError(f"{name}={worded(given)}: give the two domains, {{'default': 0, 'remote': 1}}")
        given = given["default"], given["remote"]
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(f"{name}={worded(given)}: give the domain of 'default' and that of 'remote', such as (0, 1)")
    count = reading.kernel.device.attribute("MEM_SYNC_DOMAIN_COUNT")
    default, remote = [whole(name, number) for number in given]
    if not (0 <= default < count and 0 <= remote < count):
        raise ValueError(
            f"{name}={worded(given)}: device {reading.kernel.device.ordinal} has the domains 0 .. {count - 1}: its "
            "attribute MEM_SYNC_DOMAIN_COUNT"
        )
    return pack("<2B", default, remote)


def _preferred(reading: Reading, name: str, given: Any) -> bytes:
    blocks, cluster = extents(name, given), reading.cluster
    if cluster is None:
        raise ValueError(f"{name}={worded(given)}: it has an effect only together with cluster=: give a cluster, too")
    if any(large % small for large, small in zip(blocks, cluster)) or blocks[2] != cluster[2]:
        raise ValueError(
            f"{name}={worded(given)}: x and y must be multiples of those of cluster={cluster}, and z must be the same"
        )
    if max(blocks) >= 1 << 32:
        raise ValueError(f"{name}={worded(given)}: no device supports clusters of this size")
    reading.preferred = blocks
    return pack("<3I", *blocks)


def _event(reading: Reading, name: str, given: Any) -> int:
    """Return the handle of an event that a launch may record, and keep the event."""
    from ..stream import Event

    kernel = reading.kernel
    if not isinstance(given, Event):
        raise TypeError(f"{name}={worded(given)}: give an Event, device.event()")
    if given.timing:
        raise ValueError(f"{name}: an event with timing cannot be recorded by a launch: use device.event()")
    handle = given.handle
    if given._primary is not kernel._primary:
        raise ValueError(
            f"{name}: {given!r} is on device {given._primary.ordinal}, the kernel on device {kernel._primary.ordinal}"
        )
    reading.uses.append(given)
    return handle


def _completion_event(reading: Reading, name: str, given: Any) -> bytes:
    return pack("<Qi", _event(reading, name, given), 0)


def _programmatic_event(reading: Reading, name: str, given: Any) -> bytes:
    at_start: Any = False
    if isinstance(given, (tuple, list)):
        if len(given) != 2 or not isinstance(given[1], (bool, int)) or given[1] not in (0, 1):
            raise TypeError(f"{name}={worded(given)}: give an Event, or (event, True) to trigger it at the start")
        given, at_start = given
    return pack("<Q2i", _event(reading, name, given), 0, at_start)


_WINDOW = "memory", "hit_ratio", "hit", "miss"
_PROPERTIES = "normal", "streaming", "persisting"


def _window(reading: Reading, name: str, given: Any) -> bytes:
    """Read a window over memory for which the L2 cache has a policy."""
    kernel = reading.kernel
    most = require(kernel, name, "MAX_ACCESS_POLICY_WINDOW_SIZE")
    is_window = isinstance(given, AccessPolicyWindow)
    if is_window:  # as a stream's attributes have it
        given = given._asdict()
        given["memory"] = whole(f"{name}: address", given.pop("address")), whole(f"{name}: nbytes", given.pop("nbytes"))
    elif not isinstance(given, dict):
        given = {"memory": given}
    unknown = [key for key in given if key not in _WINDOW]
    if unknown or "memory" not in given:
        raise TypeError(
            f"{name}: give memory, or {{'memory': ..., 'hit_ratio': 1.0, 'hit': 'persisting', 'miss': 'streaming'}}"
            + (f"; {worded(unknown[0])} is none of these" if unknown else "")
        )
    memory = given["memory"]
    start, size = memory if is_window else _span(kernel, name, memory)
    if not 0 <= start < 1 << 64 or not 0 < size < 1 << 64:
        raise ValueError(f"{name}: address={worded(start)}, nbytes={worded(size)}: this is not a range of memory")
    if size > most:
        raise ValueError(
            f"{name}: {size} bytes: a window has at most {most} bytes on device {kernel.device.ordinal}: its "
            "attribute MAX_ACCESS_POLICY_WINDOW_SIZE"
        )
    ratio = given.get("hit_ratio", 1.0)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)):
        raise TypeError(f"{name}: hit_ratio must be a number from 0 to 1, not {a_kind(ratio)}")
    if not 0 <= ratio <= 1:
        raise ValueError(f"{name}: hit_ratio={worded(ratio)}: give a number from 0 to 1")
    hit = chosen(f"{name}: hit", given.get("hit", "persisting"), _PROPERTIES)
    miss = chosen(f"{name}: miss", given.get("miss", "streaming"), _PROPERTIES[:2])
    return pack("<QQfii", start, size, ratio, hit, miss)


def _span(kernel: Kernel, name: str, given: Any) -> tuple[int, int]:
    """Return the address and the number of bytes of a Memory or a contiguous view on the kernel's device."""
    from ...arrays.strided import StridedView
    from ..memory import Memory

    if not isinstance(given, (Memory, StridedView)):
        raise TypeError(f"{name}: give Memory or a view, not {a_kind(given)}: see view()")
    if isinstance(given, StridedView) and not (given.is_c_contiguous or given.is_f_contiguous):
        raise ValueError(f"{name}: {given!r} is not contiguous: give an array without gaps")
    device = given.device if isinstance(given, StridedView) else ("cuda", given.device.ordinal)
    start, size = given.ptr, given.nbytes
    if not size:
        raise ValueError(f"{name}: {given!r} has no bytes")
    if device[0] == "cpu":
        raise ValueError(
            f"{name}: {given!r} is host memory, which the L2 cache does not keep: device.upload() copies it"
        )
    return start, size


def _of_streams(_: Reading, name: str, given: Any) -> bytes:
    raise ValueError(f"{name} is an attribute of streams, not of launches: set stream.attributes.{name}")


_CLUSTERS = "CLUSTER_LAUNCH"
# name: CUlaunchAttributeID, since, device attribute, reader. A value of None is left out, and so is False where the
# reader is _flag and the stream has no such attribute.
OPTIONS: dict[str, tuple[int, int, str, Reader]] = {
    "access_policy_window": (1, 11080, "MAX_ACCESS_POLICY_WINDOW_SIZE", _window),
    "synchronization_policy": (3, 11080, "", _of_streams),
    "cluster_scheduling_policy": (5, 11080, _CLUSTERS, _one_of("default", "spread", "load_balancing")),
    "programmatic_stream_serialization": (6, 11080, "", _flag),
    "programmatic_event": (7, 11080, "", _programmatic_event),
    "priority": (8, 11080, "STREAM_PRIORITIES_SUPPORTED", _priority),
    "mem_sync_domain_map": (9, 12000, "MEM_SYNC_DOMAIN_COUNT", _domains),
    "mem_sync_domain": (10, 12000, "MEM_SYNC_DOMAIN_COUNT", _one_of("default", "remote")),
    "preferred_cluster": (11, 12080, _CLUSTERS, _preferred),
    "launch_completion_event": (12, 12030, "", _completion_event),
    "device_updatable": (13, 12040, "", _flag),
    "preferred_shared_carveout": (14, 12050, "", _percent),
    "nvlink_util_centric_scheduling": (16, 13000, "", _flag),
    "portable_cluster_size_mode": (
        17, 13020, _CLUSTERS, _one_of("default", "require_portable", "allow_non_portable"),
    ),
    "shared_memory_mode": (
        18,
        13020,
        "",
        _one_of("default", "require_portable", "allow_non_portable", "allow_oversized", "prefer_oversized"),
    ),
}  # fmt: skip
# Other names for options and arguments: those of cuda.h and of other packages, and full words.
ALIASES = {
    "cluster_scheduling_policy_preference": "cluster_scheduling_policy",
    "preferred_cluster_dimension": "preferred_cluster",
    "device_updatable_kernel_node": "device_updatable",
    "preferred_shared_memory_carveout": "preferred_shared_carveout",
    "memory_sync_domain": "mem_sync_domain",
    "memory_sync_domain_map": "mem_sync_domain_map",
    "programmatic_dependent_launch": "programmatic_stream_serialization",
    "cluster_dimension": "cluster",
    "is_cooperative": "cooperative",
    "shmem_size": "shared_bytes",
}
_PROGRAMMATIC = "programmatic_stream_serialization", "programmatic_event"  # of compute capability 9.0
_INHERITED = "nvlink_util_centric_scheduling"  # a stream may have it, so that False makes a difference
_DEFAULTS = {"cooperative": False, "cluster": None, "shared_bytes": 0}


def read_options(
    kernel: Kernel, cooperative: Any, cluster: Any, options: dict[str, Any], shared_bytes: Any
) -> tuple[Asked | None, Any, bool]:
    """Read the options of a launch.

    returns  its attributes; its shared memory; whether the result may be reused for the same values
    raises   TypeError    an unknown option, or a value of a wrong type
             ValueError   an impossible value
             Unsupported  the driver or the device does not have it
    """
    given, outer, is_plain = {}, {"cooperative": cooperative, "cluster": cluster, "shared_bytes": shared_bytes}, True
    for name, value in options.items():
        known = ALIASES.get(name, name)
        if known not in OPTIONS and known not in outer:
            raise TypeError(f"a launch has no option {name!r}; besides grid, block and stream, it has {_listed()}")
        if known in given or known in outer and outer[known] != _DEFAULTS[known]:
            raise TypeError(f"{name} and {known} are the same option: give one of them")
        is_plain = is_plain and type(value) in (bool, int, str) and known not in outer
        if known in outer:
            outer[known] = _DEFAULTS[known] if value is None else value
        elif value is not None and (value is not False or OPTIONS[known][3] is not _flag or known == _INHERITED):
            given[known] = value
    base = ask(kernel, outer["cooperative"], outer["cluster"])
    reading = Reading(kernel, base.cluster)
    values, shown = list(base.values), dict(base.given)
    for name in sorted(given, key=lambda name: OPTIONS[name][0]):
        number, since, attribute, reader = OPTIONS[name]
        _check_support(kernel, name, since, attribute)
        packed = reader(reading, name, given[name])
        values.append((number, packed.ljust(64, b"\0")))
        shown[name] = given[name]
    if not values:
        return None, outer["shared_bytes"], False
    values.sort()
    made = Asked(tuple(values), shown, base.cluster, reading.preferred, tuple(reading.uses))
    return made, outer["shared_bytes"], is_plain


def _listed() -> str:
    return ", ".join(["shared_bytes", "cooperative", "cluster", *OPTIONS])


def _check_support(kernel: Kernel, name: str, since: int, attribute: str) -> None:
    check_version(kernel, f"{name}: the launch attribute", since)
    if attribute:
        require(kernel, name, attribute)
    major = kernel.device.compute_capability[0]
    if name in _PROGRAMMATIC and major < 9:
        raise refused(
            f"{name}: device {kernel.device.ordinal} does not support it: it needs compute capability 9.0, and the "
            f"attribute COMPUTE_CAPABILITY_MAJOR is {major}"
        )
