"""The rows of the opcode table for floats of 8 bits and less, and for the arithmetic of bytes and half words.

Source       PTX ISA, "cvt", "Scalar Video Instructions", "SIMD Video Instructions"
Read next    opcodes.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["SMALL"]

_EIGHT, _SIX, _FOUR = "e4m3x2 e5m2x2", "e2m3x2 e3m2x2", "e2m1x2"


def _cvt() -> list[Row]:
    rows: list[Row] = []
    flags = ".relu? .satfinite"
    for kinds, since in ((_EIGHT, "@7.8 @sm_89"), (_SIX, "@8.6 @sm_100"), (_FOUR, "@8.6 @sm_100")):
        rows += [
            (f"cvt .rn {flags} {since}", f"{kinds} / f32", "d a:f32 b:f32", "!cvt_small", ""),
            (f"cvt .rn .relu? {since}", f"f16x2 / {kinds}", "d a:T2!", "!cvt_small", ""),
        ]
    rows += [
        (f"cvt .rn {flags} @7.8 @sm_89", f"{_EIGHT} / f16x2", "d a:T2!", "!cvt_small", ""),
        (f"cvt .rs {flags} @8.7 @sm_100", "e4m3x4 e5m2x4 e2m3x4 e3m2x4 / f32", "d a:f32+ e:u32", "!cvt_small", ""),
        (f"cvt .rs {flags} @8.7 @sm_100", "e2m1x4 / f32", "d a:f32+ e:u32", "!cvt_small", ""),
        ("cvt .rz|rp .satfinite? @8.6 @sm_100", "ue8m0x2 / f32", "d a:f32 b:f32", "!cvt_small", ""),
        ("cvt .rz|rp .satfinite? @8.6 @sm_100", "ue8m0x2 / bf16x2", "d:b16 a:b32!", "!cvt_small", ""),
        ("cvt .rn @8.6 @sm_100", "bf16x2 / ue8m0x2", "d:b32 a:T2!", "!cvt_small", ""),
        ("cvt .rs .relu? .satfinite? @8.7 @sm_100", "f16x2 bf16x2 / f32", "d a:f32 b:f32 e:u32", "!cvt_random", ""),
    ]
    return rows


_WORDS = "u32 s32"


def _video() -> list[Row]:
    three, two = f"{_WORDS} / {_WORDS} / {_WORDS}", f"{_WORDS} / {_WORDS}"
    slots, cmp = "d:any a:any b:any c?:u32", ".compare:eq|ne|lt|le|gt|ge"
    rows: list[Row] = []
    for verb in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        rows.append((f"{verb} .sat? .add|min|max? @2.0 @sm_20", three, slots, "!video", ""))
    for verb in ("vshl", "vshr"):
        types = f"{_WORDS} / {_WORDS} / u32"
        rows.append((f"{verb} .sat? .clampwrap .add|min|max? @2.0 @sm_20", types, slots, "!video", ""))
    rows += [
        ("vmad .po? .sat? .shr7|shr15? @2.0 @sm_20", three, "d:u32 a:any b:any c:any", "!video", ""),
        (f"vset {cmp} .add|min|max? @2.0 @sm_20", two, slots, "!video", ""),
    ]
    for lanes in "24":
        for verb in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            for way in (".sat?", ".add"):
                rows.append((f"{verb}{lanes} {way} @3.0 @sm_30", three, "d:any a:any b:any c:u32!", "!video_lanes", ""))
        rows.append((f"vset{lanes} {cmp} .add? @3.0 @sm_30", two, "d:any a:any b:any c:u32!", "!video_lanes", ""))
    return rows


SMALL: list[Row] = [*_cvt(), *_video()]
