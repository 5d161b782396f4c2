"""Functions that other software calls when it is imported, through entry points in this package's metadata.

What it is   `preload`, for Dask. It may import only Dask's configuration, because Dask calls it before its own import
             is complete.
Source       Dask, "Configuration": preload; the entry points of the group "dask.sizeof"
Read next    dask.py
"""

from __future__ import annotations

__all__ = ["preload"]


def preload(_: object) -> None:
    """Let Dask's clients and workers import integrations/dask.py when they start, through Dask's configuration."""
    from dask import config  # type: ignore[import-not-found,unused-ignore]

    name = f"{__package__}.dask"
    for place in ("distributed.worker.preload", "distributed.client.preload"):
        known = config.get(place, []) or []  # (a setting without a value is None)
        if isinstance(known, str):
            known = [known]
        else:
            known = list(known)
        if name not in known:
            config.set({place: [*known, name]})
