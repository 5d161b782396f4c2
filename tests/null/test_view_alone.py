"""Views of host memory need no CUDA: no driver, no module that uses a driver, and little time for the import."""

from __future__ import annotations

import pytest

from tests.subject import NAME, module, rawcuda

NEEDS_CUDA = ("driver", "headers", "locate", "gpu", "emulator")


def test_everything_of_host_memory_without_the_files_that_know_a_driver(python):
    result = python(
        f"""
        import sys
        sys.path.insert(0, {str(__file__).partition("/tests/")[0]!r})

        class Refuses:
            def find_spec(self, name, path=None, target=None):
                if name.startswith({NAME!r} + ".") and name[len({NAME!r}) + 1:].partition(".")[0] in {NEEDS_CUDA!r}:
                    raise ImportError(name + " must not be imported for host memory")
        sys.meta_path.insert(0, Refuses())

        import array, gc
        from tests.subject import rawcuda
        from tests.null.producers import Exporter, Tensor, Shows
        v = rawcuda.view(array.array("f", range(24))).reshape(2, 3, 4)
        w = v[:, ::-1, ::2].T
        assert w.download().tolist() == w.tolist()
        v[0, 0] = 7
        v[1].copy_from(v[0])
        rawcuda.copy(bytearray(6), b"abcdef")
        rawcuda.copy(v[..., 0], v[..., 1])
        v.reinterpret("uint8").fill(3)
        capsule = v.__dlpack__(max_version=(1, 0))
        assert rawcuda.view(capsule).tolist() == v.tolist() == rawcuda.view(v.memoryview()).tolist()
        by_interface = rawcuda.view(v, protocol="array_interface")
        assert by_interface.tolist() == rawcuda.view(v, protocol="dlpack_c_exchange").tolist()
        assert rawcuda.view(Exporter(Tensor())).shape == (2, 3)
        assert v.__dlpack__(copy=True, max_version=(1, 0), dl_device=(1, 0)) is not None
        view = rawcuda.view(Shows(host={{"shape": (2,), "typestr": "|u1", "version": 3, "data": bytearray(4)}}))
        assert view.tolist() == [0, 0]
        loaded = [name for name in sys.modules if name.startswith({NAME!r} + ".")]
        assert not [name for name in loaded if name[len({NAME!r}) + 1:].partition(".")[0] in {NEEDS_CUDA!r}]
        print("alone", len(loaded))
    """,
        env={"RAWCUDA_DRIVER": None},
    )
    assert result.returncode == 0 and result.stdout.startswith("alone"), result.stderr


def test_dlpack_alone_is_few_files(python):
    result = python(
        """
        import sys
        from tests.subject import NAME, module
        module("dlpack")
        print(sorted(name[len(NAME) + 1:] for name in sys.modules if name.startswith(NAME + ".")))
    """,
        env={"RAWCUDA_DRIVER": None},
    )
    assert (
        result.stdout
        == "['dlpack', 'errors', 'interpreter', 'interpreter.callback', 'interpreter.covering', 'interpreter.cpython', "
        "'tracing']\n"
    ), (result.stdout, result.stderr)


def test_nothing_is_made_until_something_is_exported(python):
    result = python(
        """
        import atexit, sys
        registered = []
        atexit.register = lambda function, *rest: registered.append(function)
        from tests.subject import rawcuda, module
        v = rawcuda.view(bytearray(6))
        v.tolist(), v.download(), v.T
        dlpack = module("dlpack")
        assert dlpack._exports is None and not registered and "numpy" not in sys.modules and "typing" not in sys.modules
        v.__dlpack__()
        assert dlpack._exports is not None and len(registered) == 1
        print("late")
    """,
        env={"RAWCUDA_DRIVER": None},
        flags=("-S",),
    )
    assert result.stdout == "late\n", result.stderr


@pytest.mark.parametrize(
    "name", ["re", "enum", "typing", "inspect", "dataclasses", "logging", "contextlib", "numpy", "collections.abc"]
)
def test_no_heavy_import_for_a_view(python, name):
    result = python(
        f"""
        import sys
        import ctypes, struct
        before = set(sys.modules)
        from tests.subject import rawcuda
        subject = set(sys.modules)
        rawcuda.view(bytearray(6)).tolist()
        new = set(sys.modules) - subject
        assert {name!r} not in new, sorted(new)
        theirs = "warnings _py_warnings ctypes._layout math.integer _math_integer".split()  # since 3.14, 3.15
        print(len([name for name in new if name not in theirs]))
    """,
        env={"RAWCUDA_DRIVER": None},
        flags=("-S",),
    )
    assert result.returncode == 0 and int(result.stdout) <= 27, result.stderr


@pytest.mark.parametrize(
    "exporter, others",
    [
        ("bytearray(6)", ["dlpack", "array_interface", "cuda_array_interface", "dlpack_c_exchange"]),
        ("numpy.zeros(6)", ["buffer", "array_interface", "cuda_array_interface", "dlpack_c_exchange"]),
    ],
)
def test_a_first_view_imports_only_the_protocol_that_it_uses(python, exporter, others):
    if "numpy" in exporter:
        numpy = pytest.importorskip("numpy")
        if numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0":
            pytest.skip("it is read by the general reader")
    result = python(
        f"""
        import sys
        {"import numpy" if "numpy" in exporter else ""}
        from tests.subject import NAME, rawcuda
        before = set(sys.modules)
        heavy = {{"difflib", "functools", "importlib", "operator", "collections", "warnings"}}
        if sys.version_info >= (3, 14):
            heavy.remove("warnings")  # ctypes imports it for the first Structure
        rawcuda.view({exporter})
        for name in {others!r}:
            assert f"{{NAME}}.protocols.{{name}}" not in sys.modules, name
        heavy &= set(sys.modules) - before
        assert not heavy, heavy
    """,
        env={"RAWCUDA_DRIVER": None},
    )
    assert result.returncode == 0, result.stderr


def test_a_view_has_no_dict():
    v = rawcuda.view(bytearray(6))
    assert not hasattr(v, "__dict__")
    with pytest.raises(AttributeError):
        v.anything = 1
    assert module("protocols.description").Description.__slots__ == (
        "_ptr",
        "_shape",
        "_strides",
        "_dtype",
        "_place",
        "_owner",
        "stream",
        "_side",
    )
