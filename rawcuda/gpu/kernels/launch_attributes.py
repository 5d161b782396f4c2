"""The attributes of a kernel: facts about the compiled code, and settings.

What it is   `KernelAttributes`, which is Kernel.attributes.
Source       CUDA Driver API, "Execution Control": cuFuncGetAttribute, cuFuncSetAttribute; CUfunction_attribute
Read next    occupancy.py
"""

from __future__ import annotations

from ...arguments import as_bool, as_enumerator, as_int
from ...errors import Closed, CudaError, InvalidUse, NotFound, worded
from ...headers.status import NOT_PERMITTED
from ...ownership import invalidate
from ..core.calls import reworded
from ..core.context import check_version, driver_version, require
from .configuration import extents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

    from .kernel import Kernel

__all__ = ["KernelAttributes"]


# -- the attributes of a kernel

# name: CUfunction_attribute, since, how it is set ("" if it is a fact), why it cannot be set
_COMPILED = "it is a fact about the compiled code"
_NAMES: dict[str, tuple[int, int, str]] = {
    "max_threads_per_block": (0, 0, "__launch_bounds__, or .maxntid in PTX, decides it"),
    "shared_bytes": (1, 0, "it is what the code declares; launches have shared_bytes="),
    "constant_bytes": (2, 0, "it is what the code declares"),
    "local_bytes": (3, 0, f"{_COMPILED}: arrays and spilled registers of a thread"),
    "registers": (4, 0, f"{_COMPILED}: the compiler's option --maxrregcount limits it"),
    "ptx_version": (5, 0, _COMPILED),
    "binary_version": (6, 0, _COMPILED),
    "cache_mode_ca": (7, 0, "it is the compiler's option -Xptxas --dlcm=ca"),
    "max_dynamic_shared_bytes": (8, 0, ""),
    "preferred_shared_carveout": (9, 0, ""),
    "cluster_size_must_be_set": (10, 11080, "the code decides it"),
    "required_cluster_width": (11, 11080, ""),
    "required_cluster_height": (12, 11080, ""),
    "required_cluster_depth": (13, 11080, ""),
    "non_portable_cluster_size_allowed": (14, 11080, ""),
    "cluster_scheduling_policy": (15, 11080, ""),
    "device_node_update_supported": (16, 13030, "it is a fact about the kernel and the device"),
    "shared_memory_mode": (17, 13040, ""),
}
_OTHER_NAMES = {  # the header's names, which cuda.core and CuPy have
    "shared_size_bytes": "shared_bytes",
    "const_size_bytes": "constant_bytes",
    "local_size_bytes": "local_bytes",
    "num_regs": "registers",
    "max_dynamic_shared_size_bytes": "max_dynamic_shared_bytes",
    "preferred_shared_memory_carveout": "preferred_shared_carveout",
    "cluster_scheduling_policy_preference": "cluster_scheduling_policy",
}
_TRUTHS = frozenset((7, 10, 14, 16))
_CARVEOUTS = {"default": -1, "max_l1": 0, "max_shared": 100}


class KernelAttributes:
    """The attributes of a kernel by name: `attributes.registers`, or `attributes["registers"]`.

    Sizes are in bytes; a version is a number such as 75. These attributes can be set, for all later launches:
    max_dynamic_shared_bytes, preferred_shared_carveout (a percentage, or "default", "max_l1", "max_shared"),
    required_cluster_width, _height and _depth, or all three as required_cluster, non_portable_cluster_size_allowed,
    cluster_scheduling_policy and shared_memory_mode. The header's names, such as num_regs, are the same attributes.

    calls   cuFuncGetAttribute, cuFuncSetAttribute
    raises  AttributeError  an unknown name, or an attribute that cannot be set; the message says what determines it
            ValueError, TypeError  an impossible value
            Unsupported     the driver or the device does not have it
    """

    __slots__ = ("_kernel",)

    _kernel: Kernel

    def __init__(self, kernel: Kernel) -> None:
        object.__setattr__(self, "_kernel", kernel)

    def __getattr__(self, name: str) -> Any:
        if name == "required_cluster":
            x, y, z = [self._read(f"required_cluster_{side}", number) for side, number in zip(_SIDES, _REQUIRED)]
            if x:
                return (x, y, z)
            return None
        number, since, _ = _row(name)
        check_version(self._kernel, f"{name}: the attribute of kernels", since)
        return self._read(name, number)

    def _read(self, name: str, number: int) -> int:
        value = self._kernel._fact(number)
        if number in _TRUTHS:
            return bool(value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        kernel = self._kernel
        if name == "required_cluster":
            self._set_cluster(value)
            return
        number, since, reason = _row(name)
        if reason:
            raise AttributeError(f"the attribute {name} of kernel {kernel.name} cannot be set: {reason}")
        check_version(kernel, f"{name}: the attribute of kernels", since)
        if 11 <= number <= 15:
            require(kernel, name, "CLUSTER_LAUNCH")
        setting = _settable(kernel, name, number, value)
        if number == 8:
            self._forget_granted()  # an interrupt may come after the call
        self._set(name, number, setting)
        if number == 8:
            self._forget_granted()  # another thread may have launched before the call

    def _forget_granted(self) -> None:
        """Let the next launches ask how much dynamic shared memory they may use, and request what they need."""
        self._kernel._limits().granted = 0
        invalidate()

    def _set(self, name: str, number: int, value: int) -> None:
        try:
            self._kernel._set_fact(number, value)
        except CudaError as error:
            if error.code != NOT_PERMITTED:
                raise
            why = f"{name} of kernel {self._kernel.name} cannot be set: the kernel was compiled with a cluster size"
            raise reworded(error, why, InvalidUse) from None

    def _set_cluster(self, given: object) -> None:
        """Set the three dimensions of the required cluster; after an error, all have their old values."""
        kernel = self._kernel
        if given is None:
            sides = (0, 0, 0)
        else:
            sides = extents("required_cluster", given)
        check_version(kernel, "required_cluster: the attribute of kernels", 11080)
        require(kernel, "required_cluster", "CLUSTER_LAUNCH")
        if max(sides) >= 1 << 31:
            raise ValueError(f"required_cluster={worded(given)}: no device supports clusters of this size")
        old = [kernel._fact(number) for number in _REQUIRED]
        try:
            self._set_sides(sides)
        except BaseException:
            self._set_sides(old)
            raise

    def _set_sides(self, sides: Iterable[int]) -> None:
        for side, number, value in zip(_SIDES, _REQUIRED, sides):
            self._set(f"required_cluster_{side}", number, value)

    def __delattr__(self, name: str) -> None:
        _row(name)
        raise AttributeError(f"the attribute {name} of a kernel cannot be deleted")

    # -- the same as a mapping

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or name not in _NAMES and name not in _OTHER_NAMES:
            raise NotFound(f"a kernel has no attribute {worded(name)}: it has {', '.join(self.keys())}")
        return getattr(self, name)

    def __setitem__(self, name: str, value: object) -> None:
        if not isinstance(name, str) or name not in _NAMES and name not in _OTHER_NAMES:
            raise NotFound(f"a kernel has no attribute {worded(name)}: it has {', '.join(self.keys())}")
        setattr(self, name, value)

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names that this driver knows."""
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names that this driver knows."""
        version = driver_version(self._kernel)
        return [name for name, (_, since, _) in _NAMES.items() if since <= version]

    def values(self) -> list[Any]:
        """Return the values, in the order of the names."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Return (name, value) for each attribute."""
        return [(name, self[name]) for name in self.keys()]

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in _OTHER_NAMES

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.keys(), "required_cluster"]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "the attributes of a kernel belong to a driver's handle of this process, and cannot be copied or pickled"
        )

    def __repr__(self) -> str:
        try:
            known = str(dict(self.items()))
        except (Closed, CudaError) as error:
            known = str(error)
        return f"<attributes of kernel {self._kernel.name}: {known}>"


_SIDES, _REQUIRED = ("width", "height", "depth"), (11, 12, 13)  # CUfunction_attribute


def _row(name: str) -> tuple[int, int, str]:
    row = _NAMES.get(_OTHER_NAMES.get(name, name))
    if row is None:
        raise AttributeError(f"a kernel has no attribute {name!r} in the driver; it has {', '.join(_NAMES)}")
    return row


def _settable(kernel: Kernel, name: str, number: int, given: object) -> int:
    """Return the number for a new value of an attribute."""
    if number == 14:
        return int(as_bool(name, given))
    if number == 15:
        return int(as_enumerator(name, given, ("default", "spread", "load_balancing")))
    if number == 17:
        words = "default", "require_portable", "allow_non_portable", "allow_oversized", "prefer_oversized"
        return int(as_enumerator(name, given, words))
    if number == 9 and isinstance(given, str):
        if given not in _CARVEOUTS:
            raise ValueError(f"{name}={worded(given)}: give a percentage, or one of {', '.join(_CARVEOUTS)}")
        return _CARVEOUTS[given]
    value, least, most = as_int(name, given), 0, (1 << 31) - 1
    if number == 9:
        least, most = -1, 100
    elif number == 8:
        most = kernel.device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - kernel._fact(1)
    if not least <= value <= most:
        raise ValueError(f"{name}={worded(value)}: kernel {kernel.name} can have {least} to {most}")
    return value
