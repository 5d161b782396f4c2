"""The rows of the opcode table for asynchronous copies, and for the barriers in shared memory that wait for them.

Source       PTX ISA, "Data Movement and Conversion Instructions", "mbarrier"
Read next    ../emitting/asynchronous.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["ASYNCHRONOUS"]

_TX = ".mbarrier::complete_tx::bytes"
_HINT = ".L2::cache_hint"
_SIZED = "m:mem n:mem a:u32<1048577"
_LEVELS = "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
_MANY = ".multicast::cluster"
_STORED = "b32 b64 u32 u64 s32 s64 f32 f64"


def _mbarrier() -> list[Row]:
    count = f"u32>0<{1 << 63}"  # a constant is at least 1; how many are pending is known only as the program runs
    rows: list[Row] = [
        ("mbarrier.init .incta? @7.0 @sm_80", "b64", "m:mem a:u32", "!mbarrier", ""),
        ("mbarrier.inval .incta? @7.0 @sm_80", "b64", "m:mem", "!mbarrier", ""),
        ("mbarrier.pending_count @7.0 @sm_80", "b64", "d:u32 a:u64", "!mbarrier", ""),
    ]
    for verb in ("arrive", "arrive_drop"):
        for order in ("", " .release@8.0 .scope:ctas", " .relaxed@8.6@sm_90 .scope:ctas"):
            rows += [
                (f"mbarrier.{verb}{order} .incta? @7.0 @sm_80", "b64", f"d:u64_ m:mem a?:{count}", "!mbarrier", ""),
                (f"mbarrier.{verb}{order} .shared::cluster @8.0 @sm_90", "b64", f"d:sink m:mem a?:{count}",
                 "!mbarrier", ""),
                (f"mbarrier.{verb}.expect_tx{order} .incta? @8.0 @sm_90", "b64", "d:u64_ m:mem a:u32", "!mbarrier",
                 ""),
                (f"mbarrier.{verb}.expect_tx{order} .shared::cluster @8.0 @sm_90", "b64", "d:sink m:mem a:u32",
                 "!mbarrier", ""),
            ]  # fmt: skip
        rows.append(
            (f"mbarrier.{verb} .noComplete .incta? @7.0 @sm_80", "b64", f"d:u64_ m:mem a:{count}", "!mbarrier", "")
        )
        rows.append(
            (f"mbarrier.{verb} .noComplete .release .cta .incta? @8.0 @sm_80", "b64", f"d:u64_ m:mem a:{count}",
             "!mbarrier", "")
        )  # fmt: skip
    for verb in ("expect_tx", "complete_tx"):
        for order in ("", " .relaxed .scope:ctas"):
            rows.append((f"mbarrier.{verb}{order} .incluster? @8.0 @sm_90", "b64", "m:mem a:u32", "!mbarrier", ""))
    for verb, since, more in (("test_wait", "@7.0 @sm_80", ""), ("try_wait", "@7.8 @sm_90", " c?:u32")):
        for order in ("", " .sem:acquire@8.0 .scope:ctas", " .sem:relaxed@8.6@sm_90 .scope:ctas"):
            rows += [
                (f"mbarrier.{verb}{order} .incta? {since}", "b64", f"d:pred m:mem a:u64{more}", "!mbarrier", ""),
                (f"mbarrier.{verb}.parity{order} .incta? {since} @7.1", "b64", f"d:pred m:mem a:u32<2{more}",
                 "!mbarrier", ""),
            ]  # fmt: skip
    return rows


def _bulk() -> list[Row]:
    rows: list[Row] = []
    for hint, slot in (("", ""), (f" {_HINT}", " p:u64")):
        rows += [
            (f"cp.async.bulk.shared::cluster.global {_TX}{hint} @8.0 @sm_90", "", f"{_SIZED} k:mem{slot}",
             "!bulk", ""),
            (f"cp.async.bulk.shared::cta.global {_TX}{hint} @8.6 @sm_90", "", f"{_SIZED} k:mem{slot}",
             "!bulk", ""),
            (f"cp.async.bulk.shared::cluster.global {_TX} {_MANY}{hint} @8.0 @sm_90", "",
             f"{_SIZED} k:mem e:u16{slot}", "!bulk", ""),
            (f"cp.async.bulk.global.shared::cta .bulk_group{hint} @8.0 @sm_90", "", f"{_SIZED}{slot}",
             "!bulk", ""),
            (f"cp.async.bulk.global.shared::cta .bulk_group{hint} .cp_mask @8.6 @sm_100", "",
             f"{_SIZED}{slot} e:u16", "!bulk", ""),
            (f"cp.async.bulk.prefetch.L2 .space:global{hint} @8.0 @sm_90", "",
             f"m:mem a:u32<1048577{slot}", "!nothing", ""),
            (f"cp.reduce.async.bulk.global.shared::cta .bulk_group{hint} .and|or|xor @8.0 @sm_90", "b32 b64",
             f"{_SIZED}{slot}", "!bulk", ""),
            (f"cp.reduce.async.bulk.global.shared::cta .bulk_group{hint} .add @8.0 @sm_90",
             "u32 s32 u64 f32 f64", f"{_SIZED}{slot}", "!bulk", ""),
            (f"cp.reduce.async.bulk.global.shared::cta .bulk_group{hint} .min|max @8.0 @sm_90",
             "u32 s32 u64 s64 f16 bf16", f"{_SIZED}{slot}", "!bulk", ""),
            (f"cp.reduce.async.bulk.global.shared::cta .bulk_group{hint} .inc|dec @8.0 @sm_90", "u32",
             f"{_SIZED}{slot}", "!bulk", ""),
            (f"cp.reduce.async.bulk.global.shared::cta .bulk_group{hint} .add .noftz @8.0 @sm_90", "f16 bf16",
             f"{_SIZED}{slot}", "!bulk", ""),
        ]  # fmt: skip
        for more, group, least in (("", "", "@8.0 @sm_90"), (f" {_MANY}", " e:u16", "@8.0 @sm_90")):
            rows.append(
                (f"cp.async.bulk.tensor.dims.shared::cluster.global .tile? {_TX}{more}{hint} {least}", "",
                 f"m:mem n:texel k:mem{group}{slot}", "!tensor", "")
            )  # fmt: skip
        rows += [
            (f"cp.async.bulk.tensor.dims.shared::cta.global .tile? {_TX}{hint} @8.6 @sm_90", "",
             f"m:mem n:texel k:mem{slot}", "!tensor", ""),
            (f"cp.async.bulk.tensor.dims.global.shared::cta .tile? .bulk_group{hint} @8.0 @sm_90", "",
             f"n:texel m:mem{slot}", "!tensor", ""),
            (f"cp.reduce.async.bulk.tensor.dims.global.shared::cta .tensor_verb .tile? .bulk_group{hint} "
             "@8.0 @sm_90", "", f"n:texel m:mem{slot}", "!tensor", ""),
            (f"cp.async.bulk.prefetch.tensor.dims.L2.global .tile?{hint} @8.0 @sm_90", "",
             f"n:texel{slot}", "!tensor_prefetch", ""),
        ]  # fmt: skip
    inner = f"cp.reduce.async.bulk.shared::cluster.shared::cta {_TX}"
    return [
        *rows,
        (f"cp.async.bulk.shared::cluster.shared::cta {_TX} @8.0 @sm_90", "", f"{_SIZED} k:mem", "!bulk",
         ""),
        (f"{inner} .and|or|xor @8.0 @sm_90", "b32", f"{_SIZED} k:mem", "!bulk", ""),
        (f"{inner} .add @8.0 @sm_90", "u32 s32 u64", f"{_SIZED} k:mem", "!bulk", ""),
        (f"{inner} .min|max @8.0 @sm_90", "u32 s32", f"{_SIZED} k:mem", "!bulk", ""),
        (f"{inner} .inc|dec @8.0 @sm_90", "u32", f"{_SIZED} k:mem", "!bulk", ""),
        ("cp.async.bulk.commit_group @8.0 @sm_90", "", "", "!group", ""),
        ("cp.async.bulk.wait_group .read? @8.0 @sm_90", "", "a:constant", "!group", ""),
    ]  # fmt: skip


ASYNCHRONOUS: list[Row] = [
    *_mbarrier(),
    *_bulk(),
    ("cp.async.ca|cg.incta.global .ahead? @7.0 @sm_80", "", "m:mem n:mem a:u32 b?:any", "!cp_async", ""),
    (f"cp.async.ca|cg.incta.global {_HINT} .ahead? @7.4 @sm_80", "", "m:mem n:mem a:u32 b?:any p:u64",
     "!cp_async", ""),
    ("cp.async.commit_group|wait_all @7.0 @sm_80", "", "", "!group", ""),
    ("cp.async.wait_group @7.0 @sm_80", "", "a:constant", "!group", ""),
    ("cp.async.mbarrier.arrive .noinc? .incta? @7.0 @sm_80", "b64", "m:mem", "!copies_arrive", ""),
    (f"st.async .weak? .shared::cluster? {_TX} .vec:v2|v4? @8.1 @sm_90", _STORED, "m:mem a:any k:mem", "!st_async",
     ""),
    (f"red.async .relaxed .cluster .shared::cluster? {_TX} .add @8.1 @sm_90", "u32 s32 u64", "m:mem a k:mem",
     "!red_async", ""),
    (f"red.async .relaxed .cluster .shared::cluster? {_TX} .min|max @8.1 @sm_90", "u32 s32", "m:mem a k:mem",
     "!red_async", ""),
    (f"red.async .relaxed .cluster .shared::cluster? {_TX} .inc|dec @8.1 @sm_90", "u32", "m:mem a k:mem",
     "!red_async", ""),
    (f"red.async .relaxed .cluster .shared::cluster? {_TX} .and|or|xor @8.1 @sm_90", "b32", "m:mem a k:mem",
     "!red_async", ""),
    ("fence.proxy .async .shared::cluster @8.0 @sm_90", "", "", "!nothing", ""),
    ("fence.proxy .async::generic .acquire .sync_restrict::shared::cluster .cluster @8.6 @sm_90", "", "", "!nothing",
     ""),
    ("fence.proxy .async::generic .release .sync_restrict::shared::cta .cluster @8.6 @sm_90", "", "", "!nothing",
     ""),
    ("fence.proxy .tensormap::generic .release .scope @8.3 @sm_90", "", "", "!nothing", ""),
    ("fence.proxy .tensormap::generic .acquire .scope @8.3 @sm_90", "", "m:mem a:constant>127<129", "!nothing", ""),
    ("fence .acquire .sync_restrict::shared::cluster .cluster @8.6 @sm_90", "", "", "!nothing", ""),
    ("fence .release .sync_restrict::shared::cta .cluster @8.6 @sm_90", "", "", "!nothing", ""),
    ("prefetch .space:param|const? .tensormap @8.0 @sm_90", "", "m:mem", "!nothing", ""),
    (f"createpolicy.range .space:global? .{_LEVELS} .L2::evict_first|L2::evict_unchanged? @7.4 @sm_80", "b64",
     "d m:mem a:u32 b:u32", "!policy", ""),
    ("createpolicy.cvt .L2 @7.4 @sm_80", "b64", "d a:u64", "!policy", ""),
    ("st.bulk .weak? .shared::cta? @8.6 @sm_100", "", "m:mem a:u64 b:constant<1", "!st_bulk", ""),
    ("applypriority .space:global? .L2::evict_normal @7.4 @sm_80", "", "m:mem a:constant>127<129", "!nothing", ""),
    ("tensormap.replace .tile .global_address .map_space @8.3 @sm_90", "b1024 / b64", "m:mem a:b64",
     "!tensormap_replace", ""),
    ("tensormap.replace .tile .rank .map_space @8.3 @sm_90", "b1024 / b32", "m:mem a:b32", "!tensormap_replace", ""),
    ("tensormap.replace .tile .box_dim|global_dim|element_stride .map_space @8.3 @sm_90", "b1024 / b32",
     "m:mem b:constant a:b32", "!tensormap_replace", ""),
    ("tensormap.replace .tile .global_stride .map_space @8.3 @sm_90", "b1024 / b64", "m:mem b:constant a:b64",
     "!tensormap_replace", ""),
    *((f"tensormap.replace .tile .{field} .map_space @8.3 @sm_90", "b1024 / b32", f"m:mem a:constant<{most}",
       "!tensormap_replace", "")
      for field, most in (("elemtype", 16), ("interleave_layout", 3), ("swizzle_mode", 5), ("fill_mode", 2))),
    ("tensormap .cp_fenceproxy .global .shared::cta .tensormap::generic .release .scope .sync .aligned @8.3 @sm_90",
     "", "m:mem n:mem a:constant>127<129", "!tensormap_copy", ""),
]  # fmt: skip
