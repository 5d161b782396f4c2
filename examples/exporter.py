"""An exporter of your own, in 60 lines: an array that every consumer of DLPack can use without a copy.

From the checkout:   PYTHONPATH=. python3 examples/exporter.py
"""

import atexit
import ctypes

from rawcuda.dlpack import DLManagedTensor, DLManagedTensorVersioned
from rawcuda.interpreter.callback import callback
from rawcuda.interpreter.cpython import address_of, bind, c_string, immortal

# by whether it is the versioned struct; a capsule keeps the address of its name, so these are never freed
NAMES = {True: c_string(b"dltensor_versioned"), False: c_string(b"dltensor")}
POINTER = ctypes.c_void_p
new_capsule = bind("PyCapsule_New", ctypes.py_object, POINTER, POINTER, POINTER)
is_valid = bind("PyCapsule_IsValid", ctypes.c_int, POINTER, POINTER)
pointer_of = bind("PyCapsule_GetPointer", POINTER, POINTER, POINTER)

out = {}  # the address of each struct that is out: what has to stay alive for it


def deleted(address):  # a consumer is done
    out.pop(address, None)


def dropped(capsule):  # a capsule is garbage: nobody has taken the tensor if its name is the old one
    for name in NAMES.values():
        if is_valid(capsule, name):
            out.pop(pointer_of(capsule, name), None)


@atexit.register
def end():  # Python goes: whoever is done later calls a C function that does nothing
    for kept in out.values():
        kept[0].deleter = address_of("Py_IsInitialized")
        immortal(kept)


deleter, destructor = callback(deleted), callback(dropped)


class Grid:
    """Rows and columns of floats, in memory of our own."""

    def __init__(self, rows, columns):
        self.shape, self.memory = (rows, columns), (ctypes.c_float * (rows * columns))()

    def __dlpack_device__(self):
        return 1, 0  # kDLCPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream not in (None, -1) or dl_device not in (None, (1, 0)) or copy:
            raise BufferError("this is memory of the CPU, and it is not copied")
        rows, columns = self.shape
        numbers = (ctypes.c_int64 * 4)(rows, columns, columns, 1)  # the shape, and the strides, in elements
        shape = ctypes.addressof(numbers)
        tensor = ctypes.addressof(self.memory), (1, 0), 2, (2, 32, 1), shape, shape + 16, 0
        versioned = max_version is not None and max_version[0] >= 1
        struct = (
            DLManagedTensorVersioned((1, 3), None, deleter, 0, tensor)
            if versioned
            else DLManagedTensor(tensor, None, deleter)
        )
        out[ctypes.addressof(struct)] = struct, numbers, self.memory
        return new_capsule(ctypes.addressof(struct), NAMES[versioned], destructor)


if __name__ == "__main__":
    import rawcuda

    grid = Grid(2, 3)
    view = rawcuda.view(grid)
    view[1].fill(7)
    assert grid.memory[:] == [0, 0, 0, 7, 7, 7] and len(out) == 1
    del view
    assert not out
    print("a Grid and its view share one memory, and nothing is left out")
