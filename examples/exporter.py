"""An exporter of your own in 60 lines: an array that every DLPack consumer can use without a copy.

From the checkout:   PYTHONPATH=. python3 examples/exporter.py
"""

import atexit
import ctypes

from rawcuda.dlpack import DLManagedTensor, DLManagedTensorVersioned
from rawcuda.interpreter.callback import callback
from rawcuda.interpreter.cpython import address_of, bind, c_string, immortal

# The name for each ABI; the key tells whether it is the versioned one. A capsule stores only the address of its name,
# so these strings are never freed.
NAMES = {True: c_string(b"dltensor_versioned"), False: c_string(b"dltensor")}
POINTER = ctypes.c_void_p
new_capsule = bind("PyCapsule_New", ctypes.py_object, POINTER, POINTER, POINTER)
is_valid = bind("PyCapsule_IsValid", ctypes.c_int, POINTER, POINTER)
pointer_of = bind("PyCapsule_GetPointer", POINTER, POINTER, POINTER)

exported = {}  # the address of each exported struct: the objects that must stay alive for it


def delete(address):  # called when a consumer has finished
    exported.pop(address, None)


def destroy(capsule):  # called when a capsule is freed; if its name is unchanged, it was not consumed
    for name in NAMES.values():
        if is_valid(capsule, name):
            exported.pop(pointer_of(capsule, name), None)


@atexit.register
def at_exit():  # a consumer that finishes later calls a C function that does nothing
    for kept in exported.values():
        kept[0].deleter = address_of("Py_IsInitialized")
        immortal(kept)


deleter, destructor = callback(delete), callback(destroy)


class Grid:
    """A two-dimensional array of 32-bit floats that owns its memory."""

    def __init__(self, rows, columns):
        self.shape, self.memory = (rows, columns), (ctypes.c_float * (rows * columns))()

    def __dlpack_device__(self):
        return 1, 0  # kDLCPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream not in (None, -1) or dl_device not in (None, (1, 0)) or copy:
            raise BufferError("a Grid is in CPU memory, and it cannot be copied")
        rows, columns = self.shape
        numbers = (ctypes.c_int64 * 4)(rows, columns, columns, 1)  # the shape, then the strides in elements
        shape = ctypes.addressof(numbers)
        tensor = ctypes.addressof(self.memory), (1, 0), 2, (2, 32, 1), shape, shape + 16, 0
        versioned = max_version is not None and max_version[0] >= 1
        struct = (
            DLManagedTensorVersioned((1, 3), None, deleter, 0, tensor)
            if versioned
            else DLManagedTensor(tensor, None, deleter)
        )
        exported[ctypes.addressof(struct)] = struct, numbers, self.memory
        return new_capsule(ctypes.addressof(struct), NAMES[versioned], destructor)


if __name__ == "__main__":
    import rawcuda

    grid = Grid(2, 3)
    view = rawcuda.view(grid)
    view[1].fill(7)
    assert grid.memory[:] == [0, 0, 0, 7, 7, 7] and len(exported) == 1
    del view
    assert not exported
    print("A Grid and its view share one memory, and every exported struct was released.")
