"""The .npy reader and writer, compared with NumPy; every refusal names the file, the problem and the remedy."""

from __future__ import annotations

import array
import io
import itertools
import os
import stat
import struct
import sys
import warnings

import numpy
import pytest

from tests.shared import NUMBERS
from tests.subject import module

npy = module("elements.npy")

SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3), (3, 1, 4), (1,) * 12, (2,) * 8]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")


def sample(dtype: str, shape: tuple) -> numpy.ndarray:
    """Return an array in which neighbouring bytes differ, without a NaN, so that arrays can be compared."""
    count = int(numpy.prod(shape))
    if dtype == "bool":
        return (numpy.arange(count) % 3 == 0).reshape(shape)
    values = (numpy.arange(count) * 7 + 1) % 120
    return (values * (1 + 2j) if dtype.startswith("complex") else values).astype(dtype).reshape(shape)


def npy_bytes(header: str, data: bytes = b"", version: tuple = (1, 0), length: int | None = None) -> bytes:
    """Return the bytes of a file with any header."""
    raw = header.encode("utf-8")
    width = "<H" if version == (1, 0) else "<I"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(raw) if length is None else length) + raw + data


def header(descr: object = "<f4", shape: object = (3,), fortran_order: object = False) -> str:
    return repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}) + "\n"


@pytest.fixture
def put(tmp_path):
    """Return a function that writes bytes into a file and returns its path."""

    def write(content: bytes, name: str = "given.npy") -> str:
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


# -- reading what NumPy wrote


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("order", "CF")
def test_reads_what_numpy_saved(tmp_path, dtype, order):
    for shape in SHAPES:
        wanted = numpy.asarray(sample(dtype, shape), order=order)
        numpy.save(tmp_path / "a.npy", wanted)
        found = npy.read(tmp_path / "a.npy")
        assert str(found.dtype) == dtype and found.shape == shape and found.nbytes == wanted.nbytes
        assert found.fortran_order == (wanted.flags.f_contiguous and not wanted.flags.c_contiguous)
        seen = numpy.asarray(found)  # through the array interface
        assert seen.dtype == wanted.dtype and seen.shape == wanted.shape
        assert (seen == wanted).all()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_reads_every_version(tmp_path, version):
    wanted = sample("int16", (4, 5))
    with open(tmp_path / "a.npy", "wb") as file:
        numpy.lib.format.write_array(file, wanted, version=version)
    assert (numpy.asarray(npy.read(tmp_path / "a.npy")) == wanted).all()


def test_reads_what_has_no_file_order_and_native_order(put):
    data = struct.pack("=3f", 1, 2, 3)
    for descr in ("f4", "=f4", "<f4"):
        assert numpy.asarray(npy.read(put(npy_bytes(header(descr), data)))).tolist() == [1, 2, 3]
    assert bytes(npy.read(put(npy_bytes(header(">u1"), b"abc"))).data) == b"abc"  # a single byte has no order


def test_the_exported_memory_is_the_arrays_own(put):
    found = npy.read(put(npy_bytes(header("<u1"), b"abc")))
    numpy.asarray(found)[1] = ord("x")
    assert found.data == b"axc"
    with pytest.raises(BufferError):
        found.data.append(0)  # would move the bytes while a consumer uses them
    assert found.__array_interface__ == found.__array_interface__


# -- refusals

REFUSED = {
    "empty": (b"", "not a .npy file", "numpy.save"),
    "text": (b"a,b,c\n1,2,3\n", "not a .npy file, it begins with b'a,b,c\\n'", "numpy.save"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00", "not a .npy file", "numpy.save"),
    "npz": (b"PK\x03\x04....", "an .npz archive", "unzip"),
    "magic only": (b"\x93NUMPY", "version (missing)", "numpy.save"),
    "version 4": (npy_bytes(header(), bytes(12), (4, 0)), "version 4.0", "numpy.save"),
    "version 1.1": (npy_bytes(header(), bytes(12), (1, 1)), "version 1.1", "numpy.save"),
    "no header": (b"\x93NUMPY\x01\x00", "truncated within its header", "save it again"),
    "half a header": (npy_bytes(header(), length=500), "truncated within its header", "save it again"),
    "header of 0": (npy_bytes("", bytes(12)), "truncated within its header", "save it again"),
    "long header": (npy_bytes(header() + " " * 10_000, bytes(12)), "a header of 10", "damaged"),
    "huge header": (npy_bytes(header(), bytes(12), (2, 0), 2**32 - 1), "a header of 4294967295 bytes", "damaged"),
    "not UTF-8": (b"\x93NUMPY\x03\x00" + struct.pack("<I", 4) + b"\xff\xfe\xfd\n", "not UTF-8", "save it again"),
    "no literal": (npy_bytes("{'descr': __import__('os')}\n"), "not a dictionary of plain values", "save it again"),
    "deep": (npy_bytes("(" * 9_000), "not a dictionary of plain values", "save it again"),
    "deep signs": (npy_bytes("-" * 9_000 + "1"), "not a dictionary of plain values", "save it again"),
    "NUL": (npy_bytes("{'descr': '\0'"), "not a dictionary of plain values", "save it again"),
    "a list": (npy_bytes("[1, 2]\n"), "not exactly descr", "save it again"),
    "missing key": (npy_bytes("{'descr': '<f4', 'shape': (3,)}\n"), "not exactly descr", "save it again"),
    "surplus key": (npy_bytes(header()[:-2] + ", 'x': 1}\n"), "not exactly descr", "save it again"),
    "order": (npy_bytes(header(fortran_order=1), bytes(12)), "fortran_order 1", "True or False"),
    "shape no tuple": (npy_bytes(header(shape=[3]), bytes(12)), "shape [3]", "save it again"),
    "shape of text": (npy_bytes(header(shape=("3",)), bytes(12)), "shape ('3',)", "save it again"),
    "shape of bool": (npy_bytes(header(shape=(True,)), bytes(4)), "shape (True,)", "save it again"),
    "negative": (npy_bytes(header(shape=(-3,)), bytes(12)), "shape (-3,)", "save it again"),
    "65 dimensions": (npy_bytes(header(shape=(1,) * 65), bytes(4)), "at most 64", "save it again"),
    "overflow": (npy_bytes(header(shape=(2**31, 2**31, 2))), "2**63", "save the array again"),
    "overflow to 0": (npy_bytes(header(shape=(2**62, 0, 4))), "2**63", "save the array again"),
    "past 2**64": (npy_bytes(header(shape=(2**80,))), "2**63", "save the array again"),
    "truncated": (
        npy_bytes(header(), bytes(11)),
        "truncated, float32 (3,) needs 12 bytes of data and the file has 11",
        "save it again",
    ),
    "no data": (npy_bytes(header()), "the file has 0", "save it again"),
    "claims much": (npy_bytes(header(shape=(2**50,))), "truncated", "save it again"),
    "too long": (npy_bytes(header(), bytes(13)), "too long", "several arrays"),
    "objects": (npy_bytes(header("|O"), bytes(24)), "pickled Python objects", "never read"),
    "big-endian": (npy_bytes(header(">f4"), bytes(12)), "not in native byte order", "newbyteorder"),
    "text dtype": (npy_bytes(header("<U2"), bytes(24)), "'<U2'", "astype"),
    "bytes dtype": (npy_bytes(header("|S4"), bytes(12)), "'|S4'", "astype"),
    "dates": (npy_bytes(header("<M8[s]"), bytes(24)), "'<M8[s]'", "astype"),
    "long double": (npy_bytes(header("<f16"), bytes(48)), "'<f16'", "astype"),
    "bfloat16": (npy_bytes(header("|V2"), bytes(6)), "bfloat16 and float8 arrays", "view('uint8')"),
    "structure": (npy_bytes(header([("x", "<f4")]), bytes(12)), "structures", "each field"),
    "unknown dtype": (npy_bytes(header("<q9"), bytes(12)), "'<q9'", "astype"),
    "dtype a number": (npy_bytes(header(4), bytes(12)), "dtype 4", "save it again"),
    "dtype empty": (npy_bytes(header(""), bytes(12)), "dtype ''", "astype"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(put, case):
    content, finding, remedy = REFUSED[case]
    path = put(content)
    with pytest.raises(ValueError) as caught:
        npy.read(path)
    said = str(caught.value)
    assert said.startswith(path + ": ") and finding in said and remedy in said
    assert "\n" not in said and len(said) < len(path) + 400


@pytest.mark.parametrize(
    "text",
    [
        "1if 1else " * 900 + "1",
        "'\\d' " * 900,
        "(0in 1)",
        "1_000",
        "True1",
        "b'x'",
        "-" * 9000 + "1",
        "- 1",
        "(" * 101 + ")" * 101,
    ],
)
def test_a_hostile_header_makes_no_warnings(put, text):
    """Python's compiler would write a line to stderr for each of its literals."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="not a dictionary of plain values"):
            npy.read(put(npy_bytes(text)))
    assert not caught


def test_every_truncation_is_refused(put):
    file = io.BytesIO()
    numpy.save(file, numpy.arange(5, dtype="int32"))
    whole = file.getvalue()
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            npy.read(put(whole[:length]))


def test_never_unpickles(tmp_path, put):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    file = io.BytesIO()
    numpy.save(file, numpy.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="never read"):
        npy.read(put(file.getvalue()))
    assert not (tmp_path / "sprung").exists()


def test_the_systems_own_errors_pass(tmp_path):
    with pytest.raises(FileNotFoundError):
        npy.read(tmp_path / "missing.npy")
    with pytest.raises(OSError):
        npy.read(tmp_path)


@POSIX
def test_refuses_what_has_no_size():
    with pytest.raises(ValueError, match="not a regular file"):
        npy.read("/dev/null")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders")
@pytest.mark.parametrize("read", [npy.read, npy.read_header])
def test_a_pipe_is_not_opened(tmp_path, monkeypatch, read):
    def opened(*_):
        raise AssertionError("opening it would wait for ever")

    os.mkfifo(tmp_path / "a.npy")
    monkeypatch.setattr(npy, "open", opened, raising=False)
    with pytest.raises(ValueError, match="a.npy: is not a regular file"):
        read(tmp_path / "a.npy")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders")
def test_what_took_the_place_of_the_file_meanwhile_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.npy").write_bytes(npy_bytes(header(), bytes(12)))
    monkeypatch.setattr(npy, "open", lambda *_: open("/dev/null", "rb"), raising=False)
    with pytest.raises(ValueError, match="a.npy: is not a regular file"):
        npy.read(tmp_path / "a.npy")


# -- writing


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numpy_reads_what_was_written(tmp_path, dtype):
    for shape, fortran_order in itertools.product(SHAPES, (False, True)):
        wanted = sample(dtype, shape)
        npy.write(
            tmp_path / "a.npy",
            wanted.tobytes("F" if fortran_order else "C"),
            dtype=dtype,
            shape=shape,
            fortran_order=fortran_order,
        )
        found = numpy.load(tmp_path / "a.npy", allow_pickle=False)
        assert found.dtype == wanted.dtype and found.shape == shape and (found == wanted).all()
        again = npy.read(tmp_path / "a.npy")
        assert again.shape == shape and again.fortran_order == fortran_order
        assert (tmp_path / "a.npy").stat().st_size % 64 == wanted.nbytes % 64  # the data are aligned
    assert os.listdir(tmp_path) == ["a.npy"]


def test_takes_any_buffer(tmp_path):
    path = tmp_path / "a.npy"
    npy.write(path, array.array("f", [1, 2, 3, 4]), dtype="float32", shape=(2, 2))
    assert numpy.load(path).tolist() == [[1, 2], [3, 4]]
    npy.write(path, numpy.arange(6.0).reshape(2, 3), dtype="float64", shape=(2, 3))
    assert numpy.load(path).tolist() == [[0, 1, 2], [3, 4, 5]]
    npy.write(path, numpy.zeros((3, 0)), dtype="float64", shape=(3, 0))
    assert numpy.load(path).shape == (3, 0)


@pytest.mark.parametrize(
    "data, dtype, shape, finding",
    [
        (b"1234567", "float32", (2,), "8 contiguous bytes, not 7"),
        (b"", "float32", (), "4 contiguous bytes, not 0"),
        (numpy.zeros((4, 4), "f4")[:, 0], "float32", (4,), "with gaps"),
        (numpy.zeros((2, 3), "f4").T, "float32", (3, 2), "with gaps"),
        (b"12", "bfloat16", (1,), "lacks dtype bfloat16"),
        (b"1", "float8_e5m2", (1,), "lacks dtype float8_e5m2"),
        (bytes(8), "<M8[s]", (1,), "lacks dtype datetime64"),
        (bytes(16), "float128", (1,), "lacks dtype float128"),
        (bytes(4), "float32", (2**62, 4), "2**63"),
        (bytes(4), "float32", (-1,), "negative"),
    ],
)
def test_refuses_to_write(tmp_path, data, dtype, shape, finding):
    with pytest.raises(ValueError) as caught:
        npy.write(tmp_path / "a.npy", data, dtype=dtype, shape=shape)
    assert finding in str(caught.value)
    assert os.listdir(tmp_path) == []


def write(path) -> None:
    npy.write(path, b"new", dtype="uint8", shape=(3,))


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.npy"]


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path, monkeypatch):
    path, seen, replace = tmp_path / "a.npy", [], os.replace
    path.write_bytes(b"old")

    def look(source, target):
        seen.append((path.read_bytes(), os.path.dirname(source), os.path.getsize(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    write(path)
    assert seen == [(b"old", os.path.realpath(tmp_path), 128 + 3)] or seen == [
        (b"old", os.path.realpath(tmp_path), 64 + 3)
    ]
    assert numpy.load(path).tobytes() == b"new"


@POSIX
def test_permissions(tmp_path):
    path = tmp_path / "a.npy"
    old = os.umask(0o027)
    try:
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640  # as open() would
        path.chmod(0o604)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604  # unchanged
    finally:
        os.umask(old)


@POSIX
def test_nobody_else_can_read_the_new_content_of_a_private_file(tmp_path, monkeypatch):
    path, seen = tmp_path / "a.npy", []
    write(path)
    path.chmod(0o600)

    def change(descriptor, mode, fchmod=os.fchmod):
        seen.append(stat.S_IMODE(os.stat(descriptor).st_mode))
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", change)
    write(path)
    assert seen == [0o600] and stat.S_IMODE(path.stat().st_mode) == 0o600


@POSIX
def test_a_file_that_is_replaced_keeps_only_permissions(tmp_path):
    """The file may be another user's, and the new one is this user's."""
    path = tmp_path / "a.npy"
    write(path)
    path.chmod(0o7764)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o764


@POSIX
@pytest.mark.parametrize("is_member", [True, False])
def test_a_file_that_is_replaced_keeps_its_group_or_what_all_could_do(tmp_path, monkeypatch, is_member):
    """Without that, the rights of a group would be those of the user's own group."""
    path, stat_of, given = tmp_path / "a.npy", os.stat, []
    write(path)
    group = path.stat().st_gid + 1

    def stat_in_group(file, **options):
        found = stat_of(file, **options)
        return os.stat_result((*found[:5], group, *found[6:]))

    def change(descriptor, user, group):
        given.append((user, group))
        if not is_member:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "stat", stat_in_group)
    monkeypatch.setattr(os, "fchown", change)
    for mode, common in ((0o640, 0o600), (0o664, 0o644), (0o604, 0o600), (0o775, 0o755), (0o600, 0o600)):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(stat_of(path).st_mode) == (mode if is_member else common)
        assert given.pop() == (-1, group)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the calls for access control lists")
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_file_that_is_replaced_keeps_its_access_control_list_or_is_private(tmp_path, monkeypatch, is_kept):
    """The list may give rights to some users and deny them to others; the mode has its mask in the group's place."""
    path, name = tmp_path / "a.npy", "system.posix_acl_access"
    write(path)
    entries = ((1, 6, -1), (2, 0, os.getuid() + 1), (4, 0, -1), (0x10, 6, -1), (0x20, 4, -1))  # see acl(5)
    access = struct.pack("<I", 2) + b"".join([struct.pack("<HHi", *entry) for entry in entries])
    try:
        os.setxattr(path, name, access)
    except OSError:
        pytest.skip("this file system has no access control lists")
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    if not is_kept:

        def refuse(*arguments):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "setxattr", refuse)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == (0o664 if is_kept else 0o600)
    assert (name in os.listxattr(path)) is is_kept and (not is_kept or os.getxattr(path, name) == access)


@POSIX
@pytest.mark.parametrize("by", ["write", "a command"])
def test_no_file_gets_the_mode_that_is_meant_for_another(tmp_path, monkeypatch, by):
    """Another user who can write to the folder may put a link in the place of the file that will be renamed."""
    path, secret = tmp_path / "a.npy", tmp_path / "secret"
    write(path)
    path.chmod(0o644)
    secret.write_text("secret")
    secret.chmod(0o600)

    def exchange(beside, flags, mode=0o777, *, open=os.open, **more):
        descriptor = open(beside, flags, mode, **more)
        if flags & os.O_EXCL:
            os.unlink(beside)
            os.symlink(secret, beside)
        return descriptor

    monkeypatch.setattr(os, "open", exchange)
    if by == "write":
        write(path)
    else:
        module("tools.commands.compile").write(path, b"new")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600 and secret.read_text() == "secret"


def test_an_exception_after_the_file_is_there_leaves_it(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"

    def interrupt(beside, real, replace=os.replace):
        replace(beside, real)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path)
    assert os.listdir(tmp_path) == ["a.npy"] and numpy.load(path).tobytes() == b"new"


@POSIX
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "link.npy").symlink_to(tmp_path / "inner" / "real.npy")
    write(tmp_path / "link.npy")
    write(tmp_path / "link.npy")
    assert (tmp_path / "link.npy").is_symlink()
    assert numpy.load(tmp_path / "inner" / "real.npy").tobytes() == b"new"
    assert os.listdir(tmp_path / "inner") == ["real.npy"]


def test_targets_that_cannot_be(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write(tmp_path / "missing" / "a.npy")
    with pytest.raises(ValueError, match="not a regular file"):
        write(tmp_path)
    if sys.platform != "win32":
        with pytest.raises(ValueError, match="not a regular file"):
            write("/dev/null")
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (tmp_path / "a.npy").write_bytes(b"old")
    # Root may write everywhere, so the system never refuses.
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(".npy"))
    with pytest.raises(PermissionError, match="not writable"):
        write(tmp_path / "a.npy")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path).endswith(".npy"))
    with pytest.raises(PermissionError, match="folder is not writable"):
        write(tmp_path / "a.npy")
    assert (tmp_path / "a.npy").read_bytes() == b"old" and os.listdir(tmp_path) == ["a.npy"]


def test_check_target_changes_nothing(tmp_path):
    assert npy.check_target(tmp_path / "a.npy") == os.path.join(os.path.realpath(tmp_path), "a.npy")
    assert os.listdir(tmp_path) == []
