"""NumPy's arrays, by every protocol, by the reader for its type and by the general one, compared with NumPy."""

from __future__ import annotations

import ctypes
import gc
import random
import sys

import pytest

from tests.conftest import frees_classes
from tests.null.test_layout import random_array
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
choosing, dlpack, protocol, tensors, errors, dtypes, cpython = (
    module(name)
    for name in (
        "protocols.choosing",
        "dlpack",
        "protocols.dlpack_capsule",
        "protocols.tensor",
        "errors",
        "elements.dtypes",
        "interpreter.cpython",
    )
)
view, ProtocolError = rawcuda.view, errors.ProtocolError
VERSIONED = int(numpy.__version__.split(".")[0]) >= 2 and numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"


@pytest.fixture(params=["short", "long"])
def way(request, monkeypatch):
    """Use the reader for NumPy's type, or the general one."""
    choosing.forget()
    if request.param == "long":
        monkeypatch.setattr(protocol, "_METHOD", None)
    yield request.param
    choosing.forget()


def same(v, a):
    """Check that a view agrees with an array, field by field."""
    assert v.ptr == a.__array_interface__["data"][0] or not a.size
    assert (
        v.shape == a.shape
        and v.ndim == a.ndim
        and v.size == a.size
        and v.nbytes == a.nbytes
        and v.itemsize == a.itemsize
    )
    assert all(mine == its for n, mine, its in zip(a.shape, v.strides, a.strides) if n > 1) or not a.size
    assert str(v.dtype) == str(a.dtype) and v.readonly == (not a.flags.writeable) and v.device == ("cpu", 0)
    assert v.is_c_contiguous == a.flags.c_contiguous and v.is_f_contiguous == a.flags.f_contiguous
    assert repr(v.tolist()) == repr(a.tolist()) or a.dtype.kind in "cfVSUMm"


@pytest.mark.parametrize("name", ["dlpack", "array_interface", "buffer", None])
def test_random_layouts(way, name):
    for n in range(300):
        a, choose = random_array(numpy, (n, 11).__hash__())
        if choose.random() < 0.2:
            a.flags.writeable = False
        if name == "dlpack" and not VERSIONED and not a.flags.writeable:
            continue  # before 2.1, NumPy exports no read-only arrays
        for _ in range(2):  # the first one is new, the second one known
            v = view(a, protocol=name)
            same(v, a)
        assert v.protocol == name or name is None
        key = tuple(slice(None, None, choose.choice((1, -1, 2))) for _ in range(a.ndim))
        same(v[key], a[(*key, ...)])
        same(v.T, a.T)


@pytest.mark.parametrize("name", [row[0] for row in dtypes._TABLE])
def test_every_dtype(way, name):
    try:
        a = numpy.zeros((2, 3), name)
    except TypeError:
        pytest.skip("NumPy alone has no such dtype")
    a.reshape(-1).view("u1")[:] = 1
    if a.dtype.isbuiltin != 1:  # ml_dtypes was imported: the typestr tells only the size of an element
        assert str(view(a).dtype) in (f"|V{a.itemsize}", name) and view(a).strides == a.strides
        return
    same(view(a), a)
    same(view(a[:, ::2]), a[:, ::2])


def test_what_dlpack_cannot_say_comes_by_another_protocol(way):
    for what, name, ours in (
        ("M8[s]", "array_interface", "datetime64[s]"),
        ("S3", None, "|S3"),
        ("U2", None, "<U2"),
        ("V4", None, "|V4"),
        ([("a", "<i4"), ("b", "<f8")], None, "[('a', '<i4'), ('b', '<f8')]"),
        ("g", None, str(numpy.dtype("g"))),
    ):
        a = numpy.zeros(3, what)
        v = view(a)
        assert (
            str(v.dtype) == ours
            and v.protocol in ("array_interface", "buffer")
            and (name is None or v.protocol == name)
        )
    for what in (">f4", ">i8", "O"):
        with pytest.raises((BufferError, ValueError)):
            view(numpy.zeros(3, what))


def test_read_only_is_never_lost(way):
    a = numpy.zeros(3, "f4")
    a.flags.writeable = False
    for source in (a, a[:2], numpy.broadcast_to(numpy.zeros(3), (2, 3))):
        assert view(source).readonly and view(source).T.readonly
        with pytest.raises(ProtocolError):
            view(source).fill(0)
    a.flags.writeable = True
    assert not view(a).readonly


@pytest.mark.parametrize("what, protocol", [("i4,f4", "buffer"), ("M8[s]", "array_interface")])
def test_what_dlpack_cannot_describe(what, protocol):
    """The buffer protocol comes first: NumPy takes long to make the array interface of a structure."""
    for _ in range(2):
        assert view(numpy.zeros(3, what)).protocol == protocol


def test_subclasses_and_scalars(way):
    class Mine(numpy.ndarray):
        pass

    a = numpy.arange(6.0).reshape(2, 3).view(Mine)
    same(view(a), a)
    masked = numpy.ma.masked_array([1, 2, 3], [True, False, False])
    assert view(masked, protocol="buffer").tolist() == [1, 2, 3]
    scalar = numpy.float32(2.5)
    assert view(scalar).tolist() == 2.5 and view(scalar).readonly and view(scalar).shape == ()
    assert view(scalar).protocol == "buffer"
    v = view(
        scalar, protocol="array_interface"
    )  # before NumPy 2.5 the memory of an array that only the dict keeps alive
    gc.collect()
    assert v.tolist() == 2.5 and (v.owner is scalar) == ("__ref" not in scalar.__array_interface__)
    assert view(numpy.array(7)).shape == () and view(numpy.array(7)).tolist() == 7
    for shape in ((0,), (0, 3), (3, 0, 2)):
        same(view(numpy.zeros(shape)), numpy.zeros(shape))
    big = numpy.zeros((1,) * 30 + (2,) * 2)
    same(view(big), big)


@pytest.mark.parametrize("slots", [{}, {"__slots__": ()}], ids=["dict", "slots"])
@pytest.mark.parametrize("change", ["__dlpack__", "__getattribute__"])
def test_what_a_class_gets_after_its_first_view_counts(slots, change):
    kind = type("Mine", (numpy.ndarray,), dict(slots))
    a, other = numpy.zeros(4, "i4").view(kind), numpy.arange(3, dtype="i2")
    for _ in range(2):
        assert view(a).dtype == "int32"
    if change == "__dlpack__":
        kind.__dlpack__ = lambda self, **keywords: other.__dlpack__(**keywords)
    else:
        kind.__getattribute__ = lambda self, name: getattr(other if name == "__dlpack__" else super(kind, self), name)
    if VERSIONED:
        assert view(a).tolist() == [0, 1, 2]
    delattr(kind, change)
    assert view(a).tolist() == [0, 0, 0, 0]


def test_forgetting_while_a_type_is_learnt_leaves_no_entry(monkeypatch):
    """An entry without a reference to its type could later be used for another type with the same id."""
    kind, begin = type("Mine", (bytearray,), {}), {}

    class Table(dict):
        def __setitem__(self, number, read):  # another thread clears the table, just before and just after
            begin.pop("before", int)()
            super().__setitem__(number, read)
            begin.pop("after", int)()

    for moment in "before", "after":
        monkeypatch.setattr(choosing.readers[None], "answers", Table())
        begin[moment] = choosing.forget
        assert view(kind(4)).nbytes == 4 and not begin
        assert set(choosing.readers[None].answers) <= set(choosing._types)


@frees_classes
def test_no_python_code_runs_when_a_type_is_forgotten():
    """An interrupt in such code is lost, and would leave the reader of a type whose id another type gets."""
    kind, ran = type("Mine", (bytearray,), {}), []
    number = id(kind)
    for protocol in None, "buffer":
        assert view(kind(4), protocol=protocol).nbytes == 4 and number in choosing.readers[protocol].answers
    gc.collect()
    was = sys.getprofile()
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_filename) if event == "call" else None)
    del kind
    gc.collect()
    sys.setprofile(was)
    assert choosing.__file__ not in ran  # (but functions of gc.callbacks may be)
    assert not any(
        number in table for table in [choosing._types, *[each.answers for each in choosing.readers.values()]]
    )


def test_numpy_takes_ours():
    for n in range(200):
        a, _ = random_array(numpy, (n, 12).__hash__())
        v = view(a, protocol="array_interface")
        for b in (
            numpy.asarray(v),
            numpy.asarray(v.memoryview()),
            numpy.array(v, copy=False) if VERSIONED else numpy.asarray(v),
        ):
            assert (
                b.shape == a.shape
                and b.dtype == a.dtype
                and numpy.array_equal(a, b)
                and (numpy.shares_memory(a, b) or not a.size)
            )
            assert b.flags.writeable == a.flags.writeable or not a.size
        if any(stride < 0 for k, stride in zip(a.shape, a.strides) if k > 1) and a.size:
            with pytest.raises(BufferError):
                numpy.from_dlpack(v)
        elif VERSIONED or a.flags.writeable:
            b = numpy.from_dlpack(v)
            assert (
                b.shape == a.shape
                and b.dtype == a.dtype
                and numpy.array_equal(a, b)
                and (numpy.shares_memory(a, b) or not a.size)
            )
            assert not VERSIONED or not a.size or b.flags.writeable == a.flags.writeable


VECTORS = "float32x4", "complex64x2", "bfloat16x2", "uint8x16"
OTHERS = "datetime64[ms]", "timedelta64[ns]", "V3", "S2", "U2"


@pytest.mark.parametrize("name", [*dtypes._BY_NAME, *VECTORS, *OTHERS])
def test_numpy_reads_the_same_type_on_every_python(name):
    """NumPy asks for a buffer first, which views offer since Python 3.12, and its formats cannot say every type."""
    made = view(bytearray(192)).reinterpret(dtypes.of(name))

    try:
        expected = numpy.dtype(name)
    except TypeError:  # NumPy has none, not even with ml_dtypes
        expected = numpy.dtype(made.dtype.descr or f"V{made.itemsize}")
    read = numpy.asarray(made)
    assert (read.dtype, read.shape, read.ctypes.data) == (expected, made.shape, made.ptr)
    if read.dtype.kind == "V":  # its buffers have no such numbers
        with pytest.raises(BufferError, match=r"reads as another type; call view\.memoryview"):
            made.__buffer__(0x11C)  # PyBUF_FULL_RO
    assert bytes(made.__buffer__(0)) == made.tobytes() == bytes(192)  # without a format, it is bytes
    assert made.memoryview().nbytes == 192


FIELDS = [("a", "u1"), ("b", "<i4")], [("a", "M8[s]"), ("b", "f4")], [("a", "f4"), ("b", "i4", (2,))], [("a", "V3")]


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("align", [False, True])
def test_numpy_reads_the_same_structure_on_every_python(fields, align):
    given = numpy.zeros(3, numpy.dtype(fields, align=align))
    made = view(given)

    assert numpy.asarray(made).dtype == given.dtype
    assert hasattr(made, "__array_interface__") == (not align or fields in (FIELDS[2], FIELDS[3]))  # no padding
    assert numpy.asarray(made)["a"].dtype == given["a"].dtype


def structure(choose, depth=0):
    """Return a random structure type of NumPy: nested, aligned or packed, with sub-arrays, gaps, and any names."""
    names = choose.sample(["f0", "f1", "f2", "f3", "a", "b", "x y"], choose.randint(1, 4))
    simple = ["u1", "<i2", "<f4", "<f8", "?", "<c8", "S3", "V3", "<U2"] + ["M8[s]"] * (choose.random() < 0.2)
    kinds = [
        structure(choose, depth + 1) if depth < 2 and choose.random() < 0.3 else numpy.dtype(choose.choice(simple))
        for _ in names
    ]
    if choose.random() < 0.2:
        kinds[-1] = numpy.dtype((kinds[-1], choose.choice([(2,), (3, 1)])))
    how = choose.random()
    if how < 0.2:  # the gaps that a user asks for
        offsets, at = [], 0
        for kind in kinds:
            offsets.append(at + choose.choice([0, 1, 8]))
            at = offsets[-1] + kind.itemsize
        wanted = {"names": names, "formats": kinds, "offsets": offsets, "itemsize": at + choose.choice([0, 4, 5])}
        return numpy.dtype(wanted)
    return numpy.dtype(list(zip(names, kinds)), align=how < 0.7)


@pytest.mark.parametrize("kind", ["S0", "U0", "V0"])
def test_a_field_without_bytes(kind):
    names, formats = ["a", "e"], ["i4", kind]
    given = numpy.zeros(3, {"names": names, "formats": formats, "offsets": [0, 4], "itemsize": 8})
    made = view(given)
    assert numpy.asarray(made).dtype.fields["a"][1] == 0 and numpy.asarray(made)["a"].tolist() == [0, 0, 0]
    assert made.dtype.dtype.names == ("a", "e")


def same_fields(read, given):
    """Check that fields lie where NumPy has them; a field that it has not is padding."""
    if given.subdtype:
        assert read.subdtype and read.shape == given.shape
        return same_fields(read.base, given.base)
    if not given.names:
        assert read == given
        return None
    assert [name for name in read.names if name in given.names] == list(given.names)
    for name in given.names:
        assert read.fields[name][1] == given.fields[name][1]
        same_fields(read.fields[name][0], given.fields[name][0])
    return None


@pytest.mark.parametrize("seed", range(60))
def test_numpy_finds_each_field_where_it_was(seed):
    """Whatever was viewed before: NumPy's buffer formats do not always tell where a field is, its descr does."""
    choose = random.Random(seed)
    for dtype in [structure(choose) for _ in range(8)]:
        given = numpy.zeros(2, dtype)
        before = view(given)
        assert view(given).dtype == before.dtype == view(given[::-1]).dtype
        same_fields(numpy.asarray(before).dtype, dtype)
        assert numpy.asarray(before).itemsize == dtype.itemsize
        choosing.forget()
        assert view(given).dtype == before.dtype  # (an equal one: a full table of dtypes is emptied)
        copied = before.copy()
        same_fields(numpy.asarray(copied).dtype, dtype)


@pytest.mark.skipif(not VERSIONED, reason="from_dlpack has no copy and device before NumPy 2.1")
def test_numpy_asks_for_copies_and_devices():
    a = numpy.arange(6.0)
    v = view(a)
    assert not numpy.shares_memory(numpy.from_dlpack(v, copy=True), a) and numpy.shares_memory(
        numpy.from_dlpack(v, copy=False), a
    )
    assert numpy.shares_memory(numpy.from_dlpack(v, device="cpu"), a)
    assert numpy.from_dlpack(v, copy=True).flags.writeable
    readonly = view(a, writable=False)
    assert numpy.from_dlpack(readonly, copy=True).flags.writeable and not numpy.from_dlpack(readonly).flags.writeable


# -- the cost of the cache


def test_100_000_exchanges_of_each_kind_leave_nothing():
    a = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
    v = view(a)
    rounds = 100_000 if sys.version_info >= (3, 13) else 10_000  # only the newest Python measures the time
    for exchange in (
        lambda: view(a),
        lambda: view(a, protocol="dlpack"),
        lambda: view(a, protocol="array_interface"),
        lambda: view(a, protocol="buffer"),
        lambda: view(v.__dlpack__(max_version=(1, 0))),
        lambda: v.__dlpack__(),
        lambda: numpy.from_dlpack(v),
        lambda: v.__array_interface__,
        lambda: v.memoryview(),
    ):
        for _ in range(50):
            exchange()
        gc.collect()
        before = (
            sys.getrefcount(a),
            sys.getrefcount(v),
            sys.getrefcount(v.dtype),
            sys.getrefcount(v._place),
            len(dlpack.outstanding),
            allocated(),
        )
        for _ in range(rounds):
            exchange()
        gc.collect()
        after = (
            sys.getrefcount(a),
            sys.getrefcount(v),
            sys.getrefcount(v.dtype),
            sys.getrefcount(v._place),
            len(dlpack.outstanding),
            allocated(),
        )
        assert after[:5] == before[:5] and after[5] - before[5] < 100, (before, after)


def allocated():
    return sys.getallocatedblocks()


def test_a_kept_view_is_small_and_a_million_are_flat():
    import tracemalloc

    a = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
    view(a), view(a)
    capsules, kept = [None] * 20_000, [None] * 20_000
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        for i in range(len(capsules)):
            capsules[i] = a.__dlpack__(max_version=(1, 0)) if VERSIONED else a.__dlpack__()
        theirs = tracemalloc.get_traced_memory()[0] - start
        start += theirs
        for i in range(len(kept)):
            kept[i] = view(a)
        ours = tracemalloc.get_traced_memory()[0] - start - theirs
    finally:
        tracemalloc.stop()
    assert ours / len(kept) <= 200, ours / len(kept)
    assert (
        kept[0].shape is kept[1].shape and kept[0].strides is kept[1].strides or not VERSIONED
    )  # equal values are stored once


def has_own_reader(pytestconfig):
    """Tell whether this NumPy lays out its capsules as the reader expects; some versions leave out the strides."""
    return bool(VERSIONED and not pytestconfig.getoption("plain") and protocol._numpy_readers(numpy.ndarray.__dlpack__))


@pytest.mark.skipif(not VERSIONED, reason="an older NumPy is read by the general reader")
@pytest.mark.parametrize("field, value", [("SIZE", 88), ("read_versioned", lambda *_: (1, 0, 0, b"", 0, 0, 8))])
def test_a_numpy_that_lays_out_its_capsules_in_another_way(monkeypatch, pytestconfig, field, value):
    """The self-check finds it, and then nothing is read from the places where this NumPy has it."""
    choosing.forget()
    protocol._numpy_layouts.clear()
    with monkeypatch.context() as patch:
        patch.setattr(protocol, field, value)
        for a in (numpy.zeros((2, 3))[:, ::2], numpy.zeros(()), numpy.zeros((0, 3)), numpy.zeros(3, "M8[s]")):
            for _ in range(2):
                same(view(a), a)
        assert not protocol._numpy_layouts
    choosing.forget()
    same(view(a), a)
    same(view(a.view("i8")), a.view("i8"))
    assert bool(protocol._numpy_layouts) == has_own_reader(pytestconfig)


@frees_classes
def test_a_type_of_a_module_is_not_kept_alive():
    """The tables are by the id of a type, also for a class that stands in its module."""
    import types
    import weakref

    made = types.ModuleType("a_module_of_this_test")
    sys.modules[made.__name__] = made
    try:
        for name, base in (("Array", numpy.ndarray), ("Bytes", bytearray)):
            setattr(made, name, type(name, (base,), {"__module__": made.__name__}))
        view(numpy.zeros(3).view(made.Array)), view(made.Bytes(4))
    finally:
        del sys.modules[made.__name__]
    gone = weakref.ref(made.Array), weakref.ref(made.Bytes)
    del made, base
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_dates_are_read_again_by_the_protocol_that_had_them():
    """What DLPack and the buffer protocol refuse is not asked of them again, for any class of dtypes."""
    for what in ("M8[s]", "m8[ms]", "M8[s]", "S3", "f4", "M8[D]"):
        a = numpy.zeros(3, what)
        for _ in range(2):
            assert view(a).ptr == a.__array_interface__["data"][0] and str(view(a).dtype).strip("|") == str(
                a.dtype
            ).strip("|")
    a = numpy.zeros(3, "M8[s]")
    a.flags.writeable = False
    assert view(a).readonly


def test_tables_do_not_grow_without_end(monkeypatch, pytestconfig):
    monkeypatch.setattr(tensors, "MOST_LAYOUTS", 1000)
    monkeypatch.setattr(protocol._numpy_layouts, "most", 1000)
    tensors.BY_CAPSULE.clear(), protocol._numpy_layouts.clear()
    most = 0
    for n in range(3000):
        v = view(numpy.zeros((n % 1500 + 1, 2), "u1"))
        assert v.shape[0] == n % 1500 + 1
        most = max(most, len(protocol._numpy_layouts))
    assert 1000 * has_own_reader(pytestconfig) <= most <= 1000
    for kinds in (tensors.BY_CAPSULE, tensors.BY_TABLE):
        assert len(kinds) <= 100 and all([len(kind[2]) <= tensors.MOST_LAYOUTS for kind in kinds.answers.values()])


def test_the_window_on_memory_is_read_only_and_has_a_fallback(monkeypatch):
    assert cpython.window is None or cpython.window.readonly
    data = ctypes.c_uint64(0x1122334455667788)
    address = ctypes.addressof(data)
    fast = cpython.reader("Q")(address)
    monkeypatch.setattr(cpython, "window", None)
    assert cpython.reader("Q")(address) == fast == (data.value,) and cpython.reader("4xI")(address) == (0x11223344,)


@frees_classes
def test_what_is_learnt_of_types_without_end_is_bounded():
    """The cache keeps no type alive, nor an object to which a type refers."""
    import weakref

    kept, gone = [], []
    for n in range(1200):
        kind = type(f"Array{n}", (numpy.ndarray,), {})
        assert view(numpy.zeros(n % 7).view(kind)).shape == (n % 7,)
        kept.append(kind)
    assert all(len(table) <= choosing._MOST for table in (choosing._types, *choosing.readers.values()))
    for base in (numpy.ndarray, bytearray):
        kind = type("Array", (base,), {})
        view(numpy.zeros(3).view(kind) if base is numpy.ndarray else kind(3))
        assert id(kind) in choosing.readers[None].answers
        gone.append(weakref.ref(kind))
    number = id(kind)
    del kind, kept
    gc.collect()
    assert [one() for one in gone] == [None, None] and number not in choosing.readers[None].answers


@pytest.mark.skipif(not VERSIONED, reason="the general reader reads an older NumPy")
def test_a_subclass_that_changes_is_read_anew():
    class Mine(numpy.ndarray):
        pass

    a = numpy.zeros(3).view(Mine)
    assert view(a).shape == (3,)
    other = numpy.zeros(5)
    a.__dlpack__ = other.__dlpack__
    assert view(a).shape == (5,)
    b = numpy.zeros(3).view(Mine)
    Mine.__dlpack_device__ = lambda self: (3, 0)  # as torch does for pinned memory
    assert view(b, protocol="dlpack").device == ("cuda_host", 0)
    del Mine.__dlpack_device__
    Mine.__dlpack__ = None
    assert view(b).protocol == "array_interface"


def test_every_step_is_traced():
    a = numpy.arange(6.0)
    seen = []
    with rawcuda.trace(seen.append):
        v = view(a)
        b = numpy.from_dlpack(v)
        w = view(v.__dlpack__(max_version=(1, 0)))
        view(a, protocol="buffer"), view(a, protocol="array_interface"), v.__array_interface__
        del b, w
        gc.collect()
    steps = [(step.protocol, step.what.split("(")[0]) for step in seen]
    for expected in (
        ("dlpack", "ndarray.__dlpack__"),
        ("dlpack", "export"),
        ("dlpack", "consume"),
        ("dlpack", "deleter"),
        ("buffer", "memoryview"),
        ("array_interface", "ndarray.__array_interface__"),
        ("array_interface", "export"),
    ):
        assert expected in steps, (expected, steps)


def test_a_program_that_calls_what_numpy_calls(python):
    """NumPy may not be imported yet."""
    python(
        """
        import sys
        from tests.subject import rawcuda
        view = rawcuda.view(bytearray(b"ab"))
        assert "numpy" not in sys.modules
        for read in (view.__array__, lambda: view.dtype.dtype):
            try:
                read()
            except (ImportError, AttributeError) as error:
                assert "import numpy first" in str(error)
            else:
                raise AssertionError(read)
        import numpy
        assert view.__array__().tolist() == [97, 98] and view.dtype.dtype == "uint8"
        """,
        check=True,
    )


# -- what a dtype knows and a buffer or a dict does not say


def _dtypes():
    """Return dtypes of every kind that NumPy alone has, and those of ml_dtypes if it is installed."""
    inner = numpy.dtype([("x", "i1"), ("y", "f8")], align=True)
    overlapping = {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}
    reordered = {"names": ["a", "b"], "formats": ["i4", "f4"], "offsets": [8, 0], "itemsize": 16}
    found = [
        "M8[ns]", "M8[25us]", "m8[D]", "M8", "S3", "U2", "V5", "?", "e", "c16", "g", "G",
        [("a", "i4"), ("b", "f8")], inner, [("n", inner, (2, 3)), ("z", "i1")], overlapping, reordered,
        [(("Title", "a"), "i4"), ("b", "f4")], numpy.dtype([(("Title", "a"), "i1"), ("b", "f4")], align=True),
        [("a", ">i4"), ("b", "i4")], [("d", "M8[s]"), ("b", ">f8")], [("s", "S3"), ("u", "U2"), ("v", "V3")],
        (numpy.record, [("a", "i4"), ("b", "i2")]), [("a:b", "i4"), ("\N{LATIN SMALL LETTER E WITH ACUTE}", "f4")],
        [("g", "g"), ("h", "f2"), ("c", "c8"), ("q", "?")], [("none", "i4", (0,)), ("b", "i2")],
    ]  # fmt: skip
    try:
        import ml_dtypes
    except ImportError:
        return found
    small = [row[0] for row in dtypes._TABLE if row[3] is None and hasattr(ml_dtypes, row[0])]
    return [
        *found,
        *small,
        [("a", ml_dtypes.bfloat16), ("b", "i2")],
        [("n", [("x", ml_dtypes.float8_e5m2)]), ("i", "i4")],
    ]


def same_values(read, wanted):
    """Compare the elements as text, which shows NaN too; whether a dtype was made with align=True is no part of it."""
    return repr(read.tolist()).replace(", 'aligned': True", "") == repr(wanted.tolist()).replace(
        ", 'aligned': True", ""
    )


@pytest.mark.parametrize("kind", _dtypes(), ids=lambda kind: str(numpy.dtype(kind))[:40])
def test_the_dtype_of_an_array_comes_back(kind):
    dtype = numpy.dtype(kind)
    base = numpy.zeros((2, 3), dtype)
    for a in base, base.T, base[::-1, ::2], base[0, 0, ...], base[:0], base.view(type("Sub", (numpy.ndarray,), {})):
        for _ in range(2):
            v = view(a)
            assert v.dtype == dtype and dtypes.of(dtype) is v.dtype and numpy.dtype(v.dtype) == dtype
            assert v.shape == a.shape and (v.strides == a.strides or not a.size) and not v.readonly
            for made in v, v.download(), view(v.memoryview()):
                read = numpy.asarray(made)
                assert read.dtype == dtype and read.shape == a.shape and same_values(read, a)
            assert not a.size or numpy.asarray(v).ctypes.data == a.ctypes.data
            assert numpy.array(v, dtype=object).dtype == object
        for name in v.dtype.names or ():
            assert numpy.asarray(v[name]).dtype == a[name].dtype and v[name].shape == a[name].shape
            assert not a.size or v[name].ptr == a[name].ctypes.data
    swapped = "other byte order" in v.dtype.reason
    assert (v.dtype.names is None) == (dtype.names is None or swapped)
    if swapped:
        with pytest.raises(IndexError, match="other byte order"):
            v[dtype.names[0]]


@pytest.mark.parametrize("kind", _dtypes(), ids=lambda kind: str(numpy.dtype(kind))[:40])
def test_the_dtype_of_a_scalar_comes_back(kind):
    base = numpy.zeros(1, kind)
    if base.dtype.kind in "SU":
        base[:] = "ab"  # (a text of no length has a dtype of no bytes)
    scalar = base[0]
    wanted = numpy.asarray(scalar)
    for protocol in None, "array_interface":
        v = view(scalar, protocol=protocol)
        assert v.shape == () and v.dtype == wanted.dtype and v.readonly
        gc.collect()
        read = numpy.asarray(v)
        assert read.dtype == wanted.dtype and same_values(read, wanted)


def test_values_of_scalars():
    assert view(numpy.bytes_(b"abc")).tobytes() == b"abc" and view(numpy.str_("ab")).dtype == "<U2"
    assert numpy.asarray(view(numpy.datetime64("2020-01-02"))) == numpy.datetime64("2020-01-02")
    assert numpy.asarray(view(numpy.timedelta64(5, "ms"))).dtype == "m8[ms]"
    record = numpy.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])[0]
    assert view(record)["b"].item() == 2.5 and view(record).dtype.names == ("a", "b")
    assert view(numpy.bytes_(b"")).shape == () and numpy.asarray(view(numpy.str_(""))) == ""


@pytest.mark.parametrize("kind, why", [(">f4", "other byte order"), ("O", "Python objects"), ([("a", "O")], "objects")])
def test_dtypes_that_are_refused(kind, why):
    with pytest.raises(ProtocolError, match=why):
        view(numpy.zeros(2, kind))


@pytest.mark.skipif(not hasattr(getattr(numpy, "dtypes", None), "StringDType"), reason="new in NumPy 2.0")
def test_strings_of_any_length_are_refused():
    with pytest.raises(ProtocolError, match=r"array_interface: dtype 'StringDType\(\)': has its texts elsewhere"):
        view(numpy.array(["a", "bc"], numpy.dtypes.StringDType()))


def test_a_dtype_whose_fields_get_other_names_is_read_again():
    dtype = numpy.dtype([("a", "i4"), ("in", [("b", "i4")])])
    a = numpy.zeros(2, dtype)
    assert view(a).dtype.names == ("a", "in") and view(a)["in"].dtype.names == ("b",)
    a.dtype["in"].names = ("c",)
    assert view(a)["in"].dtype.names == ("c",)
    plain = numpy.zeros(2, [("a", "i4"), ("b", "i4")])
    assert view(plain).dtype.names == ("a", "b")
    plain.dtype.names = ("b", "a")
    assert view(plain).dtype.names == ("b", "a") and view(plain)["a"].ptr == plain.ctypes.data + 4


def test_an_array_that_exports_other_memory_is_read_by_its_own_dict():
    class Other(numpy.ndarray):
        @property
        def __array_interface__(self):
            return numpy.arange(3, dtype="i2").__array_interface__

    v = view(numpy.zeros(2, "f8").view(Other), protocol="array_interface")
    assert v.dtype == "int16" and v.shape == (3,)


@pytest.mark.filterwarnings("ignore:.*dtype. attribute:DeprecationWarning")  # before NumPy 2.4, which asks otherwise
def test_numpy_asks_a_view_for_its_dtype():
    for name in "float32", "int8", "complex64", "M8[s]", "S3", "float16":
        v = view(numpy.zeros(4, name))
        assert numpy.result_type(v) == numpy.dtype(v) == numpy.dtype(v.dtype) == v.__numpy_dtype__ == numpy.dtype(name)
        assert v.dtype.__numpy_dtype__ == numpy.dtype(name) and numpy.zeros(2, v.dtype).dtype == numpy.dtype(name)
    assert numpy.result_type(view(numpy.zeros(2, "f4")), numpy.zeros(2, "f8")) == numpy.dtype("f8")
    vector = view(bytearray(16)).reinterpret("float32x4")
    with pytest.raises(TypeError, match="no dtype for float32x4"):
        vector.__numpy_dtype__
