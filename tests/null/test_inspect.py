"""explain() and the command `inspect`: every field is shown, nothing is consumed, and broken exporters do no harm."""

from __future__ import annotations

import ctypes
import gc
import sys
import xml.etree.ElementTree as ElementTree
from array import array
from pathlib import Path

import numpy
import pytest

from tests.null.producers import Exporter, Shows, Tensor, capsule, name_of
from tests.subject import NAME, module, rawcuda

explain = rawcuda.explain
CAI = {
    "shape": (2, 3),
    "typestr": "<f4",
    "data": (0x7F0000000000, False),
    "version": 3,
    "strides": None,
    "stream": None,
}


def test_the_heading_is_the_public_name_of_our_types():
    for made in (rawcuda.view(bytearray(8)), rawcuda.view(bytearray(8))[::2]):
        assert explain(made).title == str(explain(made)).splitlines()[0] == f"{NAME}.StridedView"
    assert explain(made.dtype).title == f"{NAME}.elements.dtypes.DType"  # it has no public name


def sections(obj):
    """Explain an object: {heading: its lines as one text}."""
    return {heading: "\n".join(lines) for heading, lines in explain(obj).sections}


def quirks(obj):
    return sections(obj).get("Known quirks that show here", "").replace("\n  ", " ")


needs_versions = pytest.mark.skipif(
    numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0",
    reason="the DLPack of this NumPy has no versions; other Pythons run this test with a newer NumPy",
)


# -- the text


@needs_versions
def test_an_array_is_explained_by_every_protocol():
    a = numpy.arange(12, dtype="f4").reshape(3, 4).T
    said = sections(a)
    assert (
        "__dlpack__                  yes\n" in said["What it offers"]
        and "__cuda_array_interface__    -\n" in said["What it offers"]
    )
    dlpack = said["__dlpack__"]
    assert "__dlpack_device__() -> (1, 0)   kDLCPU" in dlpack and f" data                  {a.ctypes.data:#x}" in dlpack
    assert "shape at 0x" in dlpack and "(4, 3) elements" in dlpack and "(1, 4) elements, not bytes" in dlpack
    described = f"= float32 (4, 3), byte strides (4, 16), on cpu 0, at {a.ctypes.data:#x}, writable"
    assert all(
        said[heading].endswith(described) for heading in ("__dlpack__", "__array_interface__", "the buffer protocol")
    )
    assert (
        said["The layout"]
        == "Fortran order (the first index runs fastest), without gaps\nthe first element: 00 00 00 00 = 0.0"
    )
    assert said["Where they disagree"] == "- none: all describe the same memory in the same way"
    assert "<StridedView float32 (4, 3) strides (4, 16) on cpu, by dlpack: [[" in said["What view() makes of it"]


def test_a_struct_is_told_field_by_field_beside_its_bytes():
    """The text is compared with the bytes: each of the 80 bytes is shown once, in order."""
    tensor = Tensor(shape=(2, 3), strides=(3, 1), flags=1, byte_offset=8)
    made = tensor.capsule()
    lines = sections(made)["__dlpack__"].splitlines()
    rows = [line for line in lines if line[:6].strip().isdigit()]
    assert bytes.fromhex("".join(line[8:35] for line in rows)) == bytes(tensor.struct)
    fields = {line[36:].split()[0]: line[36:].split(maxsplit=2)[1:] for line in rows}
    assert (
        fields["version.minor"][0] == "3"
        and fields["flags"] == ["1", "READ_ONLY"]
        and fields["byte_offset"] == ["8", "added to data"]
    )
    assert (
        fields["dtype.code"] == ["2", "kDLFloat"]
        and fields["data"][0] == hex(ctypes.addressof(tensor.values))
        and fields["ndim"] == ["2"]
    )
    offsets = [int(line[:6]) for line in rows]
    assert offsets == [0, 4, 8, 16, 24, 32, 40, 44, 48, 52, 53, 54, 56, 64, 72]
    assert "Warp ignores it" in str(explain(made))


def test_the_legacy_struct_too():
    tensor = Tensor(version=None)
    made = tensor.capsule()
    said = sections(made)["__dlpack__"]
    rows = [line for line in said.splitlines() if line[:6].strip().isdigit()]
    assert bytes.fromhex("".join(line[8:35] for line in rows)) == bytes(tensor.struct) and "DLManagedTensor at" in said


def test_what_is_asked_is_told():
    said = sections(Exporter(Tensor(version=None), knows=("stream",)))["__dlpack__"]
    assert (
        "__dlpack__(max_version=(1, 3)) raises TypeError" in said
        and "__dlpack__() -> a capsule named b'dltensor'" in said
    )
    exporter = Exporter(Tensor(device=(2, 0)))
    assert "stream=-1" in sections(exporter)["__dlpack__"] and all(asked["stream"] == -1 for asked in exporter.asked)
    exporter = Exporter(Tensor())
    explain(exporter)
    assert exporter.asked[:2] == [
        {"max_version": (1, 3)},
        {},
    ]  # a plain call, and one as older consumers make it; then view() calls


def test_a_legacy_capsule_contradicts_nobody():
    memory = bytearray(8)
    view = rawcuda.view(memory)

    class Old:
        __array_interface__ = view.__array_interface__

        def __dlpack__(self, stream=None):
            return view.__dlpack__()

    said = sections(Old())
    assert said["__dlpack__"].endswith("read-only, because a legacy capsule does not tell")
    assert said["Where they disagree"].startswith("- none") and ", read-only" not in said["What view() makes of it"]


def test_what_no_protocol_describes():
    said = sections(3)
    assert (
        set(said) == {"What it offers", "What view() makes of it"}
        and "it raises TypeError: int is not an exporter" in said["What view() makes of it"]
    )
    assert (
        explain(3).made is None
        and explain(3)._repr_svg_() is None
        and explain(3)._repr_html_().partition(">")[2].startswith("int   3\n")
    )
    assert "yes" not in sections(numpy.ndarray)["What it offers"]  # a class has the methods, but no memory


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: b"hello", "uint8 (5,), byte strides (1,), on cpu 0, at 0x"),
        (lambda: array("d", [1, 2]), "float64 (2,)"),
        (lambda: (ctypes.c_int * 4)(), "int32 (4,)"),
        (lambda: memoryview(b"abcd")[::2], "= uint8 (2,), byte strides (2,)"),
        (lambda: numpy.float64(2.5), "float64 ()"),
        (lambda: rawcuda.view(bytearray(8)), "uint8 (8,)"),
    ],
)
def test_other_exporters(make, words):
    assert words in str(explain(make()))


def test_a_class_with_a_foreign_repr_is_not_asked_for_it():
    class Remote:
        def __repr__(self):
            raise AssertionError("this would fetch it from the device")

    assert "Remote" in str(explain(Remote()))


def test_memory_of_a_device_is_explained_without_a_driver(python):
    result = python(
        """
        from tests.subject import NAME, module, rawcuda
        from tests.null.producers import Exporter, Shows, Tensor
        host = str(rawcuda.explain(bytearray(5)))
        said = {"shape": (2,), "typestr": "<f4", "data": (0x7F0000000000, True), "version": 2}
        device = str(rawcuda.explain(Shows(cuda=said)))
        assert "on a device that only the driver knows, at 0x7f0000000000, read-only" in device
        assert "(missing)" in device
        assert "the driver" in str(rawcuda.explain(Exporter(Tensor(device=(2, 0)))))
        assert not module("driver").is_loaded()
    """,
        env={"RAWCUDA_DRIVER": "/nowhere/libcuda.so"},
    )
    assert result.returncode == 0, result.stderr


def test_protocols_that_disagree():
    class Two:
        x, y = numpy.zeros(4, "f4"), numpy.zeros((2, 2), "f8")
        __array_interface__ = y.__array_interface__

        def __dlpack__(self, **keywords):
            return self.x.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return 1, 0

    said = sections(Two())["Where they disagree"]
    assert f"address: dlpack says {Two.x.ctypes.data:#x}, array_interface says {Two.y.ctypes.data:#x}" in said
    assert (
        "shape: dlpack says (4,), array_interface says (2, 2)" in said
        and "dtype: dlpack says float32, array_interface says float64" in said
    )


# -- nothing is consumed


def test_a_capsule_stays_as_it_is():
    tensor = Tensor()
    made = tensor.capsule()
    before = sys.getrefcount(made)
    for _ in range(3):
        assert "the tensor was not consumed" in str(explain(made))
    assert name_of(made) == b"dltensor_versioned" and sys.getrefcount(made) == before and tensor.freed == 0
    rawcuda.view(made)
    assert "was consumed" in str(explain(made)) and "it raises ProtocolError" in str(explain(made))
    del made
    assert tensor.freed == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.zeros((3, 4)),
        lambda: bytearray(9),
        lambda: array("i", [1]),
        lambda: rawcuda.view(bytearray(3)),
        lambda: Shows(cuda=dict(CAI)),
        lambda: Exporter(Tensor(version=None), knows=()),
        lambda: Exporter(Tensor(shape=16, ndim=2)),
    ],
)
def test_refcounts_stay_flat(make):
    obj = make()
    kept = [explain(obj) for _ in range(3)]  # the caches of dtypes and layouts are filled
    before = sys.getrefcount(obj)
    kept += [explain(obj) for _ in range(20)]
    assert sys.getrefcount(obj) == before and len(kept) == 23
    if isinstance(obj, bytearray):
        obj.append(1)  # no buffer is held
    if isinstance(obj, Exporter):
        gc.collect()
        assert obj.tensor.freed >= 20  # every capsule was dropped


def test_nothing_grows():
    outstanding = module("dlpack").outstanding
    view, before = rawcuda.view(bytearray(3)), len(outstanding)
    for _ in range(50):
        explain(view)
    gc.collect()
    assert len(outstanding) == before


# -- broken exporters


class Raises:
    """An object that raises from every attribute of a protocol."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} today")


class Lies:
    def __init__(self, device=(1, 0), answer=None, cai=None):
        self.device, self.answer = device, answer
        if cai is not None:
            self.__cuda_array_interface__ = cai

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("not even this")


@pytest.mark.parametrize(
    "make, words",
    [
        (Raises, "RuntimeError: no __"),
        (lambda: Lies(device="x"), "not a pair of ints"),
        (lambda: Lies(device=(1,)), "not a pair of ints"),
        (lambda: Lies(answer=5), "not a PyCapsule; the exporter is at fault"),
        (lambda: Lies(answer=Unprintable()), "Unprintable: (its text raises, too)"),
        (lambda: Lies(answer=RuntimeError("x" * 10_000)), "RuntimeError: xxx"),
        (lambda: capsule(0x1000, b"something_else"), "is not a name of DLPack"),
        (lambda: capsule(0x1000, b"used_dltensor"), "was consumed already"),
        (lambda: capsule(0x1000, None), "is not a name of DLPack"),
        (lambda: Lies(cai=5), "must be a dict"),
        (lambda: Lies(cai={}), "(missing)"),
        (lambda: Lies(cai={1: 2, "shape": "no"}), "must be a tuple of ints"),
        (lambda: Shows(cuda={**CAI, "stream": 0}), "stream 0: is disallowed"),
        (lambda: Shows(cuda={**CAI, "data": 5}), "must be (address, read-only)"),
        (lambda: Shows(cuda={**CAI, "shape": (2**62, 4)}), "larger than 2**63"),
        (lambda: Shows(host=RuntimeError("gone")), "RuntimeError: gone"),
        (lambda: Exporter(Tensor(version=(2, 0))), "another layout"),
        (lambda: Exporter(Tensor(ndim=-1)), "ndim -1"),
        (lambda: Exporter(Tensor(ndim=1000)), "ndim 1000"),
        (lambda: Exporter(Tensor(dtype=(99, 7, 1))), "unknown to DLPack 1.3"),
        (lambda: Exporter(Tensor(device=(99, 1))), "unknown to DLPack 1.3"),
        (lambda: type("Stream", (), {"__cuda_stream__": lambda self: "no"})(), "must return (version, handle)"),
    ],
)
def test_a_broken_exporter_gets_clear_text(make, words):
    obj = make()
    said = str(explain(obj))
    assert words in said.replace("\n  ", " ") and "Traceback" not in said and len(said) < 20_000
    assert max(map(len, said.splitlines())) < 450


def test_only_a_stream_that_can_be_read_is_called_one():
    for pair, words in (
        ((0, 5), "accepts this object as stream="),
        ((1, 5), "is unknown, only 0 is known"),
        ("no", "must return (version, handle)"),
    ):
        said = str(explain(type("Stream", (), {"__cuda_stream__": lambda self, pair=pair: pair})()))
        assert words in said and ("as stream=" in said) == (pair == (0, 5))


def test_pointers_that_lead_nowhere_are_not_followed(python):
    """Each pointer is tried in turn; a read through any of them would end the process."""
    result = python("""
        from tests.subject import rawcuda
        from tests.null.producers import Exporter, Shows, Tensor, capsule
        for bad in (16, 0x10000, 2**47 - 4096, 2**62, 2**63 + 8):
            said = [str(rawcuda.explain(obj)) for obj in (
                capsule(bad, b"dltensor"), capsule(bad, b"dltensor_versioned"),
                Exporter(Tensor(shape=bad, ndim=2)), Exporter(Tensor(strides=bad)),
                Exporter(Tensor(shape=bad, ndim=2, version=None)))]
            for text in said:
                assert "where no memory can be read: the exporter is at fault" in " ".join(text.split()), text
            assert all("it would read through the bad pointer" in text for text in said[2:])
            said = {"shape": (2,), "typestr": "<f4", "data": (bad, False), "version": 3}
            for obj in (Exporter(Tensor(data=bad)), Shows(host=said)):
                text = str(rawcuda.explain(obj))
                assert f"NO MEMORY CAN BE READ at {bad:#x}" in text, text

        class Table:
            __dlpack_c_exchange_api__ = 4096
        assert "where no memory can be read" in " ".join(str(rawcuda.explain(Table())).split())
        print("alive")
    """)
    assert result.returncode == 0 and result.stdout == "alive\n", result.stderr


def test_peek():
    peek = module("interpreter.peeking").peek
    data = ctypes.create_string_buffer(b"0123456789", 5000)
    assert peek(ctypes.addressof(data), 10) == b"0123456789" and len(peek(ctypes.addressof(data), 4096)) == 4096
    for address, count in (
        (0, 8),
        (1, 8),
        (-5, 8),
        (2**64, 8),
        (ctypes.addressof(data), 0),
        (ctypes.addressof(data), 4097),
        (2**47 - 4, 8),
    ):
        assert peek(address, count) is None


# -- quirks


def like(module_name, **attributes):
    """Make an object whose class claims to be of a library."""
    return type("Tensor", (Exporter,), {"__module__": module_name, **attributes})


class Launders(Exporter):
    """An exporter of a read-only tensor, whose legacy capsule loses the flag."""

    def __init__(self):
        super().__init__(Tensor(flags=1, strides=(3, 1)))
        self.legacy = Tensor(version=None, strides=(3, 1))

    def __dlpack__(self, **keywords):
        return (self.tensor if keywords else self.legacy).capsule()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Exporter(Tensor(version=None), knows=("stream",)), "max_version is unknown to NumPy before 2.1"),
        (lambda: Exporter(Tensor(version=None)), "A legacy capsule, though max_version was given"),
        (lambda: Exporter(Tensor(version=None)), "A legacy capsule cannot mark memory as read-only"),
        (lambda: Exporter(Tensor(flags=1)), "READ_ONLY: PyTorch and CuPy ignore it"),
        (Launders, "The legacy capsule loses READ_ONLY"),
        (
            lambda: Exporter(Tensor(flags=1), raises={False: BufferError("it is read-only")}),
            "No legacy capsule, because",
        ),
        (lambda: Exporter(Tensor()), "which DLPack 1.2 forbids"),
        (lambda: Exporter(Tensor(byte_offset=8)), "byte_offset is not 0"),
        (lambda: Exporter(Tensor(shape=(0,), strides=(1,))), "No elements, but a pointer"),
        (lambda: Exporter(Tensor(shape=(1, 3), strides=(77, 1))), "An extent of 1 has an unusual stride"),
        (lambda: Exporter(Tensor(shape=(3,), strides=(-1,))), "ends the process in PyTorch"),
        (lambda: Exporter(Tensor(), says=(3, 0)), "contradicts the capsule"),
        (lambda: Exporter(Tensor(device=(13, 0))), "Pinned or managed memory"),
        (lambda: capsule(0x1000, b"used_dltensor"), "The capsule was consumed"),
        (lambda: numpy.zeros(2, "M8[s]"), "NumPy refuses arrays that DLPack cannot describe"),
        (lambda: like("torch", is_neg=lambda self: True)(Tensor()), "The negative bit"),
        (lambda: Shows(cuda={**CAI, "stream": 0}), "stream 0 is forbidden"),
        (lambda: Shows(cuda=CAI), "PyCUDA says so"),
        (lambda: Shows(cuda={**CAI, "version": 2}), "Versions before 3 do not name a stream"),
        (lambda: Shows(cuda={**CAI, "typestr": "<V2"}), "never as float16"),
        (lambda: (ctypes.c_int * 3)(), "strides is null although strides were requested"),
        (lambda: type("S", (), {"__cuda_stream__": lambda self: (0, 0)})(), "Handle 0 is the legacy default stream"),
        (lambda: numpy.zeros(3)[1:], "data is not aligned to 256 bytes"),
    ],
)
def test_a_quirk_shows(make, words):
    assert words in quirks(make())


def test_every_quirk_has_a_test():
    marks = [mark for mark in test_a_quirk_shows.pytestmark if mark.name == "parametrize"]
    tried = [words for _, words in marks[0].args[1]]
    untried = [
        text for _, text in module("tools.explaining.quirks")._QUIRKS if not any(words in text for words in tried)
    ]
    assert not untried


def test_a_plain_array_shows_none():
    memory = ctypes.create_string_buffer(512)
    aligned = -(-ctypes.addressof(memory) // 256) * 256
    assert quirks(Exporter(Tensor(data=aligned, strides=(3, 1)))) == ""


# -- the command


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = module("__main__").main(["inspect", *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


@pytest.mark.parametrize(
    "expression, words",
    [
        ("numpy.arange(6, dtype='f4').reshape(2, 3)", "= float32 (2, 3)"),
        (" b'abc' ", "= uint8 (3,)"),
        ("memoryview(b'abc')[1:]", "= uint8 (2,)"),
        ("xml.etree.ElementTree.tostring(xml.etree.ElementTree.Element('a'))", "= uint8 (5,)"),
        ("[ctypes.c_int(n) for n in range(3)][2]", "= int32 ()"),
        ("(lambda math: math)(b'12')", "= uint8 (2,)"),
        (f"{NAME.partition('.')[0]}", "What view() makes of it"),
        ("-1", "int   -1"),
        ("type('A', (bytearray,), {})(b'12')", "__main__.A"),
        ("type('A', (bytearray,), {'__module__': None})(b'12')", "None.A"),
    ],
)
def test_an_expression_is_explained(cli, expression, words):
    status, out, err = cli(expression)
    assert (status, err) == (0, "") and words in out and "\033" not in out


def test_a_npy_file_is_explained(cli):
    numpy.save("a.npy", numpy.asfortranarray(numpy.arange(6, dtype="i2").reshape(2, 3)))
    status, out, _ = cli("a.npy", "--svg", "a.svg")
    assert (
        status == 0 and "= int16 (2, 3), byte strides (2, 4)" in out and out.endswith("The layout is drawn in a.svg\n")
    )
    assert ElementTree.parse("a.svg").getroot().tag.endswith("svg")
    Path("a: b.npy").write_bytes(Path("a.npy").read_bytes()[:-1])
    assert "- nothing: the file is truncated" in cli("a: b.npy")[1]


@pytest.mark.parametrize(
    "words, status, finding",
    [
        (("nowhere.npy",), 1, "nowhere.npy"),
        (("3 +",), 2, "is not a Python expression"),
        (("x = 3",), 2, "is not a Python expression"),
        (("a\0b",), 2, "is not a Python expression"),
        (("(" * 5000,), 2, "is not a Python expression"),
        (("np.zeros(3)",), 2, "neither a built-in nor an installed module: write numpy"),
        (("nothing_of_this_name",), 2, "'nothing_of_this_name' in the expression is neither"),
        (("1 / 0",), 1, "the expression raised ZeroDivisionError: division by zero"),
        (("numpy.no_such_thing",), 1, "raised AttributeError"),
        (("3", "--svg", "x.svg"), 1, "there is no layout to draw"),
        ((), 2, "see python3 -m"),
        (("b'1'", "--svg", "nowhere/x.svg"), 1, "nowhere/x.svg"),
        (("b'1'", "b'2'"), 2, "unrecognized arguments"),
        (("b'1'", "--driver", "odd"), 2, "--driver 'odd'"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_one_line(cli, words, status, finding):
    got, out, err = cli(*words)
    assert got == status and finding in err and err.startswith("error: ") and err.count("\n") == 1
    assert not Path("x.svg").exists()


def test_a_module_that_fails_to_import(cli, tmp_path, monkeypatch):
    (tmp_path / "broken_one.py").write_text("1 / 0")
    (tmp_path / "needs_more.py").write_text("import nothing_of_this_name")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cli("broken_one.x")[::2] == (1, "error: importing broken_one raised ZeroDivisionError: division by zero\n")
    assert "importing needs_more raised ModuleNotFoundError" in cli("needs_more.x")[2]


def test_only_what_is_named_is_imported(python):
    result = python("""
        import sys
        from tests.subject import module
        before = set(sys.modules)
        status = module("__main__").main(["inspect", "array.array('i', [1])"])
        assert status == 0 and not {"numpy", "torch", "random", "json"} & set(sys.modules), set(sys.modules) - before
        assert not module("driver").is_loaded()
    """)
    assert result.returncode == 0 and "int32 (1,)" in result.stdout, result.stderr
