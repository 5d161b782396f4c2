"""The error classes: one for each remedy, with the built-in base class that other code would catch, and picklable."""

import pickle

import pytest

from tests.subject import module

errors = module("errors")

BASES = {
    "DriverNotFound": OSError,
    "SymbolNotFound": NotImplementedError,
    "CudaError": RuntimeError,
    "OutOfMemory": MemoryError,
    "InvalidUse": ValueError,
    "NotFound": KeyError,
    "Unsupported": NotImplementedError,
    "CompileFailed": RuntimeError,
    "CompilerNotFound": OSError,
    "CacheDamaged": OSError,
    "LinkFailed": RuntimeError,
    "LinkerNotFound": OSError,
    "ContextLost": RuntimeError,
    "ForkedAfterInit": RuntimeError,
    "Closed": ValueError,
    "ProtocolError": BufferError,
    "PtxError": SyntaxError,
}


@pytest.mark.parametrize("name, base", BASES.items())
def test_every_error_has_a_builtin_base(name, base):
    kind = getattr(errors, name)
    assert issubclass(kind, base) and issubclass(kind, errors.RawCudaError)


def test_no_error_is_left_out():
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert classes == {*BASES, "RawCudaError"}


@pytest.mark.parametrize(
    "code, kind",
    [
        (1, "InvalidUse"),
        (2, "OutOfMemory"),
        (100, "Unsupported"),
        (201, "InvalidUse"),
        (209, "Unsupported"),
        (218, "CompileFailed"),
        (222, "Unsupported"),
        (400, "InvalidUse"),
        (500, "NotFound"),
        (600, "InvalidUse"),
        (905, "InvalidUse"),
        (907, "InvalidUse"),
        (226, "ContextLost"),
        (700, "ContextLost"),
        (721, "ContextLost"),
        (810, "ContextLost"),
        (911, "ContextLost"),
        (716, "ContextLost"),
        (719, "ContextLost"),
        (801, "Unsupported"),
        (999, "CudaError"),
        (12345, "CudaError"),
    ],
)
def test_a_code_becomes_the_class_of_its_remedy(code, kind):
    error = errors.from_code(code, "CUDA_ERROR_X", "some text.", "cuX", ["a=1", "b=&2"])
    assert type(error) is getattr(errors, kind)
    assert (error.code, error.name, error.call, error.arguments) == (code, "CUDA_ERROR_X", "cuX", ("a=1", "b=&2"))
    noticed = " noticed it" if kind == "ContextLost" else ""
    assert f"cuX(a=1, b=&2){noticed}: CUDA_ERROR_X ({code}): some text." in str(error)
    assert str(error).startswith("cuX(") == (kind != "ContextLost"), "what happened comes before who noticed it"


def test_the_form_of_the_message():
    error = errors.from_code(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "cuMemAlloc_v2", ["bytesize=1073741824"])
    assert str(error) == (
        "cuMemAlloc_v2(bytesize=1073741824): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory. Free memory or use a pool."
    )


def test_detail_stands_below():
    assert str(errors.from_code(700, "N", "t", "c", (), "line one\nline two\n")).endswith("\nline one\nline two")


@pytest.mark.parametrize("code", [1, 2, 100, 218, 500, 700, 999])
def test_pickle_keeps_everything(code):
    error = errors.from_code(code, "CUDA_ERROR_X", "t", "cuX", ["a=1"])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert (again.code, again.name, again.call, again.arguments) == (
        error.code,
        error.name,
        error.call,
        error.arguments,
    )


def test_pickle_of_the_others():
    found = pickle.loads(pickle.dumps(errors.DriverNotFound("m", tried=[("a", "b", "c")])))
    assert found.tried == [("a", "b", "c")] and str(found) == "m"
    missing = pickle.loads(pickle.dumps(errors.CompilerNotFound("m", tried=[("a", "b", "c")])))
    assert missing.tried == [("a", "b", "c")] and str(missing) == "m"
    symbol = pickle.loads(pickle.dumps(errors.SymbolNotFound("m", symbol="cuX", since=(12, 4), driver_version=11040)))
    assert (symbol.symbol, symbol.since, symbol.driver_version) == ("cuX", (12, 4), 11040)
    protocol = pickle.loads(pickle.dumps(errors.ProtocolError("m", protocol="DLPack", field="ndim")))
    assert (protocol.protocol, protocol.field) == ("DLPack", "ndim")
    ptx = pickle.loads(pickle.dumps(errors.PtxError("m", ("<ptx>", 3, 4, "line"))))
    assert (ptx.lineno, ptx.offset, ptx.text) == (3, 4, "line")


class EvilRepr(int):
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "value, words",
    [
        (5, "5"),
        (None, "None"),
        ("abc", "'abc'"),
        (10**5000, "an int of 16610 bits"),
        (-(10**5000), "an int of 16610 bits"),
        (EvilRepr(5), "an EvilRepr"),
        (b"x" * 100, "a bytes"),
        ([0] * 100, "a list"),
        (2**256 - 1, "an int"),
    ],
    ids=map(str, range(9)),
)
def test_any_value_can_be_worded(value, words):
    assert errors.worded(value) == words
