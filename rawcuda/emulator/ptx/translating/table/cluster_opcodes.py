"""The rows of the opcode table for clusters and for dependent launches.

A dependent launch begins after the end of the launch that it depends on, as in stream order, so griddepcontrol has
nothing to wait for.

Source       PTX ISA, "barrier.cluster", "mapa", "getctarank", "griddepcontrol"
Read next    ptx/translating/emitting/emit_clusters.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["CLUSTERS"]

CLUSTERS: list[Row] = [
    ("barrier.cluster.arrive .aligned? @7.8 @sm_90", "", "", "!bar_cluster", ""),
    ("barrier.cluster.arrive .release|relaxed .aligned? @8.0 @sm_90", "", "", "!bar_cluster", ""),
    ("barrier.cluster.wait .aligned? @7.8 @sm_90", "", "", "!bar_cluster", ""),
    ("barrier.cluster.wait .acquire .aligned? @8.0 @sm_90", "", "", "!bar_cluster", ""),
    ("fence .mbarrier_init .release .cluster @8.0 @sm_90", "", "", "!nothing", ""),
    ("mapa .shared::cluster? @7.8 @sm_90", "u32 u64", "d a:any b:u32", "!mapa", ""),
    ("getctarank .shared::cluster? @7.8 @sm_90", "u32 u64", "d:u32 a:any", "!getctarank", ""),
    ("griddepcontrol .launch_dependents|wait @7.8 @sm_90", "", "", "!nothing", ""),
]
