"""Special registers: what %tid.x and its like hold, and for how many threads the value is one.

Each row is a Python expression over what the generated code has at hand: `tx ty tz t` (the thread's index and its
linear number), `B` the block, `L` the launch. A value that is the same for a whole block is computed once a block.

source       PTX ISA, "Special Registers"
Read next    machine.py
"""

from __future__ import annotations

__all__ = ["SPECIAL"]


def _rows() -> dict[str, tuple[str, str, bool]]:
    rows: dict[str, tuple[str, str, bool]] = {}  # name -> type, expression, the same for a whole block

    def row(name: str, type: str, expression: str, uniform: bool = True) -> None:
        rows[name] = (type, expression, uniform)

    for at, axis in enumerate("xyz"):
        row(f"tid.{axis}", "u32", f"t{axis}", False)
        row(f"ntid.{axis}", "u32", f"L.n{axis}")
        row(f"ctaid.{axis}", "u32", f"B.{axis}")
        row(f"nctaid.{axis}", "u32", f"L.g{axis}")
        row(f"clusterid.{axis}", "u32", f"B.cluster[{at}]")
        row(f"nclusterid.{axis}", "u32", f"L.clusters[{at}]")
        row(f"cluster_ctaid.{axis}", "u32", f"B.cluster_place[{at}]")
        row(f"cluster_nctaid.{axis}", "u32", f"L.cluster[{at}]")
    row("tid.w", "u32", "0")
    row("ntid.w", "u32", "1")
    row("ctaid.w", "u32", "0")
    row("nctaid.w", "u32", "1")
    row("cluster_ctarank", "u32", "B.cluster_rank")
    row("cluster_nctarank", "u32", "L.cluster_size")
    row("laneid", "u32", "t & 31", False)
    row("warpid", "u32", "t >> 5", False)
    row("nwarpid", "u32", "L.warps")
    row("smid", "u32", "B.number % 132")
    row("nsmid", "u32", "132")
    row("gridid", "u64", "L.number")
    row("is_explicit_cluster", "pred", "L.cluster_size > 1")
    row("lanemask_eq", "u32", "1 << (t & 31)", False)
    row("lanemask_lt", "u32", "(1 << (t & 31)) - 1", False)
    row("lanemask_le", "u32", "(2 << (t & 31)) - 1", False)
    row("lanemask_gt", "u32", "0xffffffff & -2 << (t & 31)", False)
    row("lanemask_ge", "u32", "0xffffffff & -1 << (t & 31)", False)
    row("clock", "u32", "L.clock() & 0xffffffff", False)
    row("clock_hi", "u32", "L.clock() >> 32 & 0xffffffff", False)
    row("clock64", "u64", "L.clock()", False)
    row("globaltimer", "u64", "L.nanoseconds()", False)
    row("globaltimer_lo", "u32", "L.nanoseconds() & 0xffffffff", False)
    row("globaltimer_hi", "u32", "L.nanoseconds() >> 32", False)
    row("total_smem_size", "u32", "L.shared_bytes")
    row("dynamic_smem_size", "u32", "L.dynamic_shared")
    row("aggr_smem_size", "u32", "L.shared_bytes")
    row("current_graph_exec", "u64", "0")
    row("envreg1", "b32", "L.workspace() >> 32")
    row("envreg2", "b32", "L.workspace() & 0xffffffff")
    for number in range(32):
        if number not in (1, 2):
            row(f"envreg{number}", "b32", "0")
    for number in range(8):
        row(f"pm{number}", "u32", "0")
        row(f"pm{number}_64", "u64", "0")
    for word in ("begin", "end", "cap", "0", "1"):
        row(f"reserved_smem_offset_{word}", "b32", "0")
    return rows


SPECIAL = _rows()
