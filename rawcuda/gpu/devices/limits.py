"""The limits of a device's context, and its preferences for caches.

What it is   Limits, which Device.limits returns: `device.limits.stack_size = 4096`, `dict(device.limits)`.
What not     the limits of a kernel (Kernel.attributes) and of a device (Device.attributes).
Source       CUDA Driver API, cuCtxSetLimit, cuCtxSetCacheConfig, cuCtxSetSharedMemConfig, cuCtxResetPersistingL2Cache
Read next    device_facts.py
"""

from __future__ import annotations

import ctypes

from ...arguments import as_int
from ...errors import CudaError, NotFound, Unsupported, worded
from ...headers.behaviour import answers
from ...headers.status import UNSUPPORTED_LIMIT
from ..core.calls import reworded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from ...gpu.devices.device_facts import Facts
    from ..core.calls import Calls
    from ..core.context import PrimaryContext

__all__ = ["Limits"]

_CACHE = ("none", "shared", "l1", "equal")  # CU_FUNC_CACHE_PREFER_...
_BANKS = ("default", "four_byte", "eight_byte")  # CU_SHARED_MEM_CONFIG_..._BANK_SIZE
_BITS = 8 * ctypes.sizeof(ctypes.c_size_t)


def _limit(number: int, text: str) -> Any:
    """Return a property for a limit; the first line of its documentation is `text`."""

    def get(self: Limits) -> int:
        value = ctypes.c_size_t()
        self._ask("cuCtxGetLimit", number, ctypes.byref(value), ctypes.c_uint(number))
        return value.value

    def put(self: Limits, value: int) -> None:
        name = _NUMBERS[number]
        size = as_int(name, value)
        if not 0 <= size < 2**_BITS:
            raise ValueError(f"{name}={worded(size)}: give a number from 0 to 2**{_BITS}-1")
        self._ask("cuCtxSetLimit", number, ctypes.c_uint(number), ctypes.c_size_t(size))

    return property(get, put, doc=text)


class Limits:
    """The limits of the device's primary context, which the whole process shares; they are read from the driver.

    The driver may round a value, and it may ignore the two limits of the L2 cache: read a limit to see its new value.
    Set the sizes of the heap and of the printf buffer before the first kernel that uses them.

    calls   cuCtxGetLimit, cuCtxSetLimit
    raises  Unsupported  the device does not have this limit
            InvalidUse   the driver refuses the value
    """

    __slots__ = ("_device", "_primary")

    stack_size = _limit(0, "The stack of each thread, in bytes.")
    printf_fifo_size = _limit(1, "The buffer of printf() in kernels, in bytes.")
    malloc_heap_size = _limit(2, "The heap of malloc() in kernels, in bytes.")
    dev_runtime_sync_depth = _limit(3, "The depth to which kernels may wait for kernels they launch; before sm_90.")
    dev_runtime_pending_launch_count = _limit(4, "The number of launches by kernels that may be pending.")
    max_l2_fetch_granularity = _limit(5, "The most bytes that the L2 cache fetches at once, 0 to 128: a hint.")
    persisting_l2_cache_size = _limit(6, "The part of the L2 cache for data that persists, in bytes: a hint.")
    shmem_size = _limit(7, "The most shared memory of a kernel while graphics and compute run together, in bytes.")
    cig_enabled = _limit(8, "Whether this context runs together with graphics.")
    cig_shmem_fallback_enabled = _limit(9, "Whether kernels that need more shared memory than shmem_size run anyway.")

    if TYPE_CHECKING:
        _device: Facts
        _primary: PrimaryContext

    def __init__(self, device: Facts) -> None:
        device.context
        object.__setattr__(self, "_device", device)
        object.__setattr__(self, "_primary", device._primary)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "the limits of a device belong to it, and cannot be copied or pickled: dict(device.limits) has their values"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            from difflib import get_close_matches

            near = get_close_matches(name, _SETTABLE, 3, 0.5)
            raise AttributeError(
                f"there is no limit {name!r}" + (f": did you mean {', '.join(near)}?" if near else "; see dir(limits)")
            )
        object.__setattr__(self, name, value)

    def _calls(self) -> Calls:
        self._device.context  # raises Closed
        return self._primary.calls

    def _ask(self, symbol: str, number: int, *arguments: object) -> None:
        try:
            getattr(self._calls(), symbol)(*arguments)
        except CudaError as error:
            if error.code != UNSUPPORTED_LIMIT:
                raise
            capability = ".".join(map(str, self._device.compute_capability))
            which = f"device {self._device.ordinal}, of compute capability {capability}"
            raise reworded(error, f"{which}, has no limit {_NUMBERS[number]}: {error}", Unsupported) from None

    @property
    def cache_config(self) -> str:
        """Return the preference for L1 cache or shared memory: "none", "shared", "l1" or "equal"; it can be set.

        calls   cuCtxGetCacheConfig, cuCtxSetCacheConfig
        """
        value = ctypes.c_uint()
        self._calls().cuCtxGetCacheConfig(ctypes.byref(value))
        return _CACHE[value.value]

    @cache_config.setter
    def cache_config(self, preferred: str) -> None:
        self._calls().cuCtxSetCacheConfig(ctypes.c_uint(_choice("cache_config", preferred, _CACHE)))

    @property
    def shared_memory_config(self) -> str:
        """Return the width of shared memory banks: "default", "four_byte" or "eight_byte"; fixed since Maxwell.

        calls   cuCtxGetSharedMemConfig, cuCtxSetSharedMemConfig
        """
        value = ctypes.c_uint()
        self._calls().cuCtxGetSharedMemConfig(ctypes.byref(value))
        return _BANKS[value.value]

    @shared_memory_config.setter
    def shared_memory_config(self, width: str) -> None:
        self._calls().cuCtxSetSharedMemConfig(ctypes.c_uint(_choice("shared_memory_config", width, _BANKS)))

    def reset_persisting_l2_cache(self) -> None:
        """Reset all persisting lines of the L2 cache to normal ones.

        calls   cuCtxResetPersistingL2Cache
        """
        self._calls().cuCtxResetPersistingL2Cache()

    def keys(self) -> list[str]:
        """List the limits that this device has."""
        return [name for name in _NUMBERS.values() if self._has(name)]

    def _has(self, name: str) -> bool:
        try:
            getattr(self, name)
        except CudaError as error:
            if error.code in answers("cuCtxGetLimit"):
                return False
            raise
        return True

    def __getitem__(self, name: str) -> int:
        if not isinstance(name, str) or name not in _NUMBERS.values():
            raise NotFound(f"a device has no limit {worded(name)}: it has {', '.join(_NUMBERS.values())}")
        value: int = getattr(self, name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"<limits of {self._device!r}>"


_NUMBERS = dict(
    enumerate(
        "stack_size printf_fifo_size malloc_heap_size dev_runtime_sync_depth dev_runtime_pending_launch_count "
        "max_l2_fetch_granularity persisting_l2_cache_size shmem_size cig_enabled cig_shmem_fallback_enabled".split()
    )
)
_SETTABLE = [*_NUMBERS.values(), "cache_config", "shared_memory_config"]


def _choice(what: str, given: object, choices: tuple[str, ...]) -> int:
    if not isinstance(given, str) or given not in choices:
        raise ValueError(f"{what}={worded(given)}: give one of {', '.join(map(repr, choices))}")
    return choices.index(given)
