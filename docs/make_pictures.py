"""Draw the pictures of the course, from live objects and real traces: PYTHONPATH=. python3 docs/make_pictures.py [FOLDER]

A layout's picture is the same each time. A trace has other addresses and times each time; so those are drawn again only when the
drawing has changed.
"""

import array
import sys
from pathlib import Path

import rawcuda
from rawcuda.emulator import Emulator
from rawcuda.tools.pictures import trace_picture, view_picture
from rawcuda.tracing import Call


def layouts():
    """Return the pictures of chapter 4."""
    a = rawcuda.view(array.array("h", [0, 1, 2, 3, 4, 5])).reshape(2, 3)
    return {"transposed": view_picture(a.T), "gaps": view_picture(a[:, ::2])}


def traces():
    """Return the pictures of chapters 2 and 8."""
    device = rawcuda.Device(0)
    source, back = (device.allocate(4, kind="pinned") for _ in range(2))
    target = device.allocate(4)
    stream, other = device.stream(), device.stream()
    lanes = []
    with rawcuda.trace(lanes):
        rawcuda.copy(target.view(), source.view(), stream=stream)
        copied = stream.record()
        other.wait(copied)
        rawcuda.copy(back.view(), target.view(), stream=other)  # new views: they know of no stream yet
        other.synchronize()
    v = rawcuda.view(array.array("f", [1, 2, 3]))
    life = []
    with rawcuda.trace(life):
        capsule = v.__dlpack__(max_version=(1, 3))
        taken = rawcuda.view(capsule)
        del capsule
        del taken
    return {
        "lanes": trace_picture([event for event in lanes if isinstance(event, Call)]),
        "capsule": trace_picture(life),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("pictures")
    rawcuda.use(Emulator("lazy"))
    for name, picture in {**layouts(), **traces()}.items():
        (folder / f"{name}.svg").write_text(picture, "utf-8")
        print(folder / f"{name}.svg")
