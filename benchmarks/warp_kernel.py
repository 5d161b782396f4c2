"""A kernel for Warp, which reads its source from a file."""

from __future__ import annotations

import warp as wp


@wp.kernel
def nothing(a: wp.array(dtype=wp.float32), n: wp.int32):  # type: ignore[valid-type]
    i = wp.tid()
    if i >= n:
        a[i] = 0.0


def prepare() -> tuple[object, list[object]]:
    """Return the kernel and its arguments, on the first GPU."""
    wp.init()
    return nothing, [wp.zeros(120, dtype=wp.float32, device="cuda:0"), 0]
