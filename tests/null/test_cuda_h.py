"""cuda_h agrees with real headers, as read by header_reader.py and by the C compiler; and the readers of its text work.

Each comparison is a function that returns the differences that it finds. It must find none for cuda_h, and some for
each of the wrong tables below, so a comparison that does not work cannot pass.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile

import pytest

from tests.null import header_reader
from tests.null.header_reader import normal, parameters_of
from tests.shared import run_threads
from tests.subject import CHECKOUT, module

cuda_h, reader = module("headers.cuda_h"), module("headers.reader")
PARTS = ("functions", "functions_graphs", "functions_arrays", "functions_system")
PROTOTYPES = "".join(module(f"headers.{part}").PROTOTYPES for part in PARTS)
ENUMS, TYPES = module("headers.enumerations").ENUMS, module("headers.structures").TYPES

NEWEST = 13050  # the newest header that cuda_h was written from
HEADERS = header_reader.find_headers()
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

PARAMETERS_RENAMED = {"cuDevSmResourceSplitByCount": 13010}
OTHER_HEADERS = ("cuProfiler", "CU_OUT_", "CUoutput_mode")  # cudaProfiler.h
GROWING = re.compile(r".*_MAX$|CU_JIT_NUM_OPTIONS$|CU_CTX_FLAGS_MASK$|CU_COREDUMP_LIGHTWEIGHT_FLAGS$")  # in each header
RENAMED = re.compile(r"CU_DEVICE_ATTRIBUTE_CAN_USE_\w+_(OPS|NOR)(_V2)?$|CU_(STREAM|KERNEL_NODE)_ATTRIBUTE_\w+$")
RESERVED = re.compile(r"_?(pad|reserved|internal_padding|oversize)\w*$")  # what is left of them differs in each header


@pytest.fixture(
    params=HEADERS or [None], ids=lambda path: "none" if path is None else str(header_reader.read(path).version)
)
def header(request):
    """Every real cuda.h on this machine."""
    if request.param is None:
        pytest.skip("no cuda.h was found: pip install nvidia-cuda-runtime, or set CUDA_HOME or CUDA_HEADERS")
    return header_reader.read(request.param)


def number(version):
    """Return a version as in CUDA_VERSION: (12, 4) is 12040."""
    return version[0] * 1000 + version[1] * 10


def table(text):
    """Return Prototypes of C lines."""
    return {
        prototype.name: prototype
        for prototype in (cuda_h.Prototype(*line.split("   // "), cuda_h.HEADER) for line in text.splitlines())
    }


def lines():
    """Return every C line of cuda_h, for table()."""
    return "\n".join(
        f"{p.line}   // {p.since[0]}.{p.since[1]} {' '.join(p.marks)}  {p.doc}" for p in cuda_h.prototypes().values()
    )


def structures():
    """Return every structure and union of cuda_h."""
    found = {name: getattr(cuda_h, name) for name in cuda_h.HEADER.names()}
    return {name: kind for name, kind in found.items() if issubclass(kind, (ctypes.Structure, ctypes.Union))}


# -- comparisons


def prototype_differences(header, prototypes):
    """Compare each parameter's type, constness and name, and the version that introduced the symbol."""
    for name, prototype in prototypes.items():
        since, real = number(prototype.since), header.prototypes.get(name)
        if real is None:
            if since <= header.version <= NEWEST and not name.startswith(OTHER_HEADERS):
                yield f"{name}: not in this header"
            continue
        if since > header.version:
            yield f"{name}: in this header before {prototype.since}"
        written = parameters_of(prototype.line[prototype.line.index("(") + 1 : -2])
        if header.version < 12000:  # the name meant the structure that is called _v1 since
            real = tuple((kind.replace("KERNEL_NODE_PARAMS *", "KERNEL_NODE_PARAMS_v1 *"), name) for kind, name in real)
        if header.version < PARAMETERS_RENAMED.get(name, 0):
            written, real = ([kind for kind, _ in each] for each in (written, real))
        if written != real or not re.fullmatch(r"CUresult \w+\([^()]*\);", prototype.line):
            yield f"{name}: {written} is really {real}"
        named = header.since.get(name)
        if named is not None and named != number(prototype.abi):
            yield f"{name}: the ABI of {prototype.abi} is really of {named}"
        elif named is not None and named != since and since < 11080:  # older than all headers that are compared
            yield f"{name}: since {since} is really {named}"


def versions(text):
    """Return the first and the last version of the headers with each constant, for constants that are not in all."""
    first = re.findall(r"^(?:\s+|#define )(\w+) (?:= )?-?\d+,?   // (\d+)\.(\d+)(?:  |$)", text, re.M)
    last = re.findall(r"^    (\w+) = .*only up to CUDA (\d+)\.(\d+)$", text, re.M)
    return tuple({name: number((int(major), int(minor))) for name, major, minor in found} for found in (first, last))


def constant_differences(header, text, enums, defines):
    """Compare the values of enumerators and #defines, and find missing ones."""
    since, until = versions(text)
    for enum, members in {**enums, "#define": defines}.items():
        real = header.defines if enum == "#define" else header.enums.get(enum, {})
        for name, value in members.items():
            if since.get(name, 0) > header.version:
                if real.get(name) == value:
                    yield f"{name}: in this header before {since[name]}"
            elif name not in real:
                if header.version <= min(NEWEST, until.get(name, NEWEST)) and not name.startswith(OTHER_HEADERS):
                    yield f"{enum} {name}: not in this header"
            elif real[name] != value and not (GROWING.match(name) and real[name] < value):
                yield f"{enum} {name}: {value} is really {real[name]}"
            elif until.get(name, header.version) < header.version:
                yield f"{name}: in this header after {until[name]}"
    if header.version <= NEWEST:
        for enum, real in {**header.enums, "#define": header.defines}.items():
            members = defines if enum == "#define" else enums.get(enum) or getattr(cuda_h, enum, {}).__members__
            yield from (f"{enum}: lacks {name}" for name in real if name not in members and name != "CUDA_VERSION")


def compile_and_run(header, tmp_path, statements):
    """Run C statements that print numbers, with this header included; return the lines printed."""
    source = tmp_path / "ask.c"
    source.write_text(
        f"#define {header_reader.INTERNAL}\n#include <stddef.h>\n#include <stdio.h>\n#include <cuda.h>\n"
        "int main(void) {\n" + "\n".join(statements) + "\nreturn 0; }\n"
    )
    program = tmp_path / "ask"
    done = subprocess.run(
        [COMPILER, "-std=c11", "-I", str(header.path.parent), str(source), "-o", str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def members(kind, prefix="", at=0):
    """Yield (name, offset, size, name of its type) of each member, including those of structures inside it."""
    for name, member, *_ in kind._fields_:
        field = getattr(kind, name)
        unnamed = name in getattr(kind, "_anonymous_", ())
        if not unnamed:
            yield prefix + name, at + field.offset, field.size, member.__name__
        if issubclass(member, (ctypes.Structure, ctypes.Union)) and member.__name__.startswith("_"):
            yield from members(member, prefix if unnamed else f"{prefix}{name}.", at + field.offset)


def type_versions(text):
    """Return the version of the first header with each struct, and with each member that came later."""
    structs, later, struct = {}, {}, ""
    for line in text.splitlines():
        begins = re.match(r"(?:struct|union) (\w+) \{", line)
        struct = begins[1] if begins else struct
        version = re.search(r"   // (\d+)\.(\d+)(?:  |$)", line)
        since = number((int(version[1]), int(version[2]))) if version else 0
        if begins:
            structs[struct] = since
        elif since and (member := re.search(r"(\w+)(?:\[\d+\])*;", line)):
            later[struct, member[1]] = since
    return structs, later


def layout_differences(header, kinds, tmp_path):
    """Compare sizes and offsets with those of the C compiler, and find missing members."""
    structs, later = type_versions(TYPES)
    newest = {struct: max([v for (s, _), v in later.items() if s == struct], default=0) for struct in kinds}
    expected, statements = [], []
    for struct, kind in kinds.items():
        if structs.get(kind.__name__, 0) > header.version:
            continue
        if struct not in header.types:
            if struct in structs:  # other names may be newer
                yield f"{struct}: not in this header"
            continue
        grows = newest.get(kind.__name__, 0) > header.version
        expected.append((struct, "at most" if grows else "exactly", ctypes.sizeof(kind)))
        statements.append(f'printf("%zu\\n", sizeof({struct}));')
        ours, real = set(), header.members(struct)
        for name, offset, size, of in members(kind):
            path = name.split(".")
            ours.update(path)
            if any(later.get((kind.__name__, part), 0) > header.version for part in path):
                continue
            if not set(path) <= real:
                yield f"{struct}.{name}: not in this header"
            elif header.version == NEWEST or not RESERVED.match(path[-1]):
                how = "at most" if newest.get(of, 0) > header.version else "exactly"
                expected.append((f"{struct}.{name}", how, offset, size))
                statements.append(f'printf("%zu %zu\\n", offsetof({struct}, {name}), sizeof((({struct} *)0)->{name}));')
        if header.version <= NEWEST:
            yield from (f"{struct}: lacks {name}" for name in sorted(real - ours) if not RESERVED.match(name))
    for (name, how, *ours), line in zip(expected, compile_and_run(header, tmp_path, statements)):
        real = [int(word) for word in line.split()]
        if ours != real and not (how == "at most" and real[:-1] == ours[:-1] and real < ours):
            yield f"{name}: {ours} is really {real}"


def width_differences(header, kinds, tmp_path):
    """Compare the size and sign of each parameter type, and of the target of each pointer, with the C compiler's."""
    expected, statements = [], []
    for text, kind in kinds.items():
        pointed = getattr(kind, "_type_", None) if issubclass(kind, ctypes._Pointer) else None
        if pointed is not None:
            expected.append((text, ctypes.sizeof(pointed), ctypes.sizeof(kind)))
            statements.append(f'printf("%zu %zu\\n", sizeof(*({text})0), sizeof({text}));')
        elif issubclass(kind, cuda_h.Integer):
            expected.append((text, ctypes.sizeof(kind.machine), int(kind.low < 0)))
            statements.append(f'printf("%zu %d\\n", sizeof({text}), ({text})-1 < ({text})1);')
            bits = 8 * ctypes.sizeof(kind)
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind.low < 0 else (0, 2**bits - 1)
            if (kind.low, kind.high, kind.machine(-1).value < 0) != (low, high, kind.low < 0):
                yield f"{text}: not {kind.low} to {kind.high}"
        else:
            expected.append((text, ctypes.sizeof(kind)))
            statements.append(f'printf("%zu\\n", sizeof({text}));')
    for (name, *ours), line in zip(expected, compile_and_run(header, tmp_path, statements)):
        real = [int(word) for word in line.split()]
        if ours != real:
            yield f"{name}: {ours} is really {real}"


def parameter_types(prototypes, header):
    """Return the types of all parameters of the symbols in this header, by their C text."""
    return {
        kind_text: kind
        for name, prototype in prototypes.items()
        if name in header.prototypes
        for (kind_text, _), (_, kind) in zip(
            parameters_of(prototype.line[prototype.line.index("(") + 1 : -2]), prototype.parameters
        )
    }


needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="no C compiler was found: sizes and offsets are not compared"
)


# -- cuda_h agrees with the headers


def test_every_prototype_is_the_headers(header):
    assert list(prototype_differences(header, cuda_h.prototypes())) == []


def test_every_constant_is_the_headers(header):
    enums = {name: cuda_h.enum(name) for name in cuda_h.HEADER.enums()}
    assert list(constant_differences(header, ENUMS, enums, cuda_h.defines())) == []


@needs_compiler
def test_every_structure_is_laid_out_as_the_compiler_does(header, tmp_path):
    assert list(layout_differences(header, structures(), tmp_path)) == []


@needs_compiler
def test_every_parameter_has_the_compilers_width_and_sign(header, tmp_path):
    kinds = parameter_types(cuda_h.prototypes(), header)
    assert len(kinds) > 60 and list(width_differences(header, kinds, tmp_path)) == []


@needs_compiler
def test_constants_have_the_compilers_values(header, tmp_path):
    """The reader of headers evaluates enums itself; here, the compiler evaluates them."""
    enums = [header.enums[name] for name in cuda_h.HEADER.enums() if name in header.enums]
    values = {name: value for enum in [*enums, header.defines] for name, value in enum.items()}
    del values["CUDA_VERSION"]
    printed = compile_and_run(header, tmp_path, [f'printf("%lld\\n", (long long){name});' for name in values])
    assert {name: int(line) for name, line in zip(values, printed)} == values


# -- and with those that PyPI has

PACKAGES = {
    **{f"13.{minor}": "nvidia-cuda-runtime" for minor in (0, 1, 2, 3, 4, 5)},
    **{f"12.{minor}": "nvidia-cuda-runtime-cu12" for minor in (0, 1, 2, 3, 4, 5, 6, 8, 9)},
    "11.8": "nvidia-cuda-runtime-cu11",
}


def downloaded(version):
    """Return the cuda.h of a version of CUDA, downloaded once; skip the test if that is not possible."""
    folder = CHECKOUT / ".venv" / "headers" / version
    if not (folder / "cuda.h").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = "-m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest".split()
        wanted = f"{PACKAGES[version]}=={version}.*"
        done = subprocess.run([sys.executable, *command, folder, wanted], capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"pip could not download {wanted}: {done.stderr.strip()}")
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(("/include/cudaTypedefs.h", "/include/cuda.h")):
                        (folder / name.rpartition("/")[2]).write_bytes(archive.read(name))
            wheel.unlink()
    return folder / "cuda.h"


@pytest.mark.heavy
@pytest.mark.parametrize("version", PACKAGES)
def test_everything_is_that_of_a_header_from_pypi(version, tmp_path):
    header, prototypes = header_reader.read(downloaded(version)), cuda_h.prototypes()
    assert header.version == number(tuple(map(int, version.split("."))))
    enums = {name: cuda_h.enum(name) for name in cuda_h.HEADER.enums()}
    assert list(prototype_differences(header, prototypes)) == []
    assert list(constant_differences(header, ENUMS, enums, cuda_h.defines())) == []
    if COMPILER:
        assert list(layout_differences(header, structures(), tmp_path)) == []
        assert list(width_differences(header, parameter_types(prototypes, header), tmp_path)) == []


# -- the comparisons find mistakes


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *", "cuMemcpyHtoD_v2(CUdeviceptr dstDevice, void *"),
        ("cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)", "cuMemAlloc_v2(size_t bytesize, CUdeviceptr *dptr)"),
        (
            "cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)",
            "cuMemAlloc_v2(CUdeviceptr *dptr, unsigned int bytesize)",
        ),
        ("cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)", "cuMemAlloc_v2(CUdeviceptr *dptr, size_t size)"),
        ("cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)", "cuMemAlloc_v2(CUdeviceptr *dptr)"),
        ("cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)", "cuMemAlloc_v2(CUdeviceptr **dptr, size_t bytesize)"),
        ("cuMemAlloc_v2(", "cuMemAllocs("),
        ("cuMemAlloc_v2(", "cuMemAlloc_v3("),
        ("cuCtxGetLimit(", "cuCtxGetLimits("),
        ("cuCtxSynchronize(void)", "cuCtxSynchronize(CUcontext ctx)"),
        ("// 11.2 ptsz  allocate memory that work", "// 11.3 ptsz  allocate memory that work"),
        ("// 11.3   get the address of a f", "// 99.0   get the address of a f"),
    ],
)
def test_a_wrong_prototype_is_seen(header, right, wrong):
    assert right in lines()
    found = list(prototype_differences(header, table(lines().replace(right, wrong, 1))))
    assert found and len({line.partition(":")[0] for line in found}) == 1


@pytest.mark.parametrize(
    "enum, right, wrong",
    [
        ("CUresult", "CUDA_ERROR_INVALID_VALUE = 1,", "CUDA_ERROR_INVALID_VALUE = 2,"),
        ("CUresult", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_INVALID_VALEU"),
        ("CUresult", "    CUDA_ERROR_NOT_FOUND = 500,\n", ""),
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,", "CU_DEVICE_ATTRIBUTE_WARP_SIZE = 100,"),
        ("CUmemorytype", "enum CUmemorytype", "enum CUmemoritype"),
        ("#define", "#define CU_STREAM_LEGACY 1", "#define CU_STREAM_LEGACY 2"),
        ("#define", "#define CU_STREAM_LEGACY", "#define CU_STREAM_LEGAZY"),
    ],
)
def test_a_wrong_constant_is_seen(header, enum, right, wrong):
    assert right in ENUMS
    text = ENUMS.replace(right, wrong, 1)
    table = reader.Header("wrong", lambda: iter(()), lambda: text, lambda: TYPES)
    enums = {name: table.enum(name) for name in table.enums()}
    found = list(constant_differences(header, text, enums, table.enum("#define")))
    assert found and all(enum in line or "CUmemoritype" in line for line in found)


def _with_fields(base, fields):
    return type(base.__name__, (base.__base__,), {"_fields_": fields})


@needs_compiler
@pytest.mark.parametrize(
    "name, change",
    [
        ("CUDA_MEMCPY2D", lambda fields: [fields[1], fields[0], *fields[2:]]),  # swapped
        ("CUDA_MEMCPY2D", lambda fields: [(n, ctypes.c_uint if n == "Height" else t) for n, t in fields]),  # narrowed
        ("CUDA_MEMCPY3D", lambda fields: fields[:-1]),  # one lacks
        ("CUDA_MEMCPY3D", lambda fields: [("srcXinBytes", fields[0][1]), *fields[1:]]),  # misspelled
        ("CUmemLocation", lambda fields: [*fields, ("more", ctypes.c_int)]),  # one too many
        ("CUmemAccessDesc", lambda fields: [("location", ctypes.c_uint), ("flags", ctypes.c_uint)]),
    ],
)
def test_a_wrong_structure_is_seen(header, tmp_path, name, change):
    kind = getattr(cuda_h, name)
    wrong = _with_fields(kind, change(kind._fields_))
    assert list(layout_differences(header, {name: wrong}, tmp_path))


@needs_compiler
@pytest.mark.parametrize(
    "text, like",
    [
        ("size_t", "unsigned int"),
        ("int", "unsigned int"),
        ("CUdevice", "CUdeviceptr"),
        ("size_t *", "int *"),
        ("CUmemLocation", "CUuuid"),
    ],
)
def test_a_wrong_parameter_type_is_seen(header, tmp_path, text, like):
    assert list(width_differences(header, {text: cuda_h.HEADER.type_of(like)}, tmp_path))


# -- the reader of headers, with a small header

SMALL = """
#ifdef _WIN32
#define CUDAAPI __stdcall
#else
#define CUDAAPI
#endif
#if defined(__CUDA_API_VERSION_INTERNAL) || defined(PER_THREAD)
  #define __CUDA_API_PTSZ(api) api ## _ptsz
#elif 0
  #define __CUDA_API_PTSZ(api) wrong
#else
  #define __CUDA_API_PTSZ(api) api
#endif
#define CUDA_VERSION 12340  /* and so on */
#define cuA  cuA_v2
#define cuB  __CUDA_API_PTSZ(cuB_v3)
#define CU_ONE ((CUthing)0x1)
#define CU_TYPE CUthing
typedef enum CUe_enum { E0, E1 = 1 << 2, /* E9, */ E2, E3 = (E1 | CU_ONE), E4 = -1, } CUe;
typedef struct CUs_st { int a; union { int b[3]; struct { char c; } d; }; } CUs_v1;
typedef CUs_v1 CUs;
__CUDA_DEPRECATED CUresult CUDAAPI cuA(const   char*  *x, unsigned int y); // not CUresult CUDAAPI cuN(int n);
CUresult CUDAAPI
    cuB(void);
#if defined(__CUDA_API_VERSION_INTERNAL)
    #undef cuA
    #undef cuB
CUresult CUDAAPI cuA(int old);
CUresult CUDAAPI cuB_v3(void);
#endif
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "cuda.h").write_text(SMALL)
    (tmp_path / "cudaTypedefs.h").write_text(
        "\n".join(
            f"typedef CUresult (CUDAAPI *PFN_cuA_{version})(int);" for version in ("v2000", "v12030", "v7000_ptsz")
        )
    )
    return header_reader.Header(tmp_path / "cuda.h")


def test_the_reader_renames_as_the_preprocessor_does(small):
    public = (("const char **", "x"), ("unsigned int", "y"))
    assert small.prototypes == {"cuA_v2": public, "cuB_v3_ptsz": (), "cuB_v3": (), "cuA": (("int", "old"),)}
    assert small.version == 12340 and small.since == {"cuA": 2000, "cuA_v2": 12030}


def test_the_reader_evaluates_enums_and_defines(small):
    assert small.enums == {"CUe": {"E0": 0, "E1": 4, "E2": 5, "E3": 5, "E4": -1}}
    assert small.defines["CU_ONE"] == 1 and "CU_TYPE" not in small.defines


def test_the_reader_names_members(small):
    assert small.members("CUs") == small.members("CUs_v1") == {"a", "b", "c", "d"} and small.members("CUx") == set()


def test_headers_are_found_where_the_environment_says(tmp_path, monkeypatch):
    for name in ("one", "two", "toolkit/include", "none"):
        (tmp_path / name).mkdir(parents=True)
        if name != "none":
            (tmp_path / name / "cuda.h").write_text(SMALL)
    monkeypatch.setenv("CUDA_HEADERS", os.pathsep.join(str(tmp_path / name) for name in ("one", "none", "two", "one")))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    found = header_reader.find_headers()
    assert found[:3] == [tmp_path / name / "cuda.h" for name in ("one", "two", "toolkit/include")]
    assert len({path.resolve() for path in found}) == len(found)


def test_types_are_written_in_one_way():
    assert normal(" const  char* *") == "const char **" and normal("int*") == "int *"


# -- the text and its readers


def test_no_symbol_is_listed_twice():
    plain = [name for name in cuda_h.prototypes() if not name.endswith(("_ptsz", "_ptds"))]
    assert len(re.findall(r"^CUresult ", PROTOTYPES, re.M)) == len(plain) >= 580


def test_every_prototype_has_a_text_and_a_version():
    for name, prototype in cuda_h.prototypes().items():
        assert prototype.name == name and prototype.doc and (2, 0) <= prototype.since <= (13, 5), prototype
        assert "  " not in prototype.line and "//" not in prototype.line


def test_a_prototype():
    prototype = cuda_h.prototypes()["cuMemAllocAsync"]
    assert prototype.line == "CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);"
    assert [name for name, _ in prototype.parameters] == ["dptr", "bytesize", "hStream"]
    assert prototype.parameters[2][1] is cuda_h.CUstream and prototype.since == (11, 2)
    assert prototype.machine_types == (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    assert cuda_h.prototypes()["cuCtxSynchronize"].parameters == ()


def test_what_is_said_to_be_seen_is_there():
    """`see CUx` in a comment names something that exists."""
    names = set(re.findall(r"\bsee (CU\w+\*?)", PROTOTYPES + ENUMS))
    known = set(cuda_h.HEADER.enums()) | set(cuda_h.HEADER.names())
    assert {name for name in names if not name.endswith("*")} <= known
    assert all(any(name.startswith(star[:-1]) for name in cuda_h.defines()) for star in names if star.endswith("*"))


def test_an_unknown_type_is_an_error():
    with pytest.raises(KeyError, match="CUnothing"):
        cuda_h.Prototype("CUresult cuX(CUnothing x);", "1.0  text", cuda_h.HEADER).parameters


def test_constants_are_attributes():
    assert cuda_h.CUDA_ERROR_INVALID_VALUE == 1 and cuda_h.CU_STREAM_PER_THREAD == 2 and cuda_h.CU_DEVICE_CPU == -1
    assert cuda_h.enum("CUmemorytype") == {
        "CU_MEMORYTYPE_HOST": 1,
        "CU_MEMORYTYPE_DEVICE": 2,
        "CU_MEMORYTYPE_ARRAY": 3,
        "CU_MEMORYTYPE_UNIFIED": 4,
    }
    assert cuda_h.results()[700] == "CUDA_ERROR_ILLEGAL_ADDRESS" and cuda_h.results()[0] == "CUDA_SUCCESS"
    assert {"CU_LIMIT_STACK_SIZE", "CU_MEMHOSTALLOC_PORTABLE", "CUstream", "prototypes"} <= set(dir(cuda_h))


def test_an_attribute_that_is_none():
    for name in ("CU_STREAM_LEGAZY", "CUresults", "nothing", "size_t", "_Int"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(cuda_h, name)
    with pytest.raises(KeyError):
        cuda_h.enum("CUnothing")


def test_no_constant_has_two_values():
    found = {}
    for name in [*cuda_h.HEADER.enums(), "#define"]:
        for key, value in cuda_h.enum(name).items():
            assert found.setdefault(key, value) == value


def test_every_name_is_there():
    for name in dir(cuda_h):
        assert getattr(cuda_h, name) is getattr(cuda_h, name), name
    for prototype in cuda_h.prototypes().values():
        assert len(prototype.parameters) == len(prototype.machine_types), prototype


def fresh():
    """Return a reader of the same texts that has parsed nothing yet."""
    return reader.Header("fresh", cuda_h._functions, cuda_h._enums, cuda_h._types)


def test_many_threads_may_read_first():
    copy, start, found = fresh(), threading.Barrier(8), []

    def read(number):
        start.wait()
        types = {name: copy.look_up(name) for name in [*copy.names(), *copy.enums()]}
        signatures = {name: [kind for _, kind in p.parameters] for name, p in copy.prototypes.items()}
        found.append((len(signatures), signatures["cuLaunchKernel"][-1], signatures["cuMemAdvise_v2"], types))

    run_threads(read)
    assert len(found) == 8 and all(each == found[0] for each in found)
    assert found[0][:2] == (len(cuda_h.prototypes()), ctypes.POINTER(ctypes.c_void_p))


def test_import_needs_ctypes_only(python):
    result = python(
        """
        import ctypes, sys
        from tests.subject import NAME, rawcuda, module
        before = set(sys.modules)
        alone = module("headers.cuda_h")
        alone.prototypes()["cuLaunchKernel"].parameters, alone.CU_STREAM_LEGACY
        new = {name[len(NAME) + 1 :] for name in set(sys.modules) - before if name.startswith(NAME + ".")}
        print(*sorted(new))
    """
    )
    wanted = "c_types cuda_h enumerations functions reader structures".split()
    assert result.stdout.split() == sorted(["headers", *(f"headers.{name}" for name in wanted)]), result


def test_codes_after_which_the_process_must_end(header):
    """After them, the user is told to restart the process; the emulator makes the context unusable."""
    errors, codes = module("errors"), module("emulator.machine.codes")
    text = re.sub(r"\n\s*\*(?!/) ?", " ", header.path.read_text(encoding="utf-8", errors="replace"))
    said = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*(CUDA_ERROR_\w+)\s*=\s*(\d+)", text, re.S)
    ends = {int(code) for words, _, code in said if "must be terminated" in words}
    assert {700, 719} <= ends
    for code in ends:
        error = errors.from_code(code, "N", "t", "c")
        assert isinstance(error, errors.ContextLost) and "Restart this process" in str(error), code
    assert ends <= codes.STICKY


def test_the_codes_that_a_user_may_meet_have_remedies(header):
    errors = module("errors")
    for code in (36, 102, 215, 225, *range(805, 812), 902, 903, 911, 916, 999):
        assert str(errors.from_code(code, "N", "t", "c")) != f"c(): N ({code}): t.", code


def test_the_results_that_have_a_name_of_their_own_are_those_of_the_header() -> None:
    status = module("headers.status")
    cuda_h = module("headers.cuda_h")
    assert status.SUCCESS == cuda_h.CUDA_SUCCESS and len(status.__all__) > 15
    for name in status.__all__:
        if name != "SUCCESS":
            assert getattr(status, name) == getattr(cuda_h, f"CUDA_ERROR_{name}"), name
