"""The reset of a device: its context is destroyed and created again, for instance after an error in a kernel.

What it is   `reset`, the function behind Device.reset().
How          The driver destroys everything in the primary context, also the objects of other software. Before that, our
             own objects in the context are closed without releasing their handles, which become invalid. Objects that
             do not belong to the context (pools, graphs, green contexts, virtual memory) are released. Then the context
             is retained again, so that a Device works as before. Graphs of other devices that use memory of this one,
             or work on it, are not closed, but their launches are refused: see Life.
What not     pinned and managed memory that arrays use: nothing keeps its bytes after the reset, so reset() refuses.
             Registered memory belongs to its exporter, which its leases keep. reset() does not free what another
             process has open, either: it ends the sharing first, and waits for the others.
Source       CUDA Driver API, cuDevicePrimaryCtxReset
Read next    gpu/devices/device.py
"""

from __future__ import annotations

import gc

from ...errors import InvalidUse
from ...ownership import Owned, drain, dropped, forked, invalidate, is_serving
from ..core.context import Life, attempt, forget_peers, held_contexts
from ..core.handles import GREEN, GREEN_STREAM, MANAGED, MODULE, PINNED, POOLED, Lifetime
from ..core.host_functions import calls_of, forget_calls
from ..core.leases import Lender
from ..core.points import Point, capturing, forget, sweep
from ..core.stream_arguments import failed
from ..kernels.module import Module
from ..memory.memory import Memory
from .peers import forget_links

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...gpu.devices.device import Device
    from ..core.context import PrimaryContext

__all__ = ["reset"]

# The releases of objects that a context owns and destroys; all others are released before the context ends.
_OWNED_BY_CONTEXT = frozenset(
    "cuStreamDestroy_v2 cuEventDestroy_v2 cuMemFree_v2 cuMemFreeHost cuMemHostUnregister cuArrayDestroy "
    "cuMipmappedArrayDestroy cuTexObjectDestroy cuSurfObjectDestroy cuModuleUnload".split()
)


class _Ended:
    """The release of an object whose context was reset: nothing is left to release."""

    __slots__ = ("why",)

    def __init__(self, ordinal: int) -> None:
        self.why = f"it belonged to the context of device {ordinal} that reset() ended: make a new one"

    def release(self, late: bool) -> None:
        """Do nothing."""

    def give_away(self) -> bool:
        """Do nothing; return that there is no handle to give away."""
        return False


def reset(device: Device, force: bool) -> None:
    """Destroy the context of a device with everything in it, and create a new one; see Device.reset().

    calls   cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain
    """
    device.context
    primary: PrimaryContext = device._primary
    if forked:
        primary.driver.refuse_forked("cuDevicePrimaryCtxReset_v2")
    if not force and not hasattr(primary.driver.libcuda, "live_handles"):  # only the emulator has this attribute
        raise InvalidUse(
            f"Device.reset() ends the context of device {device.ordinal} for the whole process: the memory, streams "
            "and kernels of PyTorch, CuPy and every other library there become invalid, and using them may crash the "
            "process. If you accept that, call device.reset(force=True)"
        )
    if capturing:
        raise InvalidUse("a stream is being captured: end the capture before you call reset()")
    if is_serving():
        raise InvalidUse(
            "a host function must not call Device.reset(), which the driver would refuse: call it afterwards"
        )
    if dropped:
        drain()
    if primary.shared:
        with primary._lock:
            _refuse_used(primary)  # before anything is ended
        _end_sharing(primary)
    # What the pending work uses is kept until it ends. A host function, or a thread for which one waits, may need the
    # lock, to use a Device for the first time.
    attempt(primary.calls.cuCtxSynchronize)
    _finish_elsewhere(primary)
    sweep(now=True)
    with primary._lock:
        owned = _refuse_used(primary)
        _end_objects(primary, owned)
        _forget_failures(primary.ordinal)
        unmade = calls_of(primary.ordinal)
        attempt(primary.driver.cuDevicePrimaryCtxReset_v2, primary.ordinal)
        primary._handle, primary.closing = None, True
        try:
            attempt(primary.driver.cuDevicePrimaryCtxRelease_v2, primary.ordinal)
        finally:
            primary._open()
    invalidate()
    forget_calls(unmade)  # (without the lock: this may run finalizers of the user)


def _refuse_used(primary: PrimaryContext) -> list[Owned]:
    """Refuse the reset if the host may still use pinned or managed memory through an array; return all owned objects.

    raises  InvalidUse
    """
    owned = _all_owned()
    found = _used(primary, owned)
    if found:  # perhaps only by garbage
        owned.clear()
        gc.collect()
        owned = _all_owned()
        found = _used(primary, owned)
    if found:
        raise InvalidUse(
            f"Device.reset() frees {found[0]}{f' (and {len(found) - 1} more)' if found[1:] else ''}, which arrays "
            "still use: drop them, or copy them first, also after an error of a kernel. A Memory or a view whose array "
            "interface was read counts as such an array, so drop it, too"
        )
    return owned


def _used(primary: PrimaryContext, owned: list[Owned]) -> list[str]:
    """Describe the pinned and managed memory that was exported, if the export may still be used."""
    kinds = PINNED, MANAGED, POOLED, MODULE
    users: list[object] = [each for each in tuple(primary.users) if type(each) is Lifetime and each.kind in kinds]
    owners = _owners_of(users, primary, owned)
    lent = [memory for owner in owners if isinstance(owner, Lender) for memory in owner._borrowed()]
    return [
        f"the {each.kind} memory of {each.nbytes} bytes{_where(each)}"
        for each in (*owners, *lent)
        if isinstance(each, Memory)
        and each.kind != "device"
        and (each._shown or any([lease() for lease in each._leases]))
    ]


def _end_sharing(primary: PrimaryContext) -> None:
    """Offer memory and events to no other process any more, and wait until none has them open.

    raises  InvalidUse  one still has them open: the driver must not free them before that
    """
    for offer, seconds in tuple(primary.shared.items()):
        try:
            offer.end(seconds)
        except TimeoutError as error:
            raise InvalidUse(f"Device.reset() frees what this process shares: {error}") from None
        primary.shared.pop(offer, None)


def _finish_elsewhere(primary: PrimaryContext) -> None:
    """Wait for the other devices if work uses memory of this one; graphs hold such leases, too."""
    others = [other for other in held_contexts() if other is not primary]
    owned = _all_owned() if others else []
    here = [each for each in owned if isinstance(each, Memory) and getattr(each, "_primary", None) is primary]
    if any([lease() for each in here for lease in each._uses]):
        for other in others:
            attempt(other.calls.cuCtxSynchronize)


def _where(memory: Memory) -> str:
    """Return the address of memory as text, also after its close()."""
    address = memory._handle or getattr(memory._release, "value", None)
    if address:
        return f" at {address:#x}"
    return ""


def _forget_failures(ordinal: int) -> None:
    """Forget what host functions of a device raised."""
    if failed:
        failed[:] = [entry for entry in failed if entry[0].ordinal != ordinal]


def _end_objects(primary: PrimaryContext, owned: list[Owned]) -> None:
    """Close every object of a context; do not release the handles that the context destroys."""
    invalidate()
    primary.kept.clear()
    forget(primary)
    primary.pool = []
    for event in primary.events:
        event.argument = None  # it ends with the context
    primary.events.clear()
    forget_links(primary.ordinal)
    forget_peers(primary.ordinal)
    users: list[Any] = [user for user in tuple(primary.users) if not getattr(user, "survives", False)]
    users.sort(key=lambda user: getattr(user, "kind", None) is GREEN)  # after their streams
    owners = _owners_of(users, primary, owned)
    owners.sort(key=lambda owner: getattr(owner._release, "kind", None) is GREEN)
    for owner in owners:  # before their releases: after an interrupt, the next reset() finds the releases, not these
        ended: Any = owner._release
        if hasattr(ended, "parts"):  # opened by a handle of another process, which is told now
            ended.release(late=True)
        owner._handle, owner._release = None, _Ended(primary.ordinal)
        if not owner._closing():  # otherwise its finalizer, which releases nothing any more, keeps what was registered
            owner._cancel()
    primary.life = Life(primary)  # of all graphs that have noted the old one, none is launched any more
    for user in users:
        if type(user) in (object, Point):  # a call in another thread that waits for the context
            continue
        is_lost = isinstance(user, Lifetime) and user.kind.release in _OWNED_BY_CONTEXT
        if is_lost and user.kind is not GREEN_STREAM:  # (a green context must not end before its streams)
            user.give_away()
        else:
            user.release(late=True)


def _all_owned() -> list[Owned]:
    """Find all objects that own handles.

    It searches all objects of the interpreter for references to these classes, which their instances have. A reference
    from each release to its owner would make the creation of every object slower, for a call that few programs make.
    (gc.get_objects() would refer to the tuples that other threads make now, which then raise SystemError.)
    """
    classes: list[type] = [Owned]
    for each in classes:
        classes += each.__subclasses__()
    gc.unfreeze()  # objects that gc.freeze() has set aside would not be found
    return [each for each in gc.get_referrers(*classes) if issubclass(type(each), Owned)]


def _owners_of(users: list[Any], primary: PrimaryContext, owned: list[Owned]) -> list[Owned]:
    """Return the objects whose release is one of these, and the modules in a context that libraries release."""
    wanted = {id(user) for user in users}
    return [
        each
        for each in owned
        if not wanted.isdisjoint(map(id, _released_by(getattr(each, "_release", None))))
        or isinstance(each, Module)
        and each.borrowed
        and each._device._primary is primary
    ]


def _released_by(release: Any) -> list[object]:
    """Return a release, and the releases that it consists of if the object was opened by a handle."""
    return [release, *getattr(release, "parts", ())]
