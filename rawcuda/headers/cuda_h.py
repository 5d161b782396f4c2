"""cuda.h as data: the functions, constants, handles and structures of the CUDA driver, as the header declares them.

What it is   every name of the header: `prototypes()`, `enum()`, and as attributes of this module its constants (int),
             enumerations (IntEnum), handles, structures and unions (ctypes types). Each is made when it is first used,
             from the C text in functions.py and its neighbours, structures.py and enumerations.py.
What not     it loads no library and calls nothing: driver.py does, by these declarations.
Source       cuda.h of CUDA 11.7 to 13.5, which agree wherever they declare the same symbol: the tests compare this
             table with every cuda.h that they find. The symbols that the drivers of CUDA 11.4 to 12.5 export. CUDA
             Driver API, "Data types used by CUDA driver" and the chapters after it, for the text about each function.
Read next    the first lines of functions.py; then reader.py, driver.py

How to read a line of the text of functions:

    CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);   // 3.2  allocate uninitialized memory

The symbol is the one that libcuda exports. If NVIDIA changes a function, libcuda exports a second one, `_v2`, keeps
the first for programs that were built earlier, and cuda.h says `#define cuMemAlloc cuMemAlloc_v2`. So the suffix is
part of a name and is never guessed: cuCtxGetDevice_v2 is not a newer cuCtxGetDevice but takes one more argument.
After // comes the CUDA version of the first driver with the symbol (drivers from 11.4 on are supported). `ptsz` or
`ptds` after it means that libcuda also exports a form with that suffix, for which stream NULL is the default stream of
the thread. `old` means that no header since CUDA 11.7 offers this ABI to programs. `abi=11.6` means that
cuGetProcAddress knows it by that earlier version. Then comes what the function does.
Every function returns a CUresult, and its other results through pointers. Sizes and pitches are in bytes.

A version in the texts of constants and types is that of the first header that has the name, if it is later than 11.7.
"""

from __future__ import annotations

from .c_types import Enumerator, Handle, Integer
from .reader import Header, Prototype, Prototypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["HEADER", "Prototype", "prototypes", "enum", "defines", "results", "Integer", "Enumerator", "Handle"]


def _functions() -> Iterator[str]:
    """Yield the texts of functions, those that most programs call first."""
    from . import functions

    yield functions.PROTOTYPES
    from . import functions_graphs

    yield functions_graphs.PROTOTYPES
    from . import functions_arrays

    yield functions_arrays.PROTOTYPES
    from . import functions_system

    yield functions_system.PROTOTYPES


def _enums() -> str:
    from . import enumerations

    return enumerations.ENUMS


def _types() -> str:
    from . import structures

    return structures.TYPES


HEADER = Header(__name__, _functions, _enums, _types)


def prototypes() -> Prototypes:
    """Return every function of the header by its exported name; a line is parsed when its name is asked for."""
    return HEADER.prototypes


def enum(name: str) -> dict[str, int]:
    """Return the enumerators of one enum by name.

    raises  KeyError  no enum of that name
    """
    return HEADER.enum(name)


def defines() -> dict[str, int]:
    """Return the constants that the header defines by #define."""
    return HEADER.enum("#define")


def results() -> dict[int, str]:
    """Return the name of each code that a function can return."""
    return {code: name for name, code in enum("CUresult").items()}


def __getattr__(name: str) -> Any:
    """Return what a name of the header stands for: an int, an IntEnum, a ctypes type."""
    return HEADER.attribute(name, globals())


def __dir__() -> list[str]:
    return HEADER.all_names(globals())
