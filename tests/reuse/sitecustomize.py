"""Real drivers give the handles and addresses of what was destroyed again, at once; the emulator never does.

With the option --reuse of the tests, this module is imported first, in the test's process and in those that it starts,
and lets the emulator do so, too: what still goes by an old handle or address then meets another object in silence. The
last handle of the same kind, and the last address where there is room, is given first.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MACHINE = "emulator.machine.machine"


class Handles(dict[int, Any]):
    """The objects by handle, and the handles that are free, by the kind of their objects."""

    def __init__(self, things: dict[int, Any]) -> None:
        super().__init__(things)
        self.free: dict[type, list[int]] = {}

    def __delitem__(self, handle: int) -> None:
        self.pop(handle)

    def pop(self, handle: int, *default: Any) -> Any:
        if handle in self:
            self.free.setdefault(type(self[handle]), []).append(handle)
        return super().pop(handle, *default)


def change(machine: Any, space: Any) -> None:
    """Change the classes Machine and Space of an emulator."""
    add, new_address, put_aside = machine.Machine.add, space.Space.new_address, space.Space._put_aside

    def add_again(self: Any, thing: Any) -> Any:
        if type(self.handles) is not Handles:
            self.handles = Handles(self.handles)
        free = self.handles.free.get(type(thing))
        if not free:
            return add(self, thing)
        thing.handle = free.pop()
        self.destroyed.discard(thing.handle)
        self.handles[thing.handle] = thing
        return thing

    def address_again(self: Any, size: int, alignment: int = 256) -> int:
        with self.lock:
            vacant, rooms = self.__dict__.setdefault("vacant", []), self.__dict__.setdefault("rooms", {})
            for base, room in reversed(vacant):
                if room >= size and base % max(alignment, 1) == 0 and self.overlapping(base, size) is None:
                    vacant.remove((base, room))
                    rooms[base] = room
                    return int(base)
        made: int = new_address(self, size, alignment)
        rooms[made] = size
        return made

    def freed(self: Any, gone: Any) -> None:
        room = self.__dict__.get("rooms", {}).pop(gone.base, None)
        mapped = any(first <= gone.base < first + size for first, (size, _) in self.reserved.items())
        if room is not None and gone.kind == "device" and not mapped:
            self.vacant.append((gone.base, room))
        put_aside(self, gone)

    machine.Machine.add, space.Space.new_address, space.Space._put_aside = add_again, address_again, freed


class Finder(MetaPathFinder):
    """Changes the emulator, under whatever name the package has, when its module of the machine is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.endswith("." + MACHINE):
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module, importlib.import_module(name.removesuffix("machine") + "space"))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())
