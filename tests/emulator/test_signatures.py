"""The emulator's C prototypes, structures, enums and codes, compared with real headers and with cuda_h.py."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import pytest

from tests.null import header_reader
from tests.subject import FOLDER, module

emulator, thunks, codes = (module(name) for name in ("emulator", "emulator.interface.thunks", "emulator.machine.codes"))
ENTRIES = emulator.Emulator()._entries
cuda_h, attributes = module("headers.cuda_h"), module("emulator.machine.answers")

with_headers = pytest.mark.parametrize(
    "path",
    header_reader.find_headers() or [pytest.param(None, marks=pytest.mark.skip(reason="no cuda.h on this machine"))],
    ids=str,
)


def test_there_are_enough():
    assert len(ENTRIES) >= 110


# Functions whose parameters have other names in newer headers: only their types are compared.
RENAMED = {"cuDevSmResourceSplitByCount"}
BESIDE = {"cuProfilerStart", "cuProfilerStop", "cuProfilerInitialize"}  # in cudaProfiler.h


def named(name, parameters):
    return [kind for kind, _ in parameters] if name in RENAMED else list(parameters)


@with_headers
def test_lines_are_the_header_s(path):
    header = header_reader.read(path)
    wrong = {}
    for name, served in ENTRIES.items():
        declared = header.prototypes.get(name)
        if declared is not None and named(name, thunks.parse(served.line)[1]) != named(name, declared):
            wrong[name] = served.line, declared
    assert not wrong


@with_headers
def test_every_entry_is_in_the_header(path):
    header = header_reader.read(path)
    if header.version != 13000:
        pytest.skip("the emulator reports CUDA 13.0")
    assert not set(ENTRIES) - set(header.prototypes) - BESIDE


@with_headers
def test_versions_are_the_header_s(path):
    since = header_reader.read(path).since
    wrong = {
        name: (served.since, since[name])
        for name, served in ENTRIES.items()
        if since.get(name, served.since) != served.since
    }
    assert not wrong


def test_lines_agree_with_the_clients_table():
    table = cuda_h.prototypes()
    wrong = {}
    for name, served in ENTRIES.items():
        if name in table:
            mine = thunks.parse(served.line)[1]
            theirs = thunks.parse(re.fullmatch(r"CUresult (.*);", table[name].line.strip(), re.S)[1])[1]
            if mine != theirs or len(mine) != len(table[name].parameters):
                wrong[name] = served.line, table[name].line
    assert not wrong


def test_every_entry_is_in_the_clients_table():
    assert not set(ENTRIES) - set(cuda_h.prototypes())


def test_widths_agree_with_the_clients_table():
    """Integers have the same width on both sides; with small values, a size_t read as an int would not be noticed."""
    import ctypes

    table = cuda_h.prototypes()
    wrong = {}
    for name, served in ENTRIES.items():
        if name in table:
            mine = [ctypes.sizeof(kind) for kind in served.prototype()._argtypes_]
            theirs = [
                ctypes.sizeof(kind) if hasattr(kind, "_type_") or hasattr(kind, "_fields_") else 8
                for _, kind in table[name].parameters
            ]
            if mine != theirs:
                wrong[name] = mine, theirs
    assert not wrong


# -- enums and codes


@with_headers
def test_codes_are_the_header_s(path):
    results = header_reader.read(path).enums["CUresult"]
    assert {code: name.decode() for code, name in codes.NAMES.items()}.items() <= {
        code: name for name, code in results.items()
    }.items()
    assert set(codes.TEXTS) == set(codes.NAMES)


def test_codes_agree_with_the_clients_table():
    assert {code: name.decode() for code, name in codes.NAMES.items()}.items() <= cuda_h.results().items()


@with_headers
def test_attributes_are_the_header_s(path):
    enum = header_reader.read(path).enums["CUdevice_attribute"]
    for number, name in attributes.ATTRIBUTE_NAMES.items():
        assert enum[f"CU_DEVICE_ATTRIBUTE_{name}"] == number
    if header_reader.read(path).version == 13000:
        assert max(attributes.Answers().attributes) == enum["CU_DEVICE_ATTRIBUTE_MAX"] - 1


# -- structures, as a C compiler lays them out

LAYOUTS = {
    "MEMCPY2D": (
        "CUDA_MEMCPY2D",
        "srcXInBytes srcY srcMemoryType srcHost srcDevice srcArray srcPitch "
        "dstXInBytes dstY dstMemoryType dstHost dstDevice dstArray dstPitch WidthInBytes Height",
    ),
    "MEMCPY3D": (
        "CUDA_MEMCPY3D",
        "srcXInBytes srcY srcZ srcLOD srcMemoryType srcHost srcDevice srcArray reserved0 srcPitch srcHeight "
        "dstXInBytes dstY dstZ dstLOD dstMemoryType dstHost dstDevice dstArray reserved1 dstPitch dstHeight "
        "WidthInBytes Height Depth",
    ),
    "LAUNCH_CONFIG": (
        "CUlaunchConfig",
        "gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes hStream attrs numAttrs",
    ),
    "LAUNCH_ATTRIBUTE": ("CUlaunchAttribute", "id value"),
    "POOL_PROPS": (
        "CUmemPoolProps",
        "allocType handleTypes location.type location.id win32SecurityAttributes maxSize usage",
    ),
    "LOCATION": ("CUmemLocation", "type id"),
    "ACCESS_DESC": ("CUmemAccessDesc", "location.type location.id flags"),
}
PEER = (
    "CUDA_MEMCPY3D_PEER",
    LAYOUTS["MEMCPY3D"][1].replace("reserved0", "srcContext").replace("reserved1", "dstContext"),
)


def _offsets(layout):
    """Return the offset of each value of a struct.Struct, and its size."""
    made = order = "<" if layout.format[0] == "<" else "@"
    offsets = []
    for count, kind in re.findall(r"(\d*)([a-zA-Z])", layout.format):
        if kind in "xs" or count == "0":
            made += count + kind
            if kind == "s":
                offsets.append(struct.calcsize(made) - int(count))
        else:
            for _ in range(int(count or 1)):
                made += kind
                offsets.append(struct.calcsize(made) - struct.calcsize(order + kind))
    return offsets + [layout.size]


def _of_compiler(path, tmp_path, types):
    lines = []
    for name, members in types:
        lines += [f"offsetof({name}, {member})" for member in members.split()] + [f"sizeof({name})"]
    source = tmp_path / "offsets.c"
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "cuda.h"\nint main(void) {\n'
        + "".join(f'printf("%zu\\n", {line});\n' for line in lines)
        + "return 0; }\n"
    )
    program = tmp_path / "offsets"
    subprocess.run([shutil.which("cc"), "-I", str(path.parent), str(source), "-o", str(program)], check=True)
    return [
        int(line) for line in subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    ]


@with_headers
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
def test_structures_are_as_a_compiler_lays_them_out(path, tmp_path):
    mine = [offset for name in LAYOUTS for offset in _offsets(getattr(thunks, name))] + _offsets(thunks.MEMCPY3D)
    assert mine == _of_compiler(path, tmp_path, [*LAYOUTS.values(), PEER])


def test_structures_agree_with_the_clients_table():
    import ctypes

    for name, (c_name, _) in LAYOUTS.items():
        assert getattr(thunks, name).size == ctypes.sizeof(getattr(cuda_h, c_name)), c_name


def test_every_entry_that_the_package_calls_is_served():
    """The functions are found in the source: each cu* name outside the emulator and cuda_h."""
    called = set()
    for path in FOLDER.rglob("*.py"):
        if not {"emulator", "headers"} & set(path.relative_to(FOLDER).parts):
            called |= set(re.findall(r"\bcu[A-Z]\w+", path.read_text(encoding="utf-8")))
    called.discard("cuLaunch")  # a prefix, in trace_effects.py
    known = {name for name in called if name in cuda_h.prototypes() and not cuda_h.prototypes()[name].old}
    assert len(known) > 60
    served = emulator.Emulator()
    assert not [name for name in known if not served.address(name)]
