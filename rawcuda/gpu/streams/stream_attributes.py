"""The attributes of a stream, which apply to the kernels that are launched on it.

What it is   StreamAttributes, by which they are read and set: `stream.attributes.synchronization_policy = "spin"`.
What not     the attributes of one launch: see gpu/kernels/options.py.
Source       CUDA Driver API, cuStreamSetAttribute; cuda.h, union CUlaunchAttributeValue
Read next    stream.py
"""

from __future__ import annotations

import ctypes
from struct import pack

from ...arguments import as_choice
from ...errors import a_kind
from ...headers import cuda_h
from ..core.context import check_version
from ..core.stream_arguments import StreamHandle
from .settings import (
    DOMAINS,
    PROPERTIES,
    AccessPolicyWindow,
    value_of_domain,
    value_of_domains,
    value_of_priority,
    value_of_window,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ...gpu.streams.stream import Stream

__all__ = ["AccessPolicyWindow", "StreamAttributes"]

_WINDOW, _SYNCHRONIZATION, _PRIORITY, _DOMAIN_MAP, _DOMAIN = 1, 3, 8, 9, 10  # CU_LAUNCH_ATTRIBUTE_...
_POLICIES = ("auto", "spin", "yield", "blocking_sync")  # CU_SYNC_POLICY_..., from 1 on


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

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "the attributes of a stream belong to it, and cannot be copied or pickled: "
            "copy_from() sets those of another stream"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            known = ", ".join(_NAMES)
            raise AttributeError(f"a stream has no attribute {name!r}: there are {known}")
        object.__setattr__(self, name, value)

    def _get(self, number: int) -> Any:
        stream, value = self._stream, cuda_h.CUlaunchAttributeValue()
        queue = stream._argument or stream._prepare()
        stream._calls.cuStreamGetAttribute(queue, ctypes.c_uint(number), ctypes.byref(value))
        return value

    def _set(self, number: int, content: bytes) -> None:
        stream, value = self._stream, cuda_h.CUlaunchAttributeValue()
        ctypes.memmove(ctypes.byref(value), content, len(content))
        queue = stream._argument or stream._prepare()
        stream._calls.cuStreamSetAttribute(queue, ctypes.c_uint(number), ctypes.byref(value))

    def _check_domains(self) -> None:
        if self._stream._primary is not None:  # (it is None for a borrowed stream)
            check_version(self._stream, "a memory synchronization domain", 12000)

    @property
    def synchronization_policy(self) -> str:
        """Return how the CPU waits for the stream: "auto", "spin", "yield" or "blocking_sync"."""
        return _POLICIES[max(1, self._get(_SYNCHRONIZATION).syncPolicy) - 1]

    @synchronization_policy.setter
    def synchronization_policy(self, policy: str) -> None:
        number = _POLICIES.index(as_choice("synchronization_policy", policy, _POLICIES))
        self._set(_SYNCHRONIZATION, pack("<i", 1 + number))

    @property
    def mem_sync_domain(self) -> str:
        """Return the logical domain of memory synchronization of the kernels: "default" or "remote"."""
        return DOMAINS[self._get(_DOMAIN).memSyncDomain]

    @mem_sync_domain.setter
    def mem_sync_domain(self, domain: str) -> None:
        self._check_domains()
        self._set(_DOMAIN, value_of_domain(self._stream, "mem_sync_domain", domain))

    @property
    def mem_sync_domain_map(self) -> tuple[int, int]:
        """Return the numbers of the domains that "default" and "remote" stand for."""
        found = self._get(_DOMAIN_MAP).memSyncDomainMap
        return found.default_, found.remote

    @mem_sync_domain_map.setter
    def mem_sync_domain_map(self, numbers: tuple[int, int]) -> None:
        self._check_domains()
        self._set(_DOMAIN_MAP, value_of_domains(self._stream, "mem_sync_domain_map", numbers))

    @property
    def priority(self) -> int:
        """Return the priority of the kernels; a lower number is a higher priority."""
        found: int = self._get(_PRIORITY).priority
        return found

    @priority.setter
    def priority(self, priority: int) -> None:
        self._set(_PRIORITY, value_of_priority(self._stream, "priority", priority))

    @property
    def access_policy_window(self) -> AccessPolicyWindow | None:
        """Return the AccessPolicyWindow, or None; assign one, memory or an array, or None to remove it."""
        found = self._get(_WINDOW).accessPolicyWindow
        if not found.num_bytes:
            return None
        return AccessPolicyWindow(
            found.base_ptr or 0,
            found.num_bytes,
            found.hitRatio,
            PROPERTIES[found.hitProp],
            PROPERTIES[found.missProp],
        )

    @access_policy_window.setter
    def access_policy_window(self, window: object) -> None:
        is_none = window is None
        self._set(_WINDOW, b"" if is_none else value_of_window(self._stream, "access_policy_window", window))

    def set_access_policy_window(
        self, memory: object, *, hit_ratio: float = 1.0, hit: str = "persisting", miss: str = "streaming"
    ) -> None:
        """Let the L2 cache keep a part of an array's memory, from its first to its last byte.

        hit_ratio  the part of the accesses that are treated as `hit`
        raises     ValueError  an array with gaps or without elements, more bytes than the device allows
        """
        given = {"memory": memory, "hit_ratio": hit_ratio, "hit": hit, "miss": miss}
        self._set(_WINDOW, value_of_window(self._stream, "access_policy_window", given))

    def copy_from(self, other: Stream) -> None:
        """Set all attributes to those of another stream of the same context.

        calls   cuStreamCopyAttributes
        """
        stream = self._stream
        if not isinstance(other, StreamHandle):
            raise TypeError(f"attributes are copied from a Stream, not from {a_kind(other)}")
        target, source = stream._argument or stream._prepare(), other._argument or other._prepare()
        stream._calls.cuStreamCopyAttributes(target, source)

    def __repr__(self) -> str:
        return f"<attributes of {self._stream!r}>"


_NAMES = [name for name, value in vars(StreamAttributes).items() if isinstance(value, property)]
