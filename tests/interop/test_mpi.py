"""integrations.mpi with a real MPI: device memory through page-locked memory, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, NAME

pytest.importorskip("mpi4py")
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.skipif(NAME != "rawcuda", reason="the text names the original"),
]
START = """
import array, os, pytest
from mpi4py import MPI
import rawcuda
from rawcuda.integrations import mpi
comm, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank

def say(*things):  # a file for each rank: mpiexec mixes what the ranks print, even within a line
    with open(os.path.join(os.environ["SAID"], str(rank)), "a") as file:
        print(*things, file=file)
"""


def run(text: str, ranks: int, folder: Path, mode: str = "eager") -> list[str]:
    """Run a text in several ranks, and return the lines that they say, sorted."""
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": mode}
    env["SAID"] = str(folder)
    result = subprocess.run(
        [str(MPIEXEC), "-n", str(ranks), sys.executable, "-c", START + text],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(line for file in folder.iterdir() for line in file.read_text().splitlines())


@pytest.mark.parametrize("mode", ["eager", "lazy", "random=4"])
def test_device_memory_travels(mode: str, tmp_path: Path) -> None:
    said = run(
        """
device = rawcuda.Device(0)
stream = device.stream()
for make in (lambda x: x, lambda x: x.T, lambda x: x[1:2]):
    there = make(device.upload(rawcuda.view(array.array("f", range(6))).reshape(2, 3)))
    if rank == 0:
        there.fill(7, stream=stream)
        with mpi.buffer(there, comm, "send", stream=stream) as data:
            comm.Send(data, dest=1)
    else:
        buffer = mpi.buffer(there, comm, "receive", stream=stream)
        with buffer as data:
            comm.Recv(data, source=0)
        say(buffer.staged, there.tolist() == [[7.0] * there.shape[1]] * there.shape[0])
    there.fill(3)
    if rank == 0:
        comm.Send(array.array("f", [8]), dest=1)
    else:
        with mpi.buffer(there, comm, "receive") as data:
            comm.Recv(data, source=0)  # a message that is shorter than the array
        assert sorted(sum(there.tolist(), [])) == [3.0] * (there.size - 1) + [8.0]
for kind in ("pinned", "managed"):  # the host reads these where they are, but not before the stream has written them
    there = device.allocate(24, kind=kind).view("float32")
    source = device.upload(array.array("f", [5] * 6))
    device.synchronize()
    there.copy_from(source, stream=stream)
    with mpi.buffer(there, comm, "send", stream=stream) as data:
        assert comm.allgather(data.tolist()) == [[5.0] * 6] * 2
total = device.upload(array.array("q", [rank + 1] * 3))
with mpi.buffer(total, comm) as data:
    comm.Allreduce(MPI.IN_PLACE, data)
host = array.array("d", [rank])
with mpi.buffer(host, comm) as data:
    comm.Bcast(data, root=1)
empty = device.empty(0, "float32")
with mpi.buffer(empty, comm) as data:
    comm.Bcast(data, root=0)
say(total.tolist(), host.tolist())
        """,
        2,
        tmp_path,
        mode,
    )
    assert said == ["True True"] * 3 + ["[3, 3, 3] [1.0]"] * 2


def test_what_is_refused(tmp_path: Path) -> None:
    said = run(
        """
device = rawcuda.Device(0)
view = device.upload(array.array("f", range(6))).reshape(2, 3)
freed = comm.Dup()
freed.Free()
for bad, error, words in ((freed, ValueError, "freed"), (MPI.COMM_NULL, ValueError, "COMM_NULL"),
                          (None, TypeError, "communicator"), (5, TypeError, "communicator")):
    with pytest.raises(error, match=words):
        mpi.buffer(view, bad)
    with pytest.raises(error, match=words):
        mpi.uses_device_memory(bad)
with pytest.raises(ValueError, match="gaps"):
    mpi.buffer(view[:, :2], comm)
with pytest.raises(ValueError, match="way='up'"):
    mpi.buffer(view, comm, "up")
with pytest.raises(rawcuda.ProtocolError, match="read"):
    mpi.buffer(b"1234", comm)
with mpi.buffer(b"1234", comm, "send") as data:
    assert bytes(data) == b"1234"
closed = device.allocate(8)
kept = closed.view()
closed.close()
with pytest.raises(rawcuda.Closed), mpi.buffer(kept, comm):
    pass
before = view.tolist()
with pytest.raises(ZeroDivisionError), mpi.buffer(view, comm) as data:
    data[0] = 9
    1 / 0
assert view.tolist() == before  # what a failed call left is not copied back
assert not mpi.uses_device_memory(comm)
say("refused")
        """,
        1,
        tmp_path,
    )
    assert said == ["refused"]


def test_an_mpi_that_lists_cuda_gets_the_view_itself(tmp_path: Path) -> None:
    """No MPI of a package index lists it, so the communicator is a stand-in."""
    said = run(
        """
class Info(dict):
    Get = dict.get
    def Free(self):
        pass

class Communicator:
    def __init__(self, kinds):
        self.kinds = kinds
    def Get_rank(self):
        return 0
    def Get_info(self):
        return Info(mpi_memory_alloc_kinds=self.kinds) if self.kinds is not None else Info()

view = rawcuda.Device(0).upload(array.array("f", range(6))).reshape(2, 3)
for kinds, expected in (("system,mpi,cuda:device:pinned", True), ("cuda", True), ("system, cuda", True),
                        ("system,mpi", False), ("xcuda,cudax", False), ("cuda:host", False), (None, False)):
    assert mpi.uses_device_memory(Communicator(kinds)) is expected
    buffer = mpi.buffer(view, Communicator(kinds))
    assert buffer.staged is not expected
    with buffer as data:
        assert (data.ptr == view.ptr) is expected
say("right")
        """,
        1,
        tmp_path,
    )
    assert said == ["right"]


def test_the_example_is_there() -> None:
    assert (Path(CHECKOUT) / "examples" / "engines" / "mpi_blocks.py").exists()
