"""The settings that streams, launches and nodes of graphs have in common.

What it is   a reader for each setting, which checks the user's value and returns the C value.
What not     setting them: stream_attributes.py does this for streams, and gpu/kernels/options.py for launches and
             nodes.
How          `of` is the Kernel or the Stream that gets the setting. The device of a borrowed stream is not known, so
             the driver has to check the limits of the device.
Source       CUDA Driver API, "Data types used by CUDA driver": CUlaunchAttributeID, CUlaunchAttributeValue
Read next    stream_attributes.py
"""

from __future__ import annotations

from collections import namedtuple
from struct import pack

from ...arguments import as_enumerator, as_float, as_int
from ...errors import a_kind, worded
from ..core.context import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.context import OnDevice

__all__ = [
    "AccessPolicyWindow",
    "DOMAINS",
    "PROPERTIES",
    "value_of_domain",
    "value_of_domains",
    "value_of_priority",
    "value_of_window",
]

PROPERTIES = ("normal", "streaming", "persisting")  # CU_ACCESS_PROPERTY_...
DOMAINS = ("default", "remote")  # CU_LAUNCH_MEM_SYNC_DOMAIN_...
_WINDOW = "memory", "hit_ratio", "hit", "miss"
_LARGEST_WINDOW = "MAX_ACCESS_POLICY_WINDOW_SIZE"


class AccessPolicyWindow(namedtuple("AccessPolicyWindow", "address nbytes hit_ratio hit miss")):
    """A range of memory and how the L2 cache treats it: `hit` for a share hit_ratio of it, `miss` for the rest.

    shape   address, nbytes, hit_ratio, hit ("normal", "streaming" or "persisting"), miss ("normal" or "streaming")
    """

    __slots__ = ()


# -- the settings: each as a part of a CUlaunchAttributeValue


def value_of_priority(of: OnDevice, name: str, given: object) -> bytes:
    """Read a priority; a lower number is a higher priority.

    calls   cuCtxGetStreamPriorityRange
    raises  ValueError  the device does not have it
    """
    number = as_int(name, given)
    least, greatest = (2**31 - 1, -(2**31)) if of.device is None else of.device.stream_priorities
    if not greatest <= number <= least:
        where = "a driver" if of.device is None else f"device {of.device.ordinal}"
        raise ValueError(f"{name}={worded(number)}: {where} has the priorities {greatest} (the highest) to {least}")
    return pack("<i", number)


def value_of_domain(_: object, name: str, given: object) -> bytes:
    """Read a logical domain of memory synchronization."""
    return pack("<i", as_enumerator(name, given, DOMAINS))


def value_of_domains(of: OnDevice, name: str, given: object) -> bytes:
    """Read the numbers of the physical domains for the default and the remote domain."""
    if isinstance(given, dict):
        if set(given) != set(DOMAINS):
            raise ValueError(f"{name}={worded(given)}: give the two domains, {{'default': 0, 'remote': 1}}")
        given = given["default"], given["remote"]
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(f"{name}={worded(given)}: give the domain of 'default' and that of 'remote', such as (0, 1)")
    count = 256 if of.device is None else of.device.attribute("MEM_SYNC_DOMAIN_COUNT")
    default, remote = [as_int(name, number) for number in given]
    if not (0 <= default < count and 0 <= remote < count):
        where = "a device has at most" if of.device is None else f"device {of.device.ordinal} has"
        raise ValueError(
            f"{name}={worded(given)}: {where} the domains 0 .. {count - 1}: its attribute MEM_SYNC_DOMAIN_COUNT"
        )
    return pack("<2B", default, remote)


def value_of_window(of: OnDevice, name: str, given: object) -> bytes:
    """Read a window over memory for which the L2 cache has a policy.

    given   an AccessPolicyWindow; Memory or an array; or a dict with that as "memory", and hit_ratio, hit and miss
    """
    most = 2**64 - 1 if of.device is None else require(of, name, _LARGEST_WINDOW)
    if isinstance(given, AccessPolicyWindow):
        start, size = as_int(f"{name}: address", given.address), as_int(f"{name}: nbytes", given.nbytes)
        given = {"hit_ratio": given.hit_ratio, "hit": given.hit, "miss": given.miss}
    else:
        if not isinstance(given, dict):
            given = {"memory": given}
        unknown = [key for key in given if key not in _WINDOW]
        if unknown or "memory" not in given:
            raise TypeError(
                f"{name}: give memory, or {{'memory': ..., 'hit_ratio': 1.0, 'hit': 'persisting', 'miss': 'streaming'}}"
                + (f"; {worded(unknown[0])} is none of these" if unknown else "")
            )
        start, size = _span(name, given["memory"])
    if not 0 <= start < 1 << 64 or not 0 < size < 1 << 64:
        raise ValueError(f"{name}: address={worded(start)}, nbytes={worded(size)}: this is not a range of memory")
    if size > most:
        raise ValueError(
            f"{name}: {size} bytes: a window has at most {most} bytes on device {of.device.ordinal}: its attribute "
            f"{_LARGEST_WINDOW}"
        )
    ratio = given.get("hit_ratio", 1.0)
    share = as_float(f"{name}: hit_ratio", ratio)
    if not 0 <= share <= 1:
        raise ValueError(f"{name}: hit_ratio={worded(ratio)}: give a number from 0 to 1")
    hit = as_enumerator(f"{name}: hit", given.get("hit", "persisting"), PROPERTIES)
    miss = as_enumerator(f"{name}: miss", given.get("miss", "streaming"), PROPERTIES[:2])
    return pack("<QQfii", start, size, share, hit, miss)


def _span(name: str, given: Any) -> tuple[int, int]:
    """Return the address and the number of bytes of a Memory, or of an array without gaps that a device can access."""
    from ...arrays.strided import StridedView, view
    from ...protocols.description import Bytes

    if isinstance(given, Bytes):
        given = given.view()
    elif not isinstance(given, StridedView):
        try:
            given = view(given, stream=-1)
        except TypeError:
            raise TypeError(f"{name}: give memory or an array, not {a_kind(given)}") from None
    if not (given.is_c_contiguous or given.is_f_contiguous):
        raise ValueError(f"{name}: {given!r} is not contiguous: give an array without gaps")
    start, size = given.ptr, given.nbytes
    if not size:
        raise ValueError(f"{name}: {given!r} has no bytes: give an array with at least one element")
    if not given.is_device_accessible:
        raise ValueError(
            f"{name}: {given!r} is host memory, which the L2 cache does not keep: device.upload() copies it"
        )
    return start, size
