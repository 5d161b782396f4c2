"""The attributes of a stream, which apply to the kernels that are launched on it.

What it is   StreamAttributes, by which they are read and set: `stream.attributes.synchronization_policy = "spin"`.
What not     the attributes of one launch: see gpu/launches/options.py.
Source       CUDA Driver API, cuStreamSetAttribute; cuda.h, union CUlaunchAttributeValue
Read next    stream.py
"""

from __future__ import annotations

import ctypes
from collections import namedtuple

from ... import names
from ...arrays.strided import StridedView, view
from ...errors import a_kind, worded
from ...headers import cuda_h

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..queue import StreamHandle

__all__ = ["AccessPolicyWindow", "StreamAttributes"]

_WINDOW, _SYNCHRONIZATION, _PRIORITY, _DOMAIN_MAP, _DOMAIN = 1, 3, 8, 9, 10  # CU_LAUNCH_ATTRIBUTE_...
_POLICIES = ("auto", "spin", "yield", "blocking_sync")  # CU_SYNC_POLICY_..., from 1 on
_PROPERTIES = ("normal", "streaming", "persisting")  # CU_ACCESS_PROPERTY_...
_DOMAINS = ("default", "remote")  # CU_LAUNCH_MEM_SYNC_DOMAIN_...


class AccessPolicyWindow(namedtuple("AccessPolicyWindow", "address nbytes hit_ratio hit miss")):
    """A range of memory and how the L2 cache treats it: `hit` for a share hit_ratio of it, `miss` for the rest.

    shape   address, nbytes, hit_ratio, hit ("normal", "streaming" or "persisting"), miss ("normal" or "streaming")
    """

    __slots__ = ()


class StreamAttributes:
    """The attributes of a stream; they are read from the driver, and can be set by assignment.

    synchronization_policy  how the CPU waits for the stream: "auto", "spin", "yield" or "blocking_sync"
    access_policy_window    None, or an AccessPolicyWindow; see set_access_policy_window()
    mem_sync_domain         "default" or "remote"; mem_sync_domain_map: the numbers of the domains for these two
    priority                a lower number is a higher priority
    calls   cuStreamGetAttribute, cuStreamSetAttribute
    """

    __slots__ = ("_stream",)

    if TYPE_CHECKING:
        _stream: StreamHandle

    def __init__(self, stream: StreamHandle) -> None:
        object.__setattr__(self, "_stream", stream)

    def __reduce_ex__(self, protocol: object) -> names.NoReturn:
        raise TypeError(
            "the attributes of a stream belong to it, and cannot be copied or pickled: "
            "copy_from() sets those of another stream"
        )

    def __setattr__(self, name: str, value: names.Any) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            known = ", ".join(_NAMES)
            raise AttributeError(f"a stream has no attribute {name!r}: there are {known}")
        object.__setattr__(self, name, value)

    def _get(self, number: int) -> Any:
        stream, value = self._stream, cuda_h.CUlaunchAttributeValue()
        queue = stream._argument or stream._prepare()
        stream._calls.cuStreamGetAttribute(queue, ctypes.c_uint(number), ctypes.byref(value))
        return value

    def _set(self, number: int, value: Any) -> None:
        stream = self._stream
        queue = stream._argument or stream._prepare()
        stream._calls.cuStreamSetAttribute(queue, ctypes.c_uint(number), ctypes.byref(value))

    @property
    def synchronization_policy(self) -> str:
        """Return how the CPU waits for the stream: "auto", "spin", "yield" or "blocking_sync"."""
        return _POLICIES[max(1, self._get(_SYNCHRONIZATION).syncPolicy) - 1]

    @synchronization_policy.setter
    def synchronization_policy(self, policy: str) -> None:
        chosen = cuda_h.CUlaunchAttributeValue()
        chosen.syncPolicy = 1 + _choice("synchronization_policy", policy, _POLICIES)
        self._set(_SYNCHRONIZATION, chosen)

    @property
    def mem_sync_domain(self) -> str:
        """Return the logical domain of memory synchronization of the kernels: "default" or "remote"."""
        return _DOMAINS[self._get(_DOMAIN).memSyncDomain]

    @mem_sync_domain.setter
    def mem_sync_domain(self, domain: str) -> None:
        chosen = cuda_h.CUlaunchAttributeValue()
        chosen.memSyncDomain = _choice("mem_sync_domain", domain, _DOMAINS)
        self._set(_DOMAIN, chosen)

    @property
    def mem_sync_domain_map(self) -> tuple[int, int]:
        """Return the numbers of the domains that "default" and "remote" stand for."""
        found = self._get(_DOMAIN_MAP).memSyncDomainMap
        return found.default_, found.remote

    @mem_sync_domain_map.setter
    def mem_sync_domain_map(self, numbers: tuple[int, int]) -> None:
        if not isinstance(numbers, tuple) or len(numbers) != 2:
            raise TypeError(f"mem_sync_domain_map: give two numbers, not {worded(numbers)}")
        chosen = cuda_h.CUlaunchAttributeValue()
        found = chosen.memSyncDomainMap
        found.default_, found.remote = (_number("mem_sync_domain_map", number, 0, 255) for number in numbers)
        self._set(_DOMAIN_MAP, chosen)

    @property
    def priority(self) -> int:
        """Return the priority of the kernels; a lower number is a higher priority."""
        found: int = self._get(_PRIORITY).priority
        return found

    @priority.setter
    def priority(self, priority: int) -> None:
        chosen = cuda_h.CUlaunchAttributeValue()
        chosen.priority = _number("priority", priority, -(2**31), 2**31 - 1)
        self._set(_PRIORITY, chosen)

    @property
    def access_policy_window(self) -> AccessPolicyWindow | None:
        """Return the AccessPolicyWindow, or None; assign None to remove it."""
        found = self._get(_WINDOW).accessPolicyWindow
        if not found.num_bytes:
            return None
        return AccessPolicyWindow(
            found.base_ptr or 0,
            found.num_bytes,
            found.hitRatio,
            _PROPERTIES[found.hitProp],
            _PROPERTIES[found.missProp],
        )

    @access_policy_window.setter
    def access_policy_window(self, window: AccessPolicyWindow | None) -> None:
        if window is None:
            self._set(_WINDOW, cuda_h.CUlaunchAttributeValue())
        elif isinstance(window, AccessPolicyWindow):
            self._set_window(*window)
        else:
            raise TypeError(
                f"access_policy_window: give None or an AccessPolicyWindow, not {a_kind(window)}; for an array, call "
                "set_access_policy_window(array)"
            )

    def set_access_policy_window(
        self, memory: names.Any, *, hit_ratio: float = 1.0, hit: str = "persisting", miss: str = "streaming"
    ) -> None:
        """Let the L2 cache keep a part of an array's memory, from its first to its last byte.

        hit_ratio  the part of the accesses that are treated as `hit`
        raises     ValueError  an array with gaps or without elements, more bytes than the device allows
        """
        seen = memory if isinstance(memory, StridedView) else view(memory, stream=-1)
        if not seen.is_c_contiguous and not seen.is_f_contiguous or not seen.nbytes:
            raise ValueError(
                "an access policy window needs an array without gaps and with at least one element: give another array"
            )
        if not seen.is_device_accessible:
            raise ValueError(
                "an access policy window needs memory that the device can access: device.upload() copies an array to it"
            )
        self._set_window(seen.ptr, seen.nbytes, hit_ratio, hit, miss)

    def _set_window(self, address: Any, nbytes: Any, hit_ratio: Any, hit: Any, miss: Any) -> None:
        if isinstance(hit_ratio, bool) or not isinstance(hit_ratio, (int, float)):
            raise TypeError(f"hit_ratio must be a float, not {a_kind(hit_ratio)}")
        if not 0 <= hit_ratio <= 1:
            raise ValueError(f"hit_ratio={worded(hit_ratio)}: give a number from 0 to 1")
        chosen = cuda_h.CUlaunchAttributeValue()
        window = chosen.accessPolicyWindow
        window.base_ptr = _number("address", address, 0, 2**64 - 1)
        window.num_bytes = _number("nbytes", nbytes, 0, 2**63)
        window.hitRatio = hit_ratio
        window.hitProp = _choice("hit", hit, _PROPERTIES)
        window.missProp = _choice("miss", miss, _PROPERTIES[:2])
        device = self._stream.device
        if device is not None:
            most = device.attribute("MAX_ACCESS_POLICY_WINDOW_SIZE")
            if nbytes > most:
                raise ValueError(
                    f"an access policy window of {nbytes} bytes: device {device.ordinal} allows {most} (its attribute "
                    "MAX_ACCESS_POLICY_WINDOW_SIZE)"
                )
        self._set(_WINDOW, chosen)

    def copy_from(self, other: names.Stream) -> None:
        """Set all attributes to those of another stream of the same context.

        calls   cuStreamCopyAttributes
        """
        stream = self._stream
        if not isinstance(other, type(stream)):
            raise TypeError(f"attributes are copied from a Stream, not from {a_kind(other)}")
        target, source = stream._argument or stream._prepare(), other._argument or other._prepare()
        stream._calls.cuStreamCopyAttributes(target, source)

    def __repr__(self) -> str:
        return f"<attributes of {self._stream!r}>"


_NAMES = [name for name, value in vars(StreamAttributes).items() if isinstance(value, property)]


def _choice(what: str, given: Any, choices: tuple[str, ...]) -> int:
    """Return the position of a name among the choices."""
    if not isinstance(given, str) or given not in choices:
        raise ValueError(f"{what}={worded(given)}: give one of {', '.join(map(repr, choices))}")
    return choices.index(given)


def _number(what: str, given: Any, least: int, most: int) -> int:
    if isinstance(given, bool) or not hasattr(type(given), "__index__"):
        raise TypeError(f"{what} must be an int, not {a_kind(given)}")
    number = int.__index__(given.__index__())
    if not least <= number <= most:
        raise ValueError(f"{what}={worded(number)}: give a number from {least} to {most}")
    return number
