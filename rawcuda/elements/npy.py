"""Read and write .npy files, without NumPy.

What it is   `read` returns an `Array` (shape, dtype and bytes), which exports the array interface, so that everything
             that accepts NumPy arrays accepts it. `write` puts bytes into a file, wholly or not at all.
What not     pickles (they can run code), .npz archives, structures, text, dates and non-native byte order are not
             supported: each is refused with an error that names the remedy.
Source       NumPy, "NumPy file format" (numpy.lib.format), versions 1.0, 2.0 and 3.0; "The array interface protocol"
Read next    dtypes.py
"""

from __future__ import annotations

import os
import stat
import sys

from ..errors import ProtocolError
from . import dtypes, layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader
    from typing import Any, BinaryIO, NoReturn, Union

    Path = Union[str, os.PathLike[str]]
    Shape = tuple[int, ...]

__all__ = ["Array", "read", "read_header", "write", "check_target", "replace"]

# numbers that no word follows, strings without escapes, brackets, and the three words
_PLAIN = r"""(?:[\s{}()\[\],:]|-(?=\d)|'[^'\\]*'|"[^"\\]*"|\d+(?![\w.])|True|False|None)*"""
_MAGIC = b"\x93NUMPY"
_HEADER_LIMIT = 10_000  # NumPy's own limit: a longer header could take the parser very long, or overflow its stack
_DEEPEST = 100  # brackets in brackets: Python's parser takes 1.3 kB of stack for each
_ALIGNMENT = 64  # of the start of the data, so that elements of a memory-mapped file are aligned


class Array:
    """The contents of a .npy file: `dtype`, `shape`, `fortran_order` (first index fastest), `data` (a bytearray).

    units   nbytes and strides are in bytes
    """

    __slots__ = ("dtype", "shape", "fortran_order", "data", "_held")

    def __init__(self, dtype: dtypes.DType, shape: Shape, fortran_order: bool, data: bytearray) -> None:
        self.dtype, self.shape, self.fortran_order, self.data = dtype, shape, fortran_order, data
        self._held: Any = None

    @property
    def nbytes(self) -> int:
        """Return the size of the elements in bytes."""
        return len(self.data)

    @property
    def strides(self) -> Shape:
        """Return the number of bytes from one element to the next along each dimension."""
        return (layout.f_strides if self.fortran_order else layout.c_strides)(self.shape, self.dtype.itemsize)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Return the array interface, version 3; the address stays valid as long as this Array exists."""
        import ctypes

        if self._held is None:  # this export also keeps the bytearray from being resized
            self._held = (ctypes.c_char * len(self.data)).from_buffer(self.data)
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.typestr,
            "strides": self.strides,
            "data": (ctypes.addressof(self._held), False),
        }

    def __repr__(self) -> str:
        return f"<Array {self.dtype} {self.shape}{' in Fortran order' if self.fortran_order else ''}>"


def _refuse(path: Path, what: str, remedy: str) -> NoReturn:
    raise ValueError(f"{os.fspath(path)}: {what}: {remedy}")


# -- reading


def read(path: Path) -> Array:
    """Read a whole .npy file.

    raises  OSError      the file cannot be opened
            ValueError   it is not a .npy file, is damaged, or holds unsupported data; the message names the file, the
                         finding and the remedy
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = _header(path, file)
        dtype, shape, fortran_order = _described(path, header)
        try:
            nbytes = layout.checked_size(shape, dtype.itemsize) * dtype.itemsize
        except ValueError as error:
            _refuse(path, str(error), "the header is damaged; save the array again")
        _check_length(path, nbytes, size - file.tell(), shape, dtype)
        data = bytearray(nbytes)  # only after the length was checked: a header alone must not cause a large allocation
        if file.readinto(data) != nbytes:
            _refuse(path, "became shorter while it was being read", "read it after its writer has finished")
    return Array(dtype, shape, fortran_order, data)


def read_header(path: Path) -> tuple[str, bytes, int]:
    """Read what a .npy file says about its array, also if read() refuses the array.

    returns  the text of the header, the first bytes of the data, and where the data begins, in bytes
    raises   OSError      the file cannot be opened
             ValueError   it is not a .npy file, or its header is damaged
    """
    with _opened(path) as file:
        header = _header(path, file)
        begin = file.tell()
        return header.strip(), file.read(16), begin


def _opened(path: Path) -> BufferedReader:
    """Open a regular file; it is looked at before, because opening a pipe would wait for who writes into it."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):  # for a folder, open() has an error of its own
        _check_regular(path, status)
    file = open(path, "rb")
    try:
        _check_regular(path, os.fstat(file.fileno()))
    except ValueError:
        file.close()
        raise
    return file


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        _refuse(path, "is not a regular file", "its size must be known: copy it into a regular file")


def _header(path: Path, file: BinaryIO) -> str:
    """Return the text of the header, and leave the file positioned at the start of the data."""
    start = file.read(8)
    if start[:6] != _MAGIC:
        if start[:2] == b"PK":
            _refuse(path, "is an .npz archive of several arrays", "save a single array with numpy.save, or unzip it")
        _refuse(path, f"is not a .npy file, it begins with {start[:6]!r}", "write it with numpy.save")
    version = tuple(start[6:])
    if version not in ((1, 0), (2, 0), (3, 0)):
        _refuse(
            path,
            f"is of .npy version {'.'.join(map(str, version)) or '(missing)'}, but only 1.0, 2.0 and 3.0 are supported",
            "save it with numpy.save",
        )
    width = 4
    if version == (1, 0):
        width = 2
    length = int.from_bytes(file.read(width), "little")
    if length > _HEADER_LIMIT:
        _refuse(
            path,
            f"has a header of {length} bytes, but at most {_HEADER_LIMIT} are read",
            "it is damaged, or holds a structure: save plain numbers",
        )
    raw = file.read(length)
    if len(raw) < length or not length:
        _refuse(path, "is truncated within its header", "copy or save it again")
    try:
        return raw.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        _refuse(path, "has a header that is not UTF-8", "the file is damaged; save it again")


def _described(path: Path, header: str) -> tuple[dtypes.DType, Shape, bool]:
    """Read the header's dictionary: element type, shape, order.

    What is not written as NumPy writes it is refused before Python reads it, which warns on stderr of each oddity.
    """
    import ast
    import re
    from itertools import accumulate

    try:
        if re.fullmatch(_PLAIN, header) is None:
            raise ValueError
        depths = accumulate((each in "([{") - (each in ")]}") for each in header)
        if max(depths, default=0) > _DEEPEST:
            raise ValueError
        facts = ast.literal_eval(header.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        _refuse(
            path,
            f"has a header that is not a dictionary of plain values, {header.strip()[:60]!r}",
            "the file is damaged; save it again",
        )
    if not isinstance(facts, dict) or set(facts) != {"descr", "fortran_order", "shape"}:
        _refuse(
            path,
            f"has a header whose keys are not exactly descr, fortran_order and shape, {header.strip()[:60]!r}",
            "the file is damaged; save it again",
        )
    descr, shape, fortran_order = facts["descr"], facts["shape"], facts["fortran_order"]
    if not isinstance(fortran_order, bool):
        _refuse(path, f"has fortran_order {fortran_order!r}", "it must be True or False; save the file again")
    if (
        not isinstance(shape, tuple)
        or not all(type(extent) is int and extent >= 0 for extent in shape)
        or len(shape) > layout.MAX_NDIM
    ):
        _refuse(
            path,
            f"has shape {str(shape)[:60]}, which is not a tuple of at most {layout.MAX_NDIM} extents",
            "the file is damaged; save it again",
        )
    return _dtype(path, descr), shape, fortran_order


def _dtype(path: Path, descr: object) -> dtypes.DType:
    """Find the element type, or refuse it with an error that says how NumPy can convert it."""
    if isinstance(descr, (list, tuple)):
        _refuse(path, "holds structures", "save each field by itself: numpy.save(file, a['field'])")
    if not isinstance(descr, str):
        _refuse(path, f"has dtype {str(descr)[:60]}", "the file is damaged; save it again")
    if "O" in descr:
        _refuse(
            path,
            "holds pickled Python objects, which are never read (they can run code)",
            "save numbers: numpy.save(file, a.astype('float64'))",
        )
    if descr[:1] in ("<", ">") and descr[:1] != dtypes.ORDER and descr[1:] not in ("b1", "i1", "u1"):
        _refuse(
            path,
            f"has dtype {descr!r}, which is not in native byte order",
            "convert it: numpy.save(file, a.astype(a.dtype.newbyteorder('=')))",
        )
    try:
        dtype = dtypes.from_typestr(descr, protocol="npy")
    except ProtocolError:
        dtype = None
    if dtype is None or dtype.code is None or dtype.kind == "opaque":
        hint = ""
        if descr[1:2] == "V":
            hint = " (bfloat16 and float8 arrays are saved as bare bytes)"
        _refuse(
            path,
            f"has dtype {descr[:40]!r}{hint}, but only bool, int, uint, float16/32/64 and complex64/128 are supported",
            "convert it: numpy.save(file, a.astype('float32')), or a.view('uint8') for its bytes",
        )
    return dtype


def _check_length(path: Path, wanted: int, found: int, shape: Shape, dtype: dtypes.DType) -> None:
    if found < wanted:
        _refuse(
            path,
            f"is truncated, {dtype} {shape} needs {wanted} bytes of data and the file has {found}",
            "copy or save it again",
        )
    if found > wanted:
        _refuse(
            path,
            f"is too long, {dtype} {shape} needs {wanted} bytes of data and the file has {found}",
            "it is damaged, or several arrays were saved into one file: save each into its own",
        )


# -- writing


def write(path: Path, data: Any, *, dtype: object, shape: Shape, fortran_order: bool = False) -> None:
    """Write a .npy file of version 1.0: first beside `path`, under a temporary name, and then rename it.

    data    a contiguous buffer of exactly the elements' bytes, in the order that fortran_order gives
    dtype   anything that dtypes.of takes, if the .npy format supports it
    order   an existing file is replaced and keeps its permissions; a symbolic link is followed
    raises  OSError      the file cannot be written; no temporary file is left behind
            ValueError   data of another size, an unsupported dtype, or a target that is not a regular file
    """
    kind = dtypes.of(dtype)
    if kind.code is None or kind.typestr[1:2] not in "biufc":
        raise ValueError(f"{os.fspath(path)}: .npy lacks dtype {kind}: convert the array, or write its bytes as uint8")
    shape = layout.as_shape(shape)
    nbytes = layout.checked_size(shape, kind.itemsize) * kind.itemsize
    with memoryview(data) as view:
        if not view.c_contiguous or view.nbytes != nbytes:
            raise ValueError(
                f"{os.fspath(path)}: {kind} {shape} is {nbytes} contiguous bytes, not {view.nbytes}"
                f"{'' if view.c_contiguous else ' with gaps'}: give exactly that many"
            )
        replace(check_target(path), _written_header(kind, shape, fortran_order), view)


def _written_header(dtype: dtypes.DType, shape: Shape, fortran_order: bool) -> bytes:
    text = f"{{'descr': {dtype.typestr!r}, 'fortran_order': {bool(fortran_order)}, 'shape': {shape!r}, }}".encode(
        "ascii"
    )
    length = -(-(len(_MAGIC) + 4 + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT - len(_MAGIC) - 4
    return _MAGIC + bytes((1, 0)) + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def check_target(path: Path) -> str:
    """Return the real path that `write` would replace, after checking that it can; call this before long work.

    raises  OSError      the folder does not exist, or the file or the folder is not writable
            ValueError   the path is not that of a regular file
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "there is no such folder to write to; create it first", folder)
    if os.path.lexists(real):
        if not os.path.isfile(real):  # renaming over /dev/null would replace the device itself
            _refuse(path, "is not a regular file", "choose another name to write to")
        if not os.access(real, os.W_OK):
            raise PermissionError(13, "the file exists and is not writable", real)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "the folder is not writable", folder)
    return real


def replace(path: str, header: bytes, view: memoryview) -> None:
    """Write a new file beside this path, and rename it: after an error, the old file is unchanged.

    An old file gives the new one its permissions and its group. A link is replaced, not followed.

    raises  OSError  the file cannot be written; no temporary file is left behind
    """
    beside = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    old = None
    if os.path.exists(path) and not os.path.islink(path):
        old = os.stat(path)
    at_first = 0o600
    if old is None:
        at_first = 0o666  # minus the umask, as open() itself does
    try:
        with open(os.open(beside, flags, at_first), "wb") as file:
            file.write(header)
            if view.nbytes:  # a view with an extent of 0 cannot be cast to bytes, and has nothing to write
                file.write(view)
            if old is not None and hasattr(os, "fchmod"):  # chmod() would follow a link that another user put there
                os.fchmod(file.fileno(), _kept_mode(path, old, file.fileno()))
        os.replace(beside, path)
    except FileExistsError:  # it is somebody else's
        raise
    except BaseException:
        if os.path.exists(beside):  # else an interrupt came before it was made, or after the renaming
            os.unlink(beside)
        raise


def _kept_mode(path: str, old: os.stat_result, new: int) -> int:
    """Give a new file the group and the access control list of the old one, and return its mode.

    If the new file cannot have them, the mode gives nobody a right that the old file denied.

    path  of the old file
    new   the descriptor of the new file
    """
    mode = old.st_mode & 0o777  # not setuid: the file may be another user's, and becomes this one's
    access = _access_list(path)
    try:
        if sys.platform != "win32" and old.st_gid != os.fstat(new).st_gid:
            os.fchown(new, -1, old.st_gid)
        if access and sys.platform == "linux":
            os.setxattr(new, _ACCESS_LIST, access)
        return mode
    except OSError:  # for example, the user is not in the group
        pass
    common = 0 if access else mode & mode >> 3 & 0o7  # what both the group and the others could do
    return mode & 0o700 | common << 3 | common


_ACCESS_LIST = "system.posix_acl_access"


def _access_list(path: str) -> bytes:
    """Return the access control list of a file, which only Linux tells, or b""."""
    if sys.platform == "linux":
        try:
            return os.getxattr(path, _ACCESS_LIST)
        except OSError:  # there is none
            pass
    return b""
