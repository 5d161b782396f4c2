"""All entry points: importing this module imports every room, and each adds its own to the table.

Read next    thunks.py
"""
from __future__ import annotations

from . import (captures, contexts, copies, devices, graphs, launches, libraries, memory, modules, occupancy, pools, sharing,
               streams)
from .thunks import ENTRIES, serve

__all__ = ["ENTRIES", "serve", "captures", "contexts", "copies", "devices", "graphs", "launches", "libraries", "memory",
           "modules", "occupancy", "pools", "sharing", "streams"]
