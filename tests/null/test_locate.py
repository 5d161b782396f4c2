"""The places where a driver is searched for: never the current directory, and each with a reason."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.subject import CHECKOUT, module

locate = module("locate")


def test_each_place_is_absolute_or_a_bare_soname_and_has_a_reason():
    for path, why in locate.libcuda():
        assert (os.path.isabs(path) or os.sep not in path) and why


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's places")
def test_wsl_comes_first_and_only_there(monkeypatch):
    monkeypatch.setattr(locate, "_under_wsl", lambda: True)
    assert locate.libcuda()[0][0] == "/usr/lib/wsl/lib/libcuda.so.1"
    monkeypatch.setattr(locate, "_under_wsl", lambda: False)
    assert locate.libcuda()[0][0] == "libcuda.so.1"
    assert all("wsl" not in path for path, _ in locate.libcuda())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's places")
def test_jetsons_places_are_tried_where_they_are(monkeypatch):
    jetson = "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1"
    monkeypatch.setattr(os.path, "isfile", lambda path: path == jetson)
    assert [path for path, _ in locate.libcuda()][-1] == jetson


def test_windows_looks_only_into_system32(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    ((path, why),) = locate.libcuda()
    assert path.endswith("nvcuda.dll") and "System32" in path and "System32" in why


def test_tools_are_found_in_a_toolkit_and_never_in_a_relative_folder(tmp_path, monkeypatch):
    for name in ("kit/bin/ptxas", "kit/lib64/libnvrtc.so.13", "nvidia/x/bin/ptxas", "kit/nvidia/x/bin/ptxas"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "kit"))
    assert locate.ptxas()[0] == (str(tmp_path / "kit/bin/ptxas"), "the environment's CUDA_HOME")
    assert locate.nvrtc()[0][0] == str(tmp_path / "kit/lib64/libnvrtc.so.13")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_HOME", "kit")
    monkeypatch.setenv("PATH", "kit/bin")
    monkeypatch.setattr(sys, "path", ["", "kit", *sys.path])
    assert all(str(tmp_path) not in os.path.realpath(path) for path, _ in locate.ptxas() + locate.nvrtc())


def test_folders_that_cannot_be_read_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "nvidia").write_text("a file")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "some.zip"), "", "relative"])
    assert all(str(tmp_path) not in path for path, _ in locate.nvrtc() + locate.ptxas())


@pytest.mark.skipif(bool(locate.needs_glibc()), reason="glibc's library")
def test_mapped_file_tells_what_the_loader_chose():
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("no /proc here")
    assert locate.mapped_file("libc.so.6").endswith("/libc.so.6") and os.path.isabs(locate.mapped_file("libc.so.6"))
    assert locate.mapped_file("libnosuchthing") == ""


def plant(folder):
    """Put stand-ins for the compilers, which record that they were loaded or run, into a toolkit's folder."""
    ran = folder / "ran"
    for name in ("bin/nvcc", "bin/ptxas", "lib64/libnvrtc.so.13", "lib64/libnvJitLink.so.13"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch '{ran}'\necho release 13.0,\n")
        file.chmod(0o755)
    return ran


@pytest.mark.skipif(os.name != "posix", reason="Windows searches the current folder in other ways")
@pytest.mark.parametrize("path", ["", ".", ":", None])
def test_a_path_without_a_safe_folder_does_not_mean_the_current_one(tmp_path, monkeypatch, path):
    plant(tmp_path)
    monkeypatch.chdir(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin") if path is None else path)
    assert locate.environment()["PATH"] == os.defpath and locate.on_path("nvcc") == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_programs_get_no_list_of_folders_in_which_something_could_be_planted(tmp_path, monkeypatch, mode):
    assert tmp_path.stat().st_uid == os.geteuid()
    for name in ("open", "inside/below", "good", "here"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    (tmp_path / "inside").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    monkeypatch.chdir(tmp_path / "here")
    names = "PATH", "LD_LIBRARY_PATH", "COMPILER_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"
    for name in names:
        folders = [tmp_path / each for each in ("open", "good", "inside/below", "link", "here", "none")]
        monkeypatch.setenv(name, ":".join(["", *map(str, folders), "relative", "."]))
    made = locate.environment()
    assert {made[name] for name in names} == {f"{tmp_path}/good"}
    for name in names:
        monkeypatch.setenv(name, f"{tmp_path}/open")
    made = locate.environment()
    assert made["PATH"] == os.defpath and not made.keys() & set(names[1:])
    monkeypatch.setenv("LD_LIBRARY_PATH", f";{tmp_path}/good")
    assert locate.environment()["LD_LIBRARY_PATH"] == f"{tmp_path}/good"


def everywhere():
    """Return each place where something is found that could be loaded or run."""
    return [path for find in (locate.nvrtc, locate.nvjitlink, locate.nvcc, locate.ptxas) for path, _ in find()]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
@pytest.mark.parametrize("opened", ["", "bin", "bin/ptxas"])
def test_what_every_user_could_have_planted_is_refused(tmp_path, monkeypatch, opened):
    kit = tmp_path / "kit"
    plant(kit)
    monkeypatch.setenv("CUDA_HOME", str(kit))
    assert len([path for path in everywhere() if path.startswith(str(kit))]) == 4
    locate.refuse_planted(str(kit / "bin/ptxas"))
    (kit / opened).chmod(0o1777 if opened == "bin/ptxas" else 0o777)  # the sticky bit protects no file
    with pytest.raises(PermissionError, match="chmod o-w"):
        locate.refuse_planted(str(kit / "bin/ptxas"))
    (tmp_path / "link").symlink_to(kit / "bin/ptxas")
    with pytest.raises(PermissionError, match="chmod o-w"):
        locate.refuse_planted(str(tmp_path / "link"))


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
@pytest.mark.parametrize("form", ["absolute", "relative", "through another link", "up from a link"])
def test_no_link_on_the_way_may_be_exchanged_by_every_user(tmp_path, form):
    plant(tmp_path / "kit")
    shared = tmp_path / "shared"
    (shared / "inside").mkdir(parents=True)
    (shared / "current").symlink_to(tmp_path / "kit")
    (tmp_path / "alias").symlink_to(shared / "inside")
    target = {
        "absolute": shared / "current",
        "relative": "alias/../../shared/./current",
        "through another link": "next",
        "up from a link": "alias/../current",
    }[form]
    (tmp_path / "next").symlink_to("shared/current")
    (tmp_path / "cuda").symlink_to(target)
    path = str(tmp_path / "cuda/bin/ptxas")
    assert os.path.realpath(path) == os.path.realpath(tmp_path / "kit/bin/ptxas")
    locate.refuse_planted(path)
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod o-w"):
        locate.refuse_planted(path)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such links")
def test_links_that_become_a_loop_while_they_are_followed_are_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PermissionError, match="more than 40 links"):
        list(locate._followed(str(tmp_path / "loop")))


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_a_folder_with_the_sticky_bit_has_what_its_owner_put_there(tmp_path, monkeypatch):
    kit = tmp_path / "shared" / "kit"
    plant(kit)
    kit.parent.chmod(0o1777)
    locate.refuse_planted(str(kit / "bin/nvcc"))
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os, "lstat", lambda path, lstat=os.lstat: Owned(lstat(path)))
    with pytest.raises(PermissionError, match="by user 999"):
        locate.refuse_planted(str(kit / "bin/nvcc"))
    monkeypatch.undo()  # pytest deletes the folder before it would do this


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such links")
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="in a browser there are no owners of files")
def test_a_folder_that_a_path_leaves_again_counts(tmp_path, monkeypatch):
    """Its owner may put a link in its place, and `..` leads elsewhere then."""
    plant(tmp_path / "kit")
    (tmp_path / "shared" / "inside").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "alias").symlink_to("shared/inside")
    path = f"{tmp_path}/alias/../../kit/bin/ptxas"
    locate.refuse_planted(path)
    lstat, theirs = os.lstat, str(tmp_path / "shared" / "inside")
    monkeypatch.setattr(os, "lstat", lambda path: Owned(lstat(path)) if path == theirs else lstat(path))
    with pytest.raises(PermissionError, match="by user 999"):
        locate.refuse_planted(path)
    monkeypatch.undo()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no groups")
def test_a_private_folder_is_one_that_no_group_can_write_to(tmp_path):
    """Not even the group with the number of the user: others may be in it, and a list of rights sets the same bit."""
    folder = tmp_path / "cache"
    folder.mkdir()
    with suppress(PermissionError):  # (only root may give it to any group)
        os.chown(folder, -1, os.geteuid())
    folder.chmod(0o770)
    with pytest.raises(PermissionError, match=f"can be written by other users.*: chmod go-w {folder}$"):
        locate.refuse_planted(str(folder), private=True)
    locate.refuse_planted(str(folder))
    folder.chmod(0o750)
    locate.refuse_planted(str(folder), private=True)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_this_python_is_trusted_but_not_a_link_to_it(tmp_path, monkeypatch):
    """As trusted as itself are the modules of this Python, but not all of its prefix, which may be /usr."""
    prefix, open_to_all = tmp_path / "prefix", tmp_path / "open"
    installed = prefix / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/nvidia"
    plant(installed)
    plant(prefix / "local/cuda")
    installed.chmod(0o777)
    (prefix / "local/cuda").chmod(0o777)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    locate.refuse_planted(str(installed / "bin/nvcc"))
    for path, private in ((installed, True), (prefix / "local/cuda", False)):
        with pytest.raises(PermissionError, match="-w"):
            locate.refuse_planted(str(path / "bin/nvcc"), private=private)
    open_to_all.mkdir()
    (open_to_all / "nvcc").symlink_to(installed / "bin/nvcc")
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod o-w"):
        locate.refuse_planted(str(open_to_all / "nvcc"))


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_software_of_another_user_is_trusted_where_only_its_owner_can_write(tmp_path, monkeypatch):
    """As that of a computing centre, which belongs to an account of its own."""
    kit = tmp_path / "kit"
    plant(kit)
    (kit / "bin").chmod(0o775)
    for name in ("stat", "lstat"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path, real=real: of_another(path, real(path)))
    assert os.lstat(kit / "bin/nvcc").st_uid == 999
    locate.refuse_planted(str(kit / "bin/nvcc"))
    monkeypatch.undo()  # pytest deletes the folder before it would do this


def of_another(path, status):
    """Let everything in the folder "kit" belong to user 999."""
    return Owned(status) if f"{os.sep}kit" in str(path) else status


class Owned:
    """The status of a file that user 999 owns."""

    def __init__(self, status):
        self.st_uid, self.st_mode = 999, status.st_mode


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_nothing_planted_runs(tmp_path):
    """doctor, compile() and link() in a process of their own, which finds the planted files first."""
    ran = plant(tmp_path / "kit")
    (tmp_path / "kit").chmod(0o777)
    text = """
import subprocess
import sys
from tests.subject import module, rawcuda
sys.path[:] = [path for path in sys.path if "packages" not in path]
for act in (lambda: rawcuda.compile("x", target="sm_90"), lambda: module("tools.commands.doctor").main([])):
    try:
        act()
    except (rawcuda.CudaError, rawcuda.CompilerNotFound, SystemExit) as error:  # there may be another compiler
        pass
"""
    env = {**os.environ, "CUDA_HOME": str(tmp_path / "kit"), "PATH": str(tmp_path / "kit" / "bin")}
    env.pop("CUDA_PATH", None)
    done = subprocess.run([sys.executable, "-c", text], env=env, cwd=CHECKOUT, capture_output=True, text=True)
    said = "".join(done.stdout.split())  # without the breaks of lines
    assert said.count(f"chmodo-w{tmp_path / 'kit'}") == 4, done.stdout + done.stderr
    assert not ran.exists()


@pytest.mark.parametrize(
    ("visible", "hides"),
    [("", True), ("-1", True), (",0", True), ("-1,0", True), ("0", False), ("+1", False), ("NoDevFiles", False)]
    + [("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", False), ("MIG-GPU-1/2/3,0", False), ("_0", True)],
)
def test_a_value_of_cuda_visible_devices_that_names_a_gpu_does_not_hide_every_gpu(monkeypatch, visible, hides):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    (said,) = locate.hidden_gpus(real=False)
    assert repr(visible) in said and ("hides every GPU" in said) == hides


# -- the current folder, and bare sonames


@pytest.mark.skipif(os.name != "posix", reason="Linux's paths")
@pytest.mark.parametrize("form", ["absolute", "link", "empty", "dot"])
def test_the_current_folder_is_never_searched_however_it_got_into_a_path(tmp_path, monkeypatch, form):
    """A file is planted for each search; each path names the current folder in one of four ways."""
    here = tmp_path / "here"
    for name in ("nvcc", "ptxas", "nvidia/x/bin/nvcc", "nvidia/x/bin/ptxas", "nvidia/x/lib/libnvrtc.so.13",
                 "nvidia/x/lib/libnvJitLink.so.13", "nvidia/x/include/cuda_fp16.h", "libcuda.so.1"):  # fmt: skip
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch(0o755)
    (here / "nvidia/x/include/cuda.h").write_text("#define CUDA_VERSION 77000\n")
    (tmp_path / "link").symlink_to(here)
    named = {"absolute": str(here), "link": str(tmp_path / "link"), "empty": "", "dot": "."}[form]
    for variable in ("PATH", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(variable, f"{named}:{tmp_path}/none")
    monkeypatch.setattr(sys, "path", [named, *sys.path])

    def found():
        names = [*everywhere(), *locate.headers(77), *(path for path, _ in locate.searched())]
        return [path for path in [*names, *locate._loader_folders()] if str(here) in os.path.realpath(path)]

    if form in ("absolute", "link"):
        assert len(found()) == 9  # two of each program, a library of each kind, headers, two folders
    monkeypatch.chdir(here)
    assert found() == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's loader")
def test_a_bare_soname_is_looked_up_along_the_loaders_path(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "libnothing.so.7").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}/none;{folder}")
    with pytest.raises(OSError, match="libnothing"):
        locate.SharedLibrary("libnothing.so.7")
    folder.chmod(0o777)
    with pytest.raises(OSError, match=f"chmod o-w {folder}"):
        locate.SharedLibrary("libnothing.so.7")
    monkeypatch.setenv("LD_LIBRARY_PATH", ":")
    monkeypatch.chdir(folder)
    with pytest.raises(OSError, match="no folder"):
        locate.SharedLibrary("libnothing.so.7")
    assert locate.SharedLibrary("libc.so.6").address("malloc")  # loaded already


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's loader")
@pytest.mark.parametrize("below", ["", "glibc-hwcaps/x86-64-v2", "tls", "x86_64", "tls/haswell"])
def test_what_another_library_would_load_by_name_is_refused_where_it_is_planted(tmp_path, monkeypatch, below):
    name = "libnothing.so.7"
    folder = tmp_path / "folder"
    (folder / below).mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    locate.preload(name)  # there is none
    (folder / below / name).write_text("no library")
    locate.preload(name)  # it fails for the other library, too
    (folder / below).chmod(0o777)
    with pytest.raises(PermissionError, match=f"chmod o-w {folder / below}"):
        locate.preload(name)
    (folder / below).chmod(0o755)
    (folder / below / name).chmod(0o666)
    with pytest.raises(PermissionError, match=f"chmod o-w {folder / below / name}"):
        locate.preload(name)
    (folder / below / name).unlink()  # somebody may put it there later
    (folder / below).chmod(0o1777)
    with pytest.raises(PermissionError, match=f"chmod o-w {folder / below}"):
        locate.preload(name)
    if not below:
        (folder / "tls").symlink_to(".")  # it has no end
    (folder / below).chmod(0o755)
    locate.preload(name)
    monkeypatch.setenv("LD_LIBRARY_PATH", "")  # which is not the current folder
    monkeypatch.chdir(folder)
    locate.preload(name)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's loader")
@pytest.mark.parametrize("form", ["absolute", "empty", "relative", "at the start", "open", "missing"])
def test_a_folder_into_which_a_library_could_be_put_is_refused_before_it_is_there(tmp_path, monkeypatch, form):
    """The other library may ask later, when another folder is the current one."""
    everybodys = tmp_path / "everybody's"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    words = "current folder or a relative one.* take .* out of LD_LIBRARY_PATH"
    if form in ("open", "missing"):
        words = f"chmod o-w {everybodys}"
    listed = {"absolute": str(tmp_path), "relative": "a", "open": str(everybodys), "missing": f"{everybodys}/none/lib"}
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{listed.get(form, '')}:{tmp_path}/none")
    if form == "at the start":  # what the loader uses, whatever the environment says later
        monkeypatch.setattr(locate, "_at_start", lambda variable: {"LD_LIBRARY_PATH": ":"}[variable])
        monkeypatch.delenv("LD_LIBRARY_PATH")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PermissionError, match=words):
        locate.preload("libnothing.so.7")
    locate.preload("libc.so.6")  # loaded already


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
def test_the_environment_at_the_start_of_the_process():
    """Also if the program changes it later."""
    code = (
        "import os; from tests.subject import module\nos.environ['LD_LIBRARY_PATH'] = '/c'\n"
        "print([*module('locate')._configured_folders()][:3])"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": "/a:/b\udcff"}
    said = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environment, check=True, capture_output=True)
    assert said.stdout.decode("utf-8").strip() == repr(["/a", "/b\udcff", "/c"])


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's loader")
def test_the_loaders_configuration_is_read(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.conf").write_text("/a # words\n/b:/c,/d=libc6\n")
    (tmp_path / "ld.so.conf").write_text("include more/*.conf\ninclude ld.so.conf\nhwcap 1 x\n\n/e /f\n")
    folders = list(locate._configured(str(tmp_path / "ld.so.conf")))
    assert folders[:4] == ["/a", "/b", "/c", "/d"] and folders[-2:] == ["/e", "/f"]
    assert list(locate._configured(str(tmp_path / "none"))) == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_headers_that_every_user_could_have_planted_are_not_used(tmp_path, monkeypatch):
    include = tmp_path / "kit/include"
    include.mkdir(parents=True)
    (include / "cuda_fp16.h").touch()
    (include / "cuda.h").write_text("#define CUDA_VERSION 77000\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "kit"))
    assert locate.headers(77) == [str(include)]
    include.chmod(0o777)
    assert locate.headers(77) == []
    include.chmod(0o1777)  # where others can add files, a name may be theirs later
    assert locate.headers(77) == [] == locate.headers(77, with_files=False)
    include.chmod(0o755)
    (include / "crt").mkdir()
    (include / "crt/some.h").touch()
    for path, others in ((include / "crt/some.h", 0o002), (include / "crt", 0o002), (include / "crt", 0o1002)):
        mode = path.stat().st_mode
        path.chmod(mode | others)
        assert locate.headers(77) == []
        path.chmod(mode)
    assert locate.headers(77) == [str(include)]
    (tmp_path / "open.h").touch()
    (tmp_path / "open.h").chmod(0o666)
    (include / "crt/linked").symlink_to(tmp_path / "kit")
    (tmp_path / "kit/more").mkdir()
    assert locate.headers(77) == [str(include)]
    (tmp_path / "kit/more/some.h").touch()
    (tmp_path / "kit/more/some.h").chmod(0o666)
    assert locate.headers(77) == []
    (tmp_path / "kit/more/some.h").unlink()
    (include / "crt/linked.h").symlink_to(tmp_path / "open.h")
    assert locate.headers(77) == [] and locate.headers(77, with_files=False) == [str(include)]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_no_part_of_a_toolkit_may_be_planted(tmp_path):
    """nvcc runs and includes the files around it."""
    assert tmp_path.stat().st_uid == os.geteuid()
    kit = tmp_path / "kit"
    plant(kit)
    parts = [kit / name for name in ("bin/cudafe++", "nvvm/bin/cicc", "include/crt/some.h", "targets/x/include/a.h")]
    for part in parts:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    (tmp_path / "nvcc").symlink_to(kit / "bin/nvcc")
    for profile in (False, True):
        for part in [*parts, *(part.parent for part in parts)]:
            mode = part.stat().st_mode
            part.chmod(mode | 0o1002)
            if profile:
                with pytest.raises(PermissionError, match="chmod o-w"):
                    locate.refuse_toolkit(str(tmp_path / "nvcc"))
            elif part != kit / "bin":
                locate.refuse_toolkit(str(tmp_path / "nvcc"))  # a program of this name that is no toolkit's
            part.chmod(mode)
        locate.refuse_toolkit(str(tmp_path / "nvcc"))
        (kit / "bin/nvcc.profile").touch()


def _confstr(name):
    raise ValueError("unrecognized configuration name")  # as with musl


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere, NVIDIA's libraries are made for the system"
)
def test_with_another_c_library_the_remedy_is_another_python(monkeypatch, tmp_path):
    driver, program, linking = (module(name) for name in ("driver", "compiler.program", "compiler.linking"))
    monkeypatch.setattr(os, "confstr", _confstr, raising=False)
    monkeypatch.setattr(program, "_loaded", [])
    monkeypatch.setattr(linking, "_loaded", [])
    for kind in ("nvrtc", "nvcc", "nvjitlink"):
        monkeypatch.setattr(locate, kind, list)
    for search in (lambda: driver._load(str(tmp_path / "libcuda.so.1")), program.compiler, linking.linkers):
        with pytest.raises(module("errors").RawCudaError) as raised:
            search()
        assert "need glibc" in str(raised.value) and "use a Python for glibc" in str(raised.value)
        assert "nstall" not in str(raised.value)


@pytest.mark.parametrize("system", ["win32", "darwin", "emscripten"])
def test_only_on_linux_glibc_is_needed(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(os, "confstr", _confstr, raising=False)
    assert not locate.needs_glibc()
