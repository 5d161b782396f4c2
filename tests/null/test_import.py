"""Importing has no effect: no library, no NumPy, no environment read, nothing changed or registered; and it is fast."""

from __future__ import annotations

from types import ModuleType
from typing import Callable

import pytest

from tests.conftest import Python
from tests.null.test_layers import PATHS
from tests.subject import NAME, ROOT, module, rawcuda

# Find the effects of a statement on the process; `before` is taken after ctypes was imported.
WATCH = """
    import atexit, ctypes, importlib, os, signal, sys, sysconfig, threading

    ROOT, NAME = sys.argv[1:3]
    sys.path.insert(0, ROOT)
    events, reads = [], []

    class Watched(type(os.environ)):
        def __getitem__(self, key):
            reads.append(key)
            return super().__getitem__(key)
        def __contains__(self, key):
            reads.append(key)
            return super().__contains__(key)
        def __iter__(self):
            reads.append("all of it")
            return super().__iter__()
    os.environ.__class__ = Watched

    def hook(event, arguments):
        if event == "ctypes.dlopen" and arguments[0] is not None \
                or event in ("os.putenv", "os.unsetenv", "os.system", "os.fork", "subprocess.Popen",
                             "socket.__new__", "sys.addaudithook", "mmap.__new__") \\
                or event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so", ".pyd")):
            events.append((event, arguments))
    sys.addaudithook(hook)

    def register_at_fork(**functions):               # the standard library's own random does it, too
        if sys._getframe(1).f_code.co_filename.startswith(ROOT):
            events.append(("os.register_at_fork", functions))
    os.register_at_fork = register_at_fork

    def state():
        api = ctypes.pythonapi
        functions = {name: function for name, function in vars(api).items() if name.startswith("Py")}
        own = {name: (function.argtypes, function.restype) for name, function in functions.items()}
        maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
        return {
            "shared libraries": {line.split()[-1] for line in maps.splitlines() if ".so" in line},
            "sys.path": list(sys.path),
            "environment": dict(os.environ._data),
            "ctypes.pythonapi": own,
            "atexit": atexit._ncallbacks(),
            "threads": threading.active_count(),
            "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, list(sys.meta_path), list(sys.path_hooks)),
            "Ctrl-C": signal.getsignal(signal.SIGINT),
            "NumPy": "numpy" in sys.modules,
        }

    standard = sysconfig.get_path("platstdlib"), sysconfig.get_path("stdlib")
    before, modules = state(), set(sys.modules)
    del events[:], reads[:]
"""


def test_importing_the_package_changes_nothing(python: Python) -> None:
    result = python(
        WATCH
        + """
    importlib.import_module(NAME)
    seen, read, added = list(events), list(reads), sorted(set(sys.modules) - modules)
    after = state()
    assert not seen and not read, (seen, read)
    assert after == before, {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    parents = NAME.count(".")                        # a vendored copy brings in the packages that it lies in
    print(len(added) - parents, *added)
    """,
        str(ROOT),
        NAME,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[0]) <= 12, result.stdout


def test_importing_every_module_loads_no_library(python: Python) -> None:
    """A module may load compiled modules of the standard library, and no other library."""
    names = [name for name in PATHS if not name.endswith("__main__")]
    result = python(
        WATCH
        + """
    for name in sys.argv[3:]:
        importlib.import_module(NAME + "." + name)
    # subprocess, of the standard library, reads one variable when it is imported, from Python 3.14 on
    seen, read = list(events), [name for name in reads if name != "_PYTHON_SUBPROCESS_USE_POSIX_SPAWN"]
    files = [getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - modules]
    strangers = [path for path in files if path and (not path.startswith((ROOT, *standard)) or "site-packages" in path)]
    after = state()
    libraries = after.pop("shared libraries") - before.pop("shared libraries")
    libraries = {path for path in libraries if "lib-dynload" not in path}
    assert not seen and not read, (seen, read)
    assert not strangers, strangers
    print(*sorted(libraries))
    assert after == before, {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    """,
        str(ROOT),
        NAME,
        *filter(None, names),
    )
    assert result.returncode == 0, result.stderr
    assert all(is_of_the_standard_library(path) for path in result.stdout.split()), result.stdout


def is_of_the_standard_library(path: str) -> bool:
    """Tell whether a compiled module of the standard library needs this library, such as libcrypto for hashlib."""
    return not any(word in path for word in ("cuda", "nvidia", "numpy", str(ROOT)))


def test_the_package_loads_a_module_only_when_a_name_of_it_is_used(python: Python) -> None:
    result = python("""
        import sys
        from tests.subject import NAME, rawcuda
        loaded = lambda: {name[len(NAME) + 1:] for name in sys.modules if name.startswith(NAME + ".")}
        assert loaded() == set(), loaded()
        rawcuda.CudaError
        assert loaded() == {"errors"}, loaded()
    """)
    assert result.returncode == 0, result.stderr


def test_dir_and_all_are_complete(python: Python) -> None:
    result = python(
        """
        from tests.subject import rawcuda
        public = set(rawcuda.__all__)
        assert len(public) == len(rawcuda.__all__), "a name twice"
        assert public <= set(dir(rawcuda)), public - set(dir(rawcuda))
        for name in public:
            getattr(rawcuda, name)
        namespace = {}
        exec(f"from {rawcuda.__name__} import *", namespace)
        assert public <= set(namespace), public - set(namespace)
    """,
        env={"RAWCUDA_DRIVER": "emulator"},
    )
    assert result.returncode == 0, result.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        rawcuda.no_such_name
    assert not hasattr(rawcuda, "numpy")


@pytest.mark.parametrize(
    "name, meant", [("Devise", "Device"), ("veiw", "view"), ("_Device", ""), ("nothing_like_it", "")]
)
def test_a_misspelled_name_gets_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(rawcuda, name)
    assert str(raised.value).partition("did you mean ")[2] == (f"{meant}?" if meant else "")


def test_how_long_an_import_takes(python: Python, record_property: Callable[[str, object], None]) -> None:
    """The time is printed and not asserted, because machines differ."""
    result = python(
        """
        import subprocess, sys, time
        from tests.subject import NAME, ROOT
        def best(statement):
            code = f"import sys, time; sys.path.insert(0, {str(ROOT)!r}); start = time.perf_counter(); {statement}"
            command = [sys.executable, "-S", "-c", code + "; print(time.perf_counter() - start)"]
            run = lambda: float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            return min(run() for _ in range(7))
        alone, both = best("import ctypes"), best(f"import ctypes, {NAME}")
        more = f"{(both - alone) * 1e3:.1f} ms more, {both / alone:.2f} times"
        print(f"import ctypes {alone * 1e3:.1f} ms, and {NAME} {more}")
    """,
        check=True,
    )
    record_property("told", result.stdout.strip())


def test_a_late_module_is_imported_once_and_when_a_name_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []

    @module("late").Late
    def numbers() -> ModuleType:
        import fractions

        entered.append(fractions)
        return fractions

    assert not hasattr(numbers, "__wrapped__") and not entered
    assert numbers.Fraction(1, 2) * 2 == 1 and numbers.Fraction is entered[0].Fraction and len(entered) == 1
    monkeypatch.setattr(entered[0], "Fraction", int)
    assert numbers.Fraction is int and len(entered) == 1
    with pytest.raises(AttributeError):
        numbers.no_such_name


@pytest.mark.parametrize("run, error", [("-m", "SystemExit"), ("program.py", "ImportError")])
def test_an_old_python_is_told_which_it_needs(python: Python, run: str, error: str) -> None:
    """In one sentence: with -m, no traceback is shown, because the exception leaves the interpreter."""
    result = python(f"""
        import sys
        sys.version_info, sys.argv = (3, 8, 18), [{run!r}]
        try:
            import {NAME}
        except BaseException as error:
            print(type(error).__name__, error)
    """)
    assert result.stdout.startswith(f"{error} {NAME} needs Python 3.9 or later, and this is 3.8.18 ("), result.stderr


def test_an_import_that_uses_itself_and_fails_is_made_again(python: Python) -> None:
    """As by a signal handler that exports a view while the first one is exported: no view could be exported later."""
    code = """
        import sys
        from tests.subject import rawcuda
        a = rawcuda.view(bytearray(16))

        class Finder:
            def find_spec(self, name, path, target=None):
                if name.endswith("interpreter.buffer_type"):
                    sys.meta_path.remove(self)
                    a.__dlpack__()

        sys.meta_path.insert(0, Finder())
        for _ in range(2):
            try:
                print(type(a.__dlpack__()).__name__)
            except AttributeError as error:
                print("partially" in str(error))
    """
    assert python(code, check=True).stdout.split() == ["True", "PyCapsule"]
