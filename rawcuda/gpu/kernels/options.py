"""The options of a launch, by name: priority, programmatic dependent launch, memory synchronization domains and others.

What it is   `read_options` turns the options of Kernel.configure and Kernel.launch into the attributes of a launch.
What not     grid, block, shared memory, cooperation and clusters: kernels/configuration.py reads these alone.
How          A row of OPTIONS has the number of the attribute, the driver's version that brought it, the device
             attribute that tells whether the device has it, and the function that reads its value.
Source       CUDA Driver API, "Data types used by CUDA driver": CUlaunchAttributeID, CUlaunchAttributeValue
Read next    launch_attributes.py
"""

from __future__ import annotations

from struct import pack

from ...arguments import as_bool, as_enumerator, as_int
from ...errors import unsupported, worded
from ...hints import of
from ..core.context import check_version, require
from ..streams.settings import value_of_domain, value_of_domains, value_of_priority, value_of_window
from .configuration import LaunchAttributes, attributes_of, extents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable

    from ...ownership import Owned
    from ..core.context import OnDevice
    from .kernel import Kernel

    Extents = tuple[int, int, int]
    Reader = Callable[["Reading", str, object], bytes]

__all__ = ["ALIASES", "OPTIONS", "read_options"]


class Reading:
    """The options of one launch while they are read, with the objects that the driver will use."""

    __slots__ = ("kernel", "cluster", "preferred", "uses")

    def __init__(self, kernel: Kernel, cluster: tuple[int, int, int] | None) -> None:
        self.kernel, self.cluster = kernel, cluster
        self.preferred: tuple[int, int, int] | None = None
        self.uses: list[Owned] = []


def _flag(_: Reading, name: str, given: object) -> bytes:
    return pack("<i", as_bool(name, given))


def _one_of(*words: str) -> Reader:
    """Return a reader for the values of an enumeration, given by name or by number."""

    def read(_: Reading, name: str, given: object) -> bytes:
        return pack("<i", as_enumerator(name, given, words))

    return read


def _percent(_: Reading, name: str, given: object) -> bytes:
    number = as_int(name, given)
    if not 0 <= number <= 100:
        raise ValueError(f"{name}={worded(number)}: give a percentage of the shared memory and L1 cache, 0 to 100")
    return pack("<I", number)


def _preferred(reading: Reading, name: str, given: object) -> bytes:
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


def _event(reading: Reading, name: str, given: object) -> int:
    """Return the handle of an event that a launch may record, and keep the event."""
    from ..streams.stream import Event

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


def _completion_event(reading: Reading, name: str, given: object) -> bytes:
    return pack("<Qi", _event(reading, name, given), 0)


def _programmatic_event(reading: Reading, name: str, given: object) -> bytes:
    at_start = False
    if isinstance(given, (tuple, list)):
        if len(given) != 2 or not isinstance(given[1], (bool, int)) or given[1] not in (0, 1):
            raise TypeError(f"{name}={worded(given)}: give an Event, or (event, True) to trigger it at the start")
        given, at_start = given
    return pack("<Q2i", _event(reading, name, given), 0, at_start)


def _alike(reader: Callable[[OnDevice, str, object], bytes]) -> Reader:
    """Return a reader for a setting that streams have, too."""

    def read(reading: Reading, name: str, given: object) -> bytes:
        return reader(reading.kernel, name, given)

    return read


def _of_streams(_: Reading, name: str, given: object) -> bytes:
    raise ValueError(f"{name} is an attribute of streams, not of launches: set stream.attributes.{name}")


_CLUSTERS = "CLUSTER_LAUNCH"
# name: CUlaunchAttributeID, since, device attribute, reader. A value of None is left out, and so is False where the
# reader is _flag and the stream has no such attribute.
OPTIONS: dict[str, tuple[int, int, str, Reader]] = {
    "access_policy_window": (1, 11080, "MAX_ACCESS_POLICY_WINDOW_SIZE", _alike(value_of_window)),
    "synchronization_policy": (3, 11080, "", _of_streams),
    "cluster_scheduling_policy": (5, 11080, _CLUSTERS, _one_of("default", "spread", "load_balancing")),
    "programmatic_stream_serialization": (6, 11080, "", _flag),
    "programmatic_event": (7, 11080, "", _programmatic_event),
    "priority": (8, 11080, "STREAM_PRIORITIES_SUPPORTED", _alike(value_of_priority)),
    "mem_sync_domain_map": (9, 12000, "MEM_SYNC_DOMAIN_COUNT", _alike(value_of_domains)),
    "mem_sync_domain": (10, 12000, "MEM_SYNC_DOMAIN_COUNT", _alike(value_of_domain)),
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
    "shared_mem": "shared_bytes",
}
_PROGRAMMATIC = "programmatic_stream_serialization", "programmatic_event"  # of compute capability 9.0
_INHERITED = "nvlink_util_centric_scheduling"  # a stream may have it, so that False makes a difference
_DEFAULTS = {"cooperative": False, "cluster": None, "shared_bytes": 0}


def read_options(
    kernel: Kernel, cooperative: object, cluster: object, options: Mapping[str, object], shared_bytes: object
) -> tuple[LaunchAttributes | None, Any, bool]:
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
            hint = of("launch", name)
            if hint:
                raise TypeError(f"a launch has no option {name!r}: {hint}")
            from difflib import get_close_matches

            near = get_close_matches(name, ["grid", "block", "stream", *outer, *OPTIONS], 1)
            meant = f": did you mean {near[0]}?" if near else ""
            raise TypeError(
                f"a launch has no option {name!r}{meant}; besides grid, block and stream, it has {_listed()}; the "
                "arguments of the kernel are given by position"
            )
        if known in given or known in outer and outer[known] != _DEFAULTS[known]:
            raise TypeError(f"{name} and {known} are the same option: give one of them")
        is_plain = is_plain and type(value) in (bool, int, str) and known not in outer
        if known in outer:
            outer[known] = _DEFAULTS[known] if value is None else value
        elif value is not None and (value is not False or OPTIONS[known][3] is not _flag or known == _INHERITED):
            given[known] = value
    base = attributes_of(kernel, outer["cooperative"], outer["cluster"])
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
    made = LaunchAttributes(tuple(values), shown, base.cluster, reading.preferred, tuple(reading.uses))
    return made, outer["shared_bytes"], is_plain


def _listed() -> str:
    return ", ".join(["shared_bytes", "cooperative", "cluster", *OPTIONS])


def _check_support(kernel: Kernel, name: str, since: int, attribute: str) -> None:
    check_version(kernel, f"{name}: the launch attribute", since)
    if attribute:
        require(kernel, name, attribute)
    major = kernel.device.compute_capability[0]
    if name in _PROGRAMMATIC and major < 9:
        raise unsupported(
            f"{name}: device {kernel.device.ordinal} does not support it: it needs compute capability 9.0, and the "
            f"attribute COMPUTE_CAPABILITY_MAJOR is {major}",
            "cuLaunchKernelEx",
        )
