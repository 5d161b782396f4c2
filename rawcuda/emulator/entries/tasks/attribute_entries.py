"""The attributes of launches: their permitted values, and the meaning of those that have an effect.

What it is   `attributes_at` reads the list that cuLaunchKernelEx gets, and refuses what the driver refuses.
How          clusters, cooperation and events have an effect. An event of a launch is reached when the kernel has
             ended, which is the latest that the driver permits; a launch that may overlap the previous one begins after
             its end. The others are hints: their values are only checked.
Source       cuda.h: enum CUlaunchAttributeID, union CUlaunchAttributeValue
Read next    launch_entries.py
"""

from __future__ import annotations

import ctypes
import struct

from ...interface.thunks import LAUNCH_ATTRIBUTE, out
from ...machine.codes import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ...machine.machine import Machine
    from ...machine.queues import Event, Stream

    Size = tuple[int, int, int]

__all__ = ["attributes_at", "check_attributes", "check_number", "cluster_of", "events_of"]

_WINDOW, _CLUSTER, _EVENT, _PREFERRED, _COMPLETION, _UPDATABLE = 1, 4, 7, 11, 12, 13
_DOMAINS = 9
_NAMES = {
    0: "IGNORE", 1: "ACCESS_POLICY_WINDOW", 2: "COOPERATIVE", 3: "SYNCHRONIZATION_POLICY", 4: "CLUSTER_DIMENSION",
    5: "CLUSTER_SCHEDULING_POLICY_PREFERENCE", 6: "PROGRAMMATIC_STREAM_SERIALIZATION", 7: "PROGRAMMATIC_EVENT",
    8: "PRIORITY", 9: "MEM_SYNC_DOMAIN_MAP", 10: "MEM_SYNC_DOMAIN", 11: "PREFERRED_CLUSTER_DIMENSION",
    12: "LAUNCH_COMPLETION_EVENT", 13: "DEVICE_UPDATABLE_KERNEL_NODE", 14: "PREFERRED_SHARED_MEMORY_CARVEOUT",
    16: "NVLINK_UTIL_CENTRIC_SCHEDULING",
}  # fmt: skip
# attribute -> the smallest and the largest value of its int
_RANGES = {5: (0, 2), 10: (0, 1), 14: (0, 100), 16: (0, 1)}
_DISABLE_TIMING = 2


def attributes_at(address: int, count: int) -> dict[int, bytes]:
    """Read the attributes of a launch: number -> the 64 bytes of the value."""
    if count:
        out(address)
    found: dict[int, bytes] = {}
    for index in range(count):
        number, value = LAUNCH_ATTRIBUTE.unpack(
            ctypes.string_at(address + index * LAUNCH_ATTRIBUTE.size, LAUNCH_ATTRIBUTE.size)
        )
        check_number(number)
        if number:
            found[number] = value
    return found


def check_number(number: int) -> None:
    """Refuse the number of an attribute that does not exist."""
    if number not in _NAMES:
        raise Refused(1, f"launch attribute {number} does not exist in this version of the driver (CUDA 13.0)")


def check_attributes(machine: Machine, stream: Stream, attributes: dict[int, bytes]) -> None:
    """Refuse values that the driver refuses."""
    for number, value in attributes.items():
        (first,) = struct.unpack_from("<i", value)
        if number == 3:
            raise Refused(1, "CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY is an attribute of streams only")
        if number == 8:
            least, most = machine.answers.priorities[::-1]
        else:
            least, most = _RANGES.get(number, (first, first))
        if not least <= first <= most:
            raise Refused(1, f"CU_LAUNCH_ATTRIBUTE_{_NAMES[number]} is {first}: must be {least} to {most}")
        check = _CHECKS.get(number)
        if check is not None:
            check(machine, stream, attributes, value)


def _check_window(machine: Machine, stream: Stream, attributes: dict[int, bytes], value: bytes) -> None:
    _, size, ratio, hit, miss = struct.unpack_from("PNfii", value)
    most = machine.answers.attributes[109]
    if size > most or not 0 <= ratio <= 1 or not 0 <= hit <= 2 or not 0 <= miss <= 1:
        raise Refused(
            1,
            f"access policy window: {size} bytes (at most {most}), hit ratio {ratio} (0 to 1), hit property "
            f"{hit} (0 to 2), miss property {miss} (0 or 1)",
        )


def _check_event(machine: Machine, stream: Stream, attributes: dict[int, bytes], value: bytes) -> None:
    handle, flags = struct.unpack_from("Pi", value)
    event = machine.event(handle)
    if not event.flags & _DISABLE_TIMING:
        raise Refused(1, "an event that a launch records must have been created with CU_EVENT_DISABLE_TIMING")
    if flags:
        raise Refused(1, f"flags {flags:#x} of an event that a launch records: must be 0")
    if event.context is not stream.context:
        raise Refused(400, "an event can be recorded only in a stream of its own context")


def _check_domains(machine: Machine, stream: Stream, attributes: dict[int, bytes], value: bytes) -> None:
    domains = machine.answers.attributes[126]
    if max(value[0], value[1]) >= domains:
        raise Refused(1, f"memory synchronization domains {value[0]} and {value[1]}: must be below {domains}")


def _check_preferred(machine: Machine, stream: Stream, attributes: dict[int, bytes], value: bytes) -> None:
    wanted, regular = struct.unpack_from("<3I", value), cluster_of(attributes)
    if _CLUSTER not in attributes:
        return
    sizes = *wanted, *regular
    if 0 in sizes or any(large % small for large, small in zip(wanted, regular)) or wanted[2] != regular[2]:
        raise Refused(
            1,
            f"a preferred cluster of {wanted} must be a multiple of {regular} in x and y, and equal in z; every size "
            "must be at least 1",
        )


def _check_updatable(machine: Machine, stream: Stream, attributes: dict[int, bytes], value: bytes) -> None:
    (wanted,) = struct.unpack_from("<i", value)
    if wanted not in (0, 1):
        raise Refused(1)
    if stream.capture is None:
        raise Refused(1, "a kernel node can be updatable by the device only in a graph: this stream is not capturing")
    if wanted:
        raise Refused(801, "nodes of graphs that the device can update are not emulated")


_CHECKS: dict[int, Callable[[Machine, Stream, dict[int, bytes], bytes], None]] = {
    _WINDOW: _check_window,
    _EVENT: _check_event,
    _COMPLETION: _check_event,
    _DOMAINS: _check_domains,
    _PREFERRED: _check_preferred,
    _UPDATABLE: _check_updatable,
}


def cluster_of(attributes: dict[int, bytes]) -> Size:
    """Return the cluster size in the attributes of a launch; (1, 1, 1) if there is none."""
    value = attributes.get(_CLUSTER)
    if value is None:
        return 1, 1, 1
    x, y, z = struct.unpack_from("<3I", value)
    return x, y, z


def events_of(machine: Machine, attributes: dict[int, bytes]) -> list[Event]:
    """Return the events that a launch records."""
    handles = [
        struct.unpack_from("P", attributes[number])[0] for number in (_EVENT, _COMPLETION) if number in attributes
    ]
    return [machine.event(handle) for handle in handles]
