"""Calls: binding, checks, messages, and the choice of a driver. The library is a fake; tests/driver uses real ones."""

import ctypes
import inspect
import sys

import pytest

from tests.subject import module, rawcuda

driver, errors, cuda_h = module("driver"), module("errors"), module("headers.cuda_h")


class Fake:
    """A library with one function for every symbol that is not missing; the function returns a given code."""

    def __init__(self, answer=0, missing=()):
        self.answer, self.missing, self.seen = answer, missing, []

        def serve():
            self.seen.append("called")
            return self.answer

        self._thunk = ctypes.CFUNCTYPE(ctypes.c_int)(serve)

    def address(self, symbol):
        if symbol in self.missing or symbol.startswith("cuGetError"):
            return None
        return ctypes.cast(self._thunk, ctypes.c_void_p).value


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def loaded(fake):
    return driver.Driver(fake)


def test_a_function_is_bound_once_and_documented(loaded):
    function = loaded.cuMemFree_v2
    assert loaded.cuMemFree_v2 is function and function.__name__ == "cuMemFree_v2"
    assert function.__doc__.startswith("CUresult cuMemFree_v2(CUdeviceptr dptr);")
    assert function(0) is None
    assert "cuMemFree_v2" in dir(loaded)


def test_a_code_that_the_table_does_not_know():
    """The error has the number, the driver's own name and text, and the call."""
    texts = {"cuGetErrorName": b"CUDA_ERROR_OF_THE_FUTURE", "cuGetErrorString": b"the flux is not capacitive"}
    kept = []

    def serve(symbol):
        def put(code, place):
            ctypes.c_char_p.from_address(place).value = texts[symbol]
            return 0

        kept.append(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(put))
        return ctypes.cast(kept[-1], ctypes.c_void_p).value

    class Newer(Fake):
        def address(self, symbol):
            return serve(symbol) if symbol in texts else super().address(symbol)

    with pytest.raises(errors.CudaError) as raised:
        driver.Driver(Newer(answer=987)).cuMemFree_v2(64)
    error = raised.value
    assert (error.code, error.name, error.call) == (987, "CUDA_ERROR_OF_THE_FUTURE", "cuMemFree_v2")
    assert str(error) == "cuMemFree_v2(dptr=64): CUDA_ERROR_OF_THE_FUTURE (987): the flux is not capacitive."
    with pytest.raises(errors.CudaError, match=r"^cuMemFree_v2\(dptr=64\): CUDA_ERROR \(987\): no text\.$"):
        driver.Driver(Fake(answer=987)).cuMemFree_v2(64)


def test_unknown_names_are_attribute_errors(loaded):
    with pytest.raises(AttributeError, match="not in the table"):
        loaded.cuNoSuchThing
    with pytest.raises(AttributeError, match="^something: the names of the driver begin with cu or CU$"):
        loaded.something
    assert not hasattr(loaded, "__array_interface__")


def test_a_missing_symbol_says_what_has_it():
    loaded = driver.Driver(Fake(missing=("cuLaunchKernelEx",)))
    assert not loaded.has("cuLaunchKernelEx") and loaded.has("cuLaunchKernel")
    with pytest.raises(errors.SymbolNotFound, match=r"added in CUDA 11\.8") as raised:
        loaded.cuLaunchKernelEx
    assert (
        raised.value.symbol == "cuLaunchKernelEx"
        and raised.value.since == (11, 8)
        and isinstance(raised.value, NotImplementedError)
    )


@pytest.mark.parametrize(
    "call, arguments, kind, words",
    [
        ("cuMemFree_v2", (), TypeError, r"takes 1 arguments \(dptr\), not 0"),
        ("cuMemFree_v2", (1, 2), TypeError, "not 2"),
        ("cuMemFree_v2", ("1",), TypeError, r"cuMemFree_v2\(\): dptr"),
        ("cuMemFree_v2", (-1,), ValueError, r"cuMemFree_v2\(\): dptr.*-1"),
        ("cuMemFree_v2", (2**64,), ValueError, "dptr"),
        ("cuMemFree_v2", (1.0,), TypeError, "dptr"),
        ("cuMemFree_v2", (True,), TypeError, "dptr"),
        ("cuStreamSynchronize", (5,), TypeError, "hStream"),
        ("cuStreamSynchronize", ("5",), TypeError, "hStream"),
        (
            "cuMemAlloc_v2",
            (5, 1),
            TypeError,
            r"dptr: takes a pointer: give ctypes.byref\(x\) for a c_ulong\w* x, not int",
        ),
    ],
)
def test_bad_c_arguments_never_reach_the_driver(fake, loaded, call, arguments, kind, words):
    with pytest.raises(kind, match=words):
        getattr(loaded, call)(*arguments)
    assert not fake.seen


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, TimeoutError, ZeroDivisionError])
def test_what_is_raised_while_an_argument_is_converted_stays_what_it_is(fake, loaded, kind):
    """A signal handler may run there, such as one that ends the program."""

    class Interrupted:
        def __index__(self):
            raise raised

    raised = kind("of a handler")
    with pytest.raises(kind) as seen:
        loaded.cuMemFree_v2(Interrupted())
    assert seen.value is raised and not fake.seen


def test_a_handle_of_another_kind_is_refused(fake, loaded):
    with pytest.raises(TypeError, match="CUevent"):
        loaded.cuStreamSynchronize(cuda_h.CUevent(5))
    assert not fake.seen
    loaded.cuStreamSynchronize(cuda_h.CUstream(5))
    loaded.cuStreamSynchronize(None)


def test_a_failure_names_call_arguments_code_and_remedy():
    loaded = driver.Driver(Fake(answer=1))
    with pytest.raises(errors.InvalidUse) as raised:
        loaded.cuMemsetD8_v2(2**49, 7, 16)
    assert str(raised.value).startswith(
        "cuMemsetD8_v2(dstDevice=0x2000000000000, uc=7, N=16): CUDA_ERROR_INVALID_VALUE (1): "
    )


def test_queries_answer(fake, loaded):
    assert loaded.cuStreamQuery(None) is True
    fake.answer = 600
    assert loaded.cuStreamQuery(None) is False and loaded.cuEventQuery(None) is False
    with pytest.raises(errors.CudaError):
        loaded.cuStreamSynchronize(None)
    fake.answer = 700
    with pytest.raises(errors.ContextLost):
        loaded.cuStreamQuery(None)


def test_a_librarys_own_report_is_added(fake, loaded):
    fake.answer, fake.explain = 700, lambda code: f"report on {code}"
    with pytest.raises(errors.ContextLost, match=r"^report on 700\ncuCtxSynchronize\(\) noticed it: "):
        loaded.cuCtxSynchronize()


def test_tracing(fake, loaded):
    events = []
    with rawcuda.trace(events.append):
        loaded.cuMemFree_v2(5)
        fake.answer = 1
        with pytest.raises(errors.InvalidUse):
            loaded.cuMemFree_v2(6)
    loaded.cuDriverGetVersion
    assert [(event.name, event.arguments, event.result) for event in events] == [
        ("cuMemFree_v2", {"dptr": "5"}, "CUDA_SUCCESS"),
        ("cuMemFree_v2", {"dptr": "6"}, "CUDA_ERROR_INVALID_VALUE"),
    ]
    assert all(event.elapsed_ns > 0 for event in events) and "cuMemFree_v2(dptr=5) -> CUDA_SUCCESS" in str(events[0])


def test_a_trace_prints_or_calls_and_refuses_the_rest(loaded, capsys, tmp_path):
    with rawcuda.trace():
        loaded.cuCtxSynchronize()
    assert "  cuCtxSynchronize\n" in capsys.readouterr().err
    with open(tmp_path / "log", "w") as log, rawcuda.trace(log):
        loaded.cuCtxSynchronize()
    assert "cuCtxSynchronize" in (tmp_path / "log").read_text()
    with pytest.raises(TypeError, match="a function, a text file, a path, a list or None"):
        with rawcuda.trace(5):
            pass
    assert module("tracing").listeners == []


def test_what_a_listener_calls_is_not_told(loaded):
    told = []

    def listener(event):
        told.append(event.name)
        loaded.cuMemFree_v2(1)

    with rawcuda.trace(listener):
        loaded.cuCtxSynchronize()
    assert told == ["cuCtxSynchronize"]


def test_a_listener_that_fails_disturbs_nothing(loaded, capsys):
    def fail(event):
        raise KeyError("mine")

    with rawcuda.trace(fail):
        assert loaded.cuCtxSynchronize() is None
    assert "KeyError: 'mine'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["emu", "libcuda.so.1", "./libcuda.so", ""])
def test_use_refuses_names_that_are_none(name, monkeypatch):
    monkeypatch.setattr(driver, "_current", None)
    with pytest.raises(ValueError, match="absolute path"):
        driver.use(name)


def test_use_refuses_what_is_no_library(monkeypatch):
    monkeypatch.setattr(driver, "_current", None)
    with pytest.raises(TypeError, match="address"):
        driver.use(object())


# -- the choice of the driver, each time in a new process

NO_DRIVER = {"RAWCUDA_DRIVER": None, "LD_LIBRARY_PATH": None}


def test_no_driver_lists_each_place_and_names_the_emulator(python):
    result = python(
        """
        from tests.subject import rawcuda, module
        found = [("libnothere.so.1", "the first reason"), ("/no/where/libcuda.so.1", "the second")]
        module("locate").libcuda = lambda: found
        try:
            rawcuda.Device(0)
        except rawcuda.DriverNotFound as error:
            assert isinstance(error, OSError)
            print(error)
            print(len(error.tried), error.tried[1][:2], bool(error.tried[1][2]))
    """,
        env=NO_DRIVER,
    )
    assert result.returncode == 0, result.stderr
    assert "libnothere.so.1  (the first reason): " in result.stdout and "use('emulator')" in result.stdout
    assert "2 ('/no/where/libcuda.so.1', 'the second') True" in result.stdout


def test_an_error_of_a_view_without_a_driver_is_shown_alone(python):
    result = python(
        """
        from tests.subject import rawcuda
        class Exporter:
            __cuda_array_interface__ = {"shape": (3,), "typestr": "<i4", "data": (4096, False), "version": 3}
        rawcuda.view(Exporter())
        """,
        env={**NO_DRIVER, "RAWCUDA_DRIVER": "/no/where/libcuda.so.1"},
    )
    assert "DriverNotFound" in result.stderr and "another exception" not in result.stderr, result.stderr


def test_an_absolute_path(python):
    result = python(
        """
        from tests.subject import rawcuda
        rawcuda.use("/no/where/libmine.so")
        try:
            rawcuda.cu.cuCtxSynchronize()
        except rawcuda.DriverNotFound as error:
            print(error)
    """,
        env=NO_DRIVER,
    )
    assert "/no/where/libmine.so  (the path that was chosen)" in result.stdout, result.stderr


def test_the_emulator_from_inside_and_outside(python):
    name = "print(rawcuda.Device(0).name)"
    inside = python(f"from tests.subject import rawcuda; rawcuda.use('emulator'); {name}", env=NO_DRIVER)
    outside = python(f"from tests.subject import rawcuda; {name}", env={"RAWCUDA_DRIVER": "emulator"})
    assert "emulator" in inside.stdout and inside.stdout == outside.stdout, inside.stderr + outside.stderr


def test_the_environment_is_ignored_under_e(python):
    result = python(
        """
        import sys
        sys.path[:0] = sys.argv[1:]
        from tests.subject import rawcuda, module
        module("locate").libcuda = lambda: []
        try:
            rawcuda.Device(0)
        except rawcuda.DriverNotFound:
            print("ignored")
    """,
        *sys.path,
        env={"RAWCUDA_DRIVER": "emulator"},
        flags=("-E",),
    )
    assert result.stdout == "ignored\n", result.stderr


def test_a_name_outside_that_is_none(python):
    result = python(
        """
        from tests.subject import rawcuda
        try:
            rawcuda.Device(0)
        except rawcuda.DriverNotFound as error:
            print(error)
    """,
        env={"RAWCUDA_DRIVER": "emu"},
    )
    assert "RAWCUDA_DRIVER is 'emu': set it to 'nvidia', 'emulator' or an absolute path" in result.stdout


def test_choosing_too_late(python):
    result = python("""
        from tests.subject import module, rawcuda
        rawcuda.use("emulator")
        rawcuda.devices()
        rawcuda.use("emulator")  # the same one again: as if a notebook's first cell is run twice
        emulator = module("driver").current().libcuda
        rawcuda.use(emulator)
        for late in ("nvidia", "/other/libcuda.so.1", type(emulator)()):
            try:
                rawcuda.use(late)
            except RuntimeError as error:
                print(error)
    """)
    assert result.stdout.count("in use already: choose before the first call") == 3, result.stderr


def test_looking_at_the_package_loads_no_driver(python):
    result = python(
        """
        import inspect, pydoc, rlcompleter
        from tests.subject import NAME, rawcuda, module
        names = {}
        exec(f"from {NAME} import *", names)
        assert pydoc.render_doc(rawcuda) and inspect.getmembers(rawcuda) and "cuMemAlloc_v2" in dir(rawcuda.cu)
        completer = rlcompleter.Completer({"cu": rawcuda.cu})
        assert completer.complete("cu.cuMemAl", 0).startswith("cu.cuMemAl")
        init = rawcuda.cu.cuInit
        assert init.__name__ == "cuInit" and "nitialize the driver" in pydoc.render_doc(init)
        assert str(inspect.signature(init)) == "(Flags: 'unsigned int')"
        assert rawcuda.cu.CUresult(1) and rawcuda.cu.CU_STREAM_LEGACY == 1 and "CUDA_MEMCPY2D" in dir(rawcuda.cu)
        print(names["cu"], module("driver").is_loaded())
        try:
            rawcuda.cu.cuMemAlloc
        except AttributeError as error:
            assert "cuMemAlloc_v2" in str(error) and not module("driver").is_loaded()
        assert not any(hasattr(rawcuda.cu, name) for name in ("CUnothing", "_nothing", "__nothing__"))
        assert not module("driver").is_loaded()
        rawcuda.use("emulator")
        init(Flags=0)
        print(module("driver").is_loaded(), rawcuda.cu.version)
    """,
        env=NO_DRIVER,
    )
    assert result.stdout == "<driver, not loaded yet> False\nTrue 13000\n", result.stderr


def test_a_library_that_is_no_driver(python):
    result = python("""
        from tests.subject import rawcuda
        class Nothing:
            def address(self, symbol):
                return None
        rawcuda.use(Nothing())
        try:
            rawcuda.Device(0)
        except rawcuda.DriverNotFound as error:
            print(error)
    """)
    assert result.stdout == "<driver Nothing> is not a CUDA driver: it does not export cuInit\n", result.stderr


@pytest.mark.parametrize(
    "name, words",
    [
        ("cuMemAlloc", "an ABI of CUDA 2.0, now cuMemAlloc_v2; with 32-bit addresses"),
        ("cuCtxPopCurrent", "now cuCtxPopCurrent_v2"),
        ("cuGraphInstantiate", "now cuGraphInstantiateWithFlags, whose parameters differ"),
        ("cuCtxCreate_v5", "did you mean cuCtxCreate_v[234]"),
        ("cuTexRefSetAddress2D", "now cuTexRefSetAddress2D_v3"),
        ("CUresutl", "not in the table of cuda.h: did you mean CUresult"),
        ("CU_STREAM_PER_THRED", "did you mean CU_STREAM_PER_THREAD"),
        ("cuMemAlocc_v2", "did you mean cuMemAlloc_v2"),
    ],
)
def test_a_name_without_its_suffix_names_the_one_with_it(name, words):
    driver = module("driver")
    with pytest.raises(AttributeError, match=words):
        getattr(driver.Driver(type("Library", (), {"address": lambda self, symbol: None})()), name)


def test_an_old_abi_is_had_by_its_exact_name_only():
    loaded = driver.Driver(Fake())
    old = loaded["cuMemAlloc"]
    assert old.__name__ == "cuMemAlloc" and loaded["cuMemAlloc"] is old and "cuMemAlloc" not in dir(loaded)
    with pytest.raises(TypeError, match="c_uint"):
        old(ctypes.byref(ctypes.c_uint64()), 4)  # it would write 4 bytes
    assert old(ctypes.byref(ctypes.c_uint32()), 4) is None
    with pytest.raises(ValueError, match="bytesize: .* does not fit: unsigned int"):
        old(None, 2**32)
    with pytest.raises(KeyError, match="cuNothing"):
        loaded["cuNothing"]
    assert loaded["cuInit"](0) is None and loaded.cuStreamQuery_ptsz(None) is True


def test_arguments_by_name(fake, loaded):
    cell = ctypes.byref(cuda_h.CUdeviceptr())
    for given in (dict(dptr=cell, bytesize=8), dict(bytesize=8, dptr=cell)):
        assert loaded.cuMemAlloc_v2(**given) is None
    assert loaded.cuMemAlloc_v2(cell, bytesize=8) is None and len(fake.seen) == 3
    for arguments, named, words in (
        ((cell,), {"size": 8}, r"has no parameter size: its parameters are dptr, bytesize"),
        ((cell,), {"dptr": cell}, "got two values for dptr"),
        ((), {"dptr": cell}, "bytesize is missing"),
        ((cell, 8), {"dptr": cell}, "two values"),
        ((cell, 8, 9), {"flags": 1}, "no parameter flags"),
        ((), {"bytesize": -1, "dptr": cell}, "bytesize: -1 does not fit"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            loaded.cuMemAlloc_v2(*arguments, **named)
    with pytest.raises(TypeError, match="its parameters are none"):
        loaded.cuCtxSynchronize(context=1)
    assert len(fake.seen) == 3


def test_signatures_and_documentation(loaded):
    signature = inspect.signature(loaded.cuMemcpyHtoD_v2)
    assert str(signature) == "(dstDevice: 'CUdeviceptr', srcHost: 'const void *', ByteCount: 'size_t')"
    assert str(inspect.signature(loaded.cuCtxSynchronize)) == "()"
    document = loaded.cuMemcpyHtoD_v2.__doc__
    assert document.startswith("CUresult cuMemcpyHtoD_v2(") and "Copy from host to device." in document
    assert document.endswith("since  CUDA 3.2")
    for name, prototype in cuda_h.prototypes().items():
        if name.startswith("cuGetError"):  # the fake lacks them
            continue
        names = [each.replace("from", "from_") if each == "from" else each for each, _ in prototype.parameters]
        assert list(inspect.signature(loaded[name]).parameters) == names, name
    assert loaded.cuGraphAddDependencies(None, from_=None, to=None, numDependencies=0) is None


def test_the_other_names_of_the_header_are_attributes(loaded):
    assert loaded.CU_STREAM_PER_THREAD == 2 and loaded.CUresult(700).name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert loaded.CUDA_MEMCPY2D is cuda_h.CUDA_MEMCPY2D and issubclass(loaded.CUcontext, cuda_h.Handle)
    assert {"CUresult", "CUDA_MEMCPY2D", "CU_STREAM_LEGACY", "cuMemAlloc_v2"} <= set(dir(loaded))
    limit = loaded.CUlimit.CU_LIMIT_STACK_SIZE
    assert loaded.cuCtxGetLimit(None, limit) is None
    with pytest.raises(AttributeError):
        loaded._CUresult


def test_hasattr_tells_whether_the_driver_has_a_function():
    loaded = driver.Driver(Fake(missing=("cuMemFree_v2",)))
    assert hasattr(loaded, "cuInit") and not hasattr(loaded, "cuMemFree_v2") and not hasattr(loaded, "cuMemAlloc")
    assert getattr(loaded, "cuMemFree_v2", None) is None
    names = dict(inspect.getmembers(loaded))
    assert "cuMemAlloc_v2" in names and "cuMemFree_v2" not in names and names["CU_STREAM_LEGACY"] == 1


def test_a_function_that_a_driver_of_its_version_lacks():
    class Old(Fake):
        def address(self, symbol):
            return None if symbol == "cuDriverGetVersion" else super().address(symbol)

    loaded = driver.Driver(Old(missing=("cuMemFree_v2",)))
    type(loaded).version, kept = property(lambda self: 12040), type(loaded).version
    try:
        with pytest.raises(
            errors.SymbolNotFound, match=r"lacks it, although it is of CUDA 12\.4.* doctor shows what a driver lacks$"
        ):
            loaded.cuMemFree_v2
    finally:
        type(loaded).version = kept


@pytest.mark.parametrize("code, told", [(100, True), (999, False)])
def test_a_driver_that_sees_no_gpu_is_told_from_one_that_fails(monkeypatch, code, told):
    fake = Fake(answer=code)
    monkeypatch.setattr(driver, "_chosen", fake)
    monkeypatch.setattr(driver, "_current", None)
    monkeypatch.setattr(module("locate"), "hidden_gpus", lambda *, real: ["a remedy"] if not real else [])
    with pytest.raises(errors.CudaError) as raised:
        driver.current()
    assert ("sees no GPU" in str(raised.value) and "\nA remedy." in str(raised.value)) == told
    assert driver._current is None and driver.chosen_library() is fake


def test_a_driver_that_sees_no_gpu_says_which_one_it_is(monkeypatch):
    fake = Fake(answer=100)
    fake.path = "/somewhere/libcuda.so.1"
    monkeypatch.setattr(driver, "_chosen", fake)
    monkeypatch.setattr(driver, "_current", None)
    with pytest.raises(errors.CudaError, match=r"(?s)sees no GPU \(/somewhere/libcuda.so.1\)\..*use\('emulator'\)"):
        driver.current()


def test_a_failing_question_for_the_context_is_an_error():
    with pytest.raises(errors.OutOfMemory, match="cuCtxGetCurrent"):
        driver.Driver(Fake(answer=2)).current_context()


def test_long_values_are_shown_by_their_kind():
    assert driver.show(["x" * 76]) == str(["x" * 76]) and driver.show(["x" * 77]) == "a list"
