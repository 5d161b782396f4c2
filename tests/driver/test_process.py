"""Tests that need a separate process: fork, exit, sticky errors, Ctrl-C."""

import os
import sys

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_to_spawn(python):
    result = python("""
        import ctypes, os, sys, warnings
        warnings.simplefilter("ignore")
        from tests.driver import kernels
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        module, memory, stream = device.load(kernels.GLOBALS), device.allocate(8), device.stream()
        launch = module["nothing"].configure(grid=1, block=1, stream=stream)
        launch()
        device.synchronize()
        version = ctypes.byref(ctypes.c_int())
        pid = os.fork()
        if pid == 0:
            launch._call = lambda *arguments: 0  # a driver that does not notice the fork
            for use in (lambda: rawcuda.Device(0), lambda: device.allocate(8), launch, stream.synchronize,
                        device.synchronize, lambda: memory.copy_from(b"12345678"), lambda: device.load(kernels.ADD),
                        rawcuda.cu.cuCtxSynchronize, lambda: rawcuda.cu.cuDriverGetVersion(version),
                        lambda: module["twice"], lambda: device.stream(),
                        lambda: device.empty(3, "float32")):
                try:
                    use()
                    print("went through", use)
                except rawcuda.ForkedAfterInit as error:
                    assert "spawn" in str(error)
            for thing in (memory, stream, module, device):
                thing.close()
            print("child done")
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        memory.copy_from(b"12345678")
        launch()
        device.synchronize()
        print("parent done")
    """)
    assert (result.stdout, result.returncode) == ("child done\nparent done\n", 0), result.stderr


def test_a_collection_while_the_driver_is_loaded_may_use_it(python):
    result = python(
        """
        import gc, os
        from tests.subject import rawcuda, module
        class Late:
            def __init__(self):
                self.me = self
            def __del__(self):
                rawcuda.Device(0).allocate(8).close()
                print("used")
        class Collecting:
            def __init__(self, inner):
                self.inner = inner
            def address(self, symbol):                   # of cuInit at first, while the driver is being loaded
                gc.collect()
                return self.inner.address(symbol)
        if os.environ["RAWCUDA_DRIVER"] == "nvidia":
            inner = module("driver").SharedLibrary("libcuda.so.1")
        else:
            inner = module("emulator").Emulator.from_environment()
        rawcuda.use(Collecting(inner))
        gc.disable()
        Late()
        with rawcuda.Device(0).allocate(8) as memory:
            memory.copy_from(b"12345678")
        driver = module("driver").current()
        print(memory.device._primary is rawcuda.Device(0)._primary, rawcuda.cu.libcuda is driver.libcuda)
    """,
        timeout=30,
    )
    assert (result.stdout, result.stderr, result.returncode) == ("used\nTrue True\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_makes_a_context_does_not_wait_for_it(python):
    result = python(
        """
        import os, threading, warnings
        warnings.simplefilter("ignore")
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        memory = device.allocate(8)
        inside, leave = threading.Event(), threading.Event()
        def hold():
            with device._primary._lock:
                inside.set()
                leave.wait(60)
        threading.Thread(target=hold).start()
        inside.wait(60)
        pid = os.fork()
        if pid == 0:
            try:
                device.allocate(8)
            except rawcuda.ForkedAfterInit:
                memory.close()
                os._exit(7)
            os._exit(1)
        status = os.waitpid(pid, 0)[1]
        leave.set()
        print(os.WEXITSTATUS(status))
    """,
        timeout=30,
    )
    assert (result.stdout, result.returncode) == ("7\n", 0), result.stderr


OLD = """
    from tests.driver import kernels
    from tests.subject import rawcuda, module
    class Old:
        \"\"\"A driver of CUDA 11.4: what came later is hidden.\"\"\"
        def __init__(self, inner):
            self.inner, self.explain = inner, getattr(inner, "explain", lambda code: None)
        def address(self, symbol):
            prototype = module("headers.cuda_h").prototypes().get(symbol)
            return None if prototype is not None and prototype.since > (11, 4) else self.inner.address(symbol)
    import os
    if os.environ["RAWCUDA_DRIVER"] == "nvidia":
        inner = module("driver").SharedLibrary("libcuda.so.1")
    else:
        inner = module("emulator").Emulator.from_environment()
    rawcuda.use(Old(inner))
    device = rawcuda.Device(0)
"""


def test_a_driver_of_11_4_does_the_same_with_what_it_has(python):
    result = python(
        OLD
        + """
    import array
    assert device.uuid.startswith("GPU-")
    assert not rawcuda.cu.has("cuLaunchKernelEx") and not rawcuda.cu.has("cuFuncGetParamInfo")
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        a, out = device.upload(array.array("f", range(100))), device.empty(100, "float32")
        names = []
        with rawcuda.trace(lambda event: names.append(event.name)):
            loaded["add"].launch(a, a, out, 100, grid=1, block=128, stream=stream)
            loaded["add"].launch(a, a, out, 100, grid=1, block=128, cooperative=True)
        device.synchronize()
        assert out.tolist() == [2.0 * x for x in range(100)]
        launches = [name for name in names if name.startswith("cuLaunch")]  # some are tried again
        assert list(dict.fromkeys(launches)) == ["cuLaunchKernel", "cuLaunchCooperativeKernel"] and len(launches) <= 3
        assert list(loaded) == ["add"] and "nope" not in loaded
        assert [p.type for p in loaded["add"].parameters] == ["u64"] * 3 + ["u32"]
        for use in (lambda: loaded["add"].launch(a, a, out, 100, grid=2, block=128, cluster=2),
                    lambda: rawcuda.cu.cuFuncGetParamInfo):
            try:
                use()
            except rawcuda.SymbolNotFound as error:
                print(error)
        memory = device.allocate(64, stream=stream)
        memory.close()
        with stream.capture() as graph:
            loaded["add"].launch(a, a, out, 100, grid=1, block=128, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        import ctypes
        cu, found = rawcuda.cu, []
        for options in ({}, {"cooperative": True}):
            node = cu.CUgraphNode(graph.kernel(loaded["add"], a, a, out, 100, grid=1, block=128, **options).handle)
            value = cu.CUlaunchAttributeValue()
            cu.cuGraphKernelNodeGetAttribute(node, cu.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, ctypes.byref(value))
            found.append(value.cooperative)
        assert found == [0, 1], found
    """
    )
    assert result.returncode == 0, result.stderr
    assert "cuLaunchKernelEx: <driver Old> lacks it" in result.stdout and "CUDA 11.8 added it" in result.stdout
    assert "cuFuncGetParamInfo: <driver Old> lacks it" in result.stdout and "CUDA 12.4 added it" in result.stdout


def test_code_whose_parameters_nobody_tells_must_be_declared(python):
    result = python(
        OLD
        + """
    module("gpu.kernels.signature").kernels = lambda text: {}        # as with a cubin
    with device.load(kernels.echo(".u32")) as loaded, device.allocate(16) as out:
        try:
            loaded["echo"].launch(out, 5, grid=1, block=1)
        except TypeError as error:
            print(error)
        loaded.kernel("echo", parameters=["pointer", "uint32"]).launch(out, 5, grid=1, block=1)
        device.synchronize()
        got = bytearray(16)
        out.copy_to(got)
        print(got[0])
    """
    )
    assert result.returncode == 0, result.stderr
    said, got = result.stdout.splitlines()
    assert (
        "kernel echo: neither the code nor the driver lists its parameters" in said
        and "module.kernel('echo', parameters=[...])" in said
    )
    assert got == "5"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_before_the_first_call_has_its_own_driver(python):
    result = python("""
        import os, warnings
        from tests.subject import rawcuda
        pid = os.fork()
        with rawcuda.Device(0).allocate(8) as memory:
            memory.copy_from(b"12345678")
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """)
    assert (result.stderr, result.returncode) == ("", 0)


@pytest.mark.parametrize("closing", ["", "for thing in things: thing.close()", "del things, launch"])
def test_exit_with_work_pending_is_quiet(python, closing):
    result = python(f"""
        import array
        from tests.driver import kernels
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        things = [device.load(kernels.ADD), device.stream(), device.event(), device.allocate(1 << 16, kind="pinned"),
                  device.allocate(1 << 16, kind="managed"), device.empty(4096, "float32").owner]
        a = device.upload(array.array("f", [1.0] * 4096))
        launch = things[0]["add"].configure(grid=16, block=256, stream=things[1])
        for _ in range(3):
            launch(a, a, a, 4096)
        a.copy_to(rawcuda.view(things[3])[:16384].reinterpret("float32"), stream=things[1])
        ordered = device.allocate(64, stream=things[1])
        {closing}
    """)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_exit_from_a_thread_and_with_an_exception(python):
    result = python("""
        import threading, time
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        kept = [device.allocate(64), device.stream()]
        threading.Thread(target=lambda: [device.allocate(64) for _ in range(50)], daemon=True).start()
        raise SystemExit("as wished")
    """)
    assert (result.stdout, result.stderr, result.returncode) == ("", "as wished\n", 1)


def test_a_sticky_error_stays(python):
    result = python("""
        from tests.driver import kernels
        from tests.subject import rawcuda, module as submodule
        tests_cuda_h = submodule("headers.cuda_h")
        device = rawcuda.Device(0)
        memory, module = device.allocate(8), device.load(kernels.FAULT)
        module["fault"].launch(grid=1, block=1)
        def lost(use):
            try:
                use()
            except rawcuda.ContextLost as error:
                print(error.name, error.code)
                assert isinstance(error, RuntimeError) and "estart" in str(error)
        lost(device.synchronize)
        lost(lambda: device.allocate(8))
        lost(lambda: memory.copy_from(b"12345678"))
        lost(lambda: module["fault"].launch(grid=1, block=1))
        memory.close()
        module.close()
        device.close()
        import ctypes
        context = tests_cuda_h.CUcontext()
        rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
        assert context.value is None, "a context is left pushed"
    """)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert result.stdout == "CUDA_ERROR_ILLEGAL_ADDRESS 700\n" * 4


@pytest.mark.emulator_only("a GPU gives only the code")
def test_the_emulator_says_what_happened(python):
    result = python("""
        from tests.driver import kernels
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        device.load(kernels.FAULT)["fault"].launch(grid=1, block=1)
        try:
            device.synchronize()
        except rawcuda.ContextLost as error:
            print(error)
    """)
    assert "fault" in result.stdout and "line 9" in result.stdout and "0x10" in result.stdout, (
        result.stdout + result.stderr
    )


def test_subinterpreters_are_refused_before_anything_is_made(python):
    """From 3.13 on in one with a lock of its own, too: ctypes cannot be imported there before."""
    if sys.version_info < (3, 12):
        pytest.skip("ctypes first loads in a subinterpreter with its own state in 3.12")
    result = python("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import sys
        code = '''
        import sys
        sys.path[:] = %r
        from tests.subject import NAME, rawcuda
        for use in (
            lambda: rawcuda.use("emulator"),
            lambda: rawcuda.use("nvidia"),
            lambda: rawcuda.Device(0),
            lambda: rawcuda.devices(),
            lambda: rawcuda.cu.cuInit(0),
        ):
            try:
                print("went through", use())
            except RuntimeError as error:
                print(error, flush=True)
        print([name for name in sys.modules if name.startswith(NAME + ".emulator")], flush=True)
        ''' % sys.path
        import textwrap
        if sys.version_info < (3, 13):
            made = [interpreters.create(isolated=False)]
        else:
            made = [interpreters.create(kind) for kind in ("legacy", "isolated")]
        for ident in made:
            failed = interpreters.run_string(ident, textwrap.dedent(code))
            if failed:
                print(failed.formatted)
    """)
    said = result.stdout + result.stderr
    count = 1 if sys.version_info < (3, 13) else 2
    assert said.count("this is a subinterpreter") == 5 * count and said.count("\n[]\n") == count, said


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on callbacks of ctypes return there")
def test_host_views_in_a_subinterpreter_work_or_are_refused(python):
    """No callback of ctypes may be called there: it would wait for ever for the GIL."""
    result = python("""
        import sys, textwrap
        import _xxsubinterpreters as interpreters
        code = '''
        import sys
        sys.path[:] = %r
        from tests.subject import rawcuda
        for view in rawcuda.view(bytearray(b"12345678")), rawcuda.view(memoryview(bytearray(8))[::2]):
            for version in (1, 0), None:
                capsule = view.__dlpack__(max_version=version)
                again = rawcuda.view(capsule)
                assert again.tolist() == view.tolist()
                del capsule, again
                capsule = view.__dlpack__(max_version=version)
                del capsule
            assert view.memoryview().tolist() == view.tolist()
        for use in (lambda: rawcuda.use("emulator"), lambda: rawcuda.Device(0)):
            try:
                use()
            except RuntimeError as error:
                print(error, flush=True)
        print("the end", flush=True)
        ''' % sys.path
        interpreters.run_string(interpreters.create(), textwrap.dedent(code))
    """)
    said = result.stdout + result.stderr
    assert "the end" in said and said.count("the driver works in the main interpreter only") == 2, said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_host_views_stay_usable_in_a_forked_child(python):
    """Whatever protocol they came by; what needs the driver raises ForkedAfterInit."""
    pytest.importorskip("numpy")
    python(
        """
        import array, copy, os, pickle, sys, warnings
        from tests.subject import rawcuda
        warnings.simplefilter("ignore")
        import numpy as np
        device = rawcuda.Device(0)
        there, a = device.upload(np.ones(3, "f4")), np.arange(6, dtype="f4")
        views = [rawcuda.view(a, protocol=name) for name in (None, "dlpack", "array_interface", "buffer")]
        views += [rawcuda.view(array.array("f", range(6))), rawcuda.view(a).copy()]
        child = os.fork()
        if not child:
            status = 1
            try:
                for v in views:
                    v[0] = 5
                    v.fill(2)
                    rawcuda.copy(v, v)
                    rawcuda.copy(a, v)
                    made = [v.tolist(), v.copy().tolist(), np.asarray(v).tolist(), np.from_dlpack(v).tolist()]
                    made += [v.memoryview().tolist(), v.astype("i4").tolist(), copy.deepcopy(v).tolist()]
                    made += [pickle.loads(pickle.dumps(v)).tolist(), rawcuda.view(v).tolist()]
                    assert made == [[2.0] * 6] * 9, made
                assert rawcuda.view(np.ones(2)).tolist() == [1.0, 1.0]
                for use in (there.tolist, there.download, lambda: device.upload(a), device.stream,
                            lambda: there[0] == 1, lambda: pickle.dumps(there), lambda: rawcuda.copy(a, there)):
                    try:
                        use()
                    except rawcuda.ForkedAfterInit:
                        pass
                    else:
                        raise AssertionError("not refused")
                status = 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert there.tolist() == [1.0] * 3
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_launch_of_a_graph_in_a_forked_child_names_its_call(python):
    result = python(
        """
        import os
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        graph = device.graph()
        graph.fill(device.zeros(3, "float32"), 1)
        executable = graph.instantiate()
        child = os.fork()
        if not child:
            status = 1
            try:
                executable.launch()
            except rawcuda.ForkedAfterInit as error:
                status = 0 if str(error).startswith("cuGraphLaunch: ") else 2
            finally:
                os._exit(status)
        print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
        """
    )
    assert (result.stdout, result.returncode) == ("0\n", 0), result.stderr


@pytest.mark.emulator_only("its kernels run in the thread that waits for them, which Python ends at any place")
def test_a_finalizer_that_waits_for_a_thread_that_has_ended_does_not_hang(python):
    """At the interpreter's end, daemon threads have ended in the middle of a kernel, or with a lock held."""
    result = python(
        """
        import builtins, threading, time
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        kernel = device.load('''.version 8.0
        .target sm_80
        .address_size 64
        .visible .entry spin(.param .u64 p){ .reg .pred %p; .reg .u32 %r<3>; mov.u32 %r1, 0;
        L: add.u32 %r1,%r1,1; setp.lt.u32 %p,%r1,300000; @%p bra L; ret; }
        ''')["spin"]
        memory, stream = device.allocate(100), device.stream()
        class Late:
            def __del__(self):
                for act in (memory.close, stream.synchronize, device.synchronize, lambda: device.allocate(5)):
                    try:
                        act()
                    except Exception:  # modules may be gone, too
                        pass
                print("ended")
        builtins.late = Late()
        def work():
            while True:
                kernel.launch(memory, grid=1, block=1)
                device.synchronize()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        """
    )
    assert "ended" in result.stdout
