"""The places where a driver is searched for: never the current directory, and each with a reason."""

import os
import sys

import pytest

from tests.subject import module

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
    for name in ("bin/ptxas", "lib64/libnvrtc.so.13"):
        (tmp_path / "kit" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kit" / name).touch(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "kit"))
    assert locate.ptxas()[0] == (str(tmp_path / "kit/bin/ptxas"), "the environment's CUDA_HOME")
    assert locate.nvrtc()[0][0] == str(tmp_path / "kit/lib64/libnvrtc.so.13")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_HOME", "kit")
    monkeypatch.setenv("PATH", "kit/bin")
    assert all(str(tmp_path) not in os.path.realpath(path) for path, _ in locate.ptxas() + locate.nvrtc())


def test_folders_that_cannot_be_read_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "nvidia").write_text("a file")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "some.zip"), "", "relative"])
    assert all(str(tmp_path) not in path for path, _ in locate.nvrtc() + locate.ptxas())


def test_mapped_file_tells_what_the_loader_chose():
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("no /proc here")
    assert locate.mapped_file("libc.so.6").endswith("/libc.so.6") and os.path.isabs(locate.mapped_file("libc.so.6"))
    assert locate.mapped_file("libnosuchthing") == ""
