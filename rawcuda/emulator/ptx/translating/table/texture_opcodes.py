"""The rows of the opcode table for textures and surfaces.

Source       PTX ISA, "Texture Instructions", "Surface Instructions"
Read next    ../emitting/emit_textures.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["TEXTURES"]

_SURFACE = "b8 b16 b32 b64"

TEXTURES: list[Row] = [
    ("tex .base? .geom .v4", "u32 s32 f32 / s32 f32", "d:T+ t:texel", "!tex", ""),
    ("tex .base? .geom .v4 @4.2 @sm_53", "f16 / s32 f32", "d:T+ t:texel", "!tex", ""),
    ("tex .base? .geom .v2 @4.2 @sm_53", "f16x2 / s32 f32", "d:T+ t:texel", "!tex", ""),
    ("tex .level .geom .v4", "u32 s32 f32 / s32 f32", "d:T+ t:texel l:b32", "!tex", ""),
    ("tex .level .geom .v4 @4.2 @sm_53", "f16 / s32 f32", "d:T+ t:texel l:b32", "!tex", ""),
    ("tex .level .geom .v2 @4.2 @sm_53", "f16x2 / s32 f32", "d:T+ t:texel l:b32", "!tex", ""),
    ("tex .grad .geom .v4", "u32 s32 f32 / f32", "d:T+ t:texel g:f32+ h:f32+", "!tex", ""),
    ("tex .grad .geom .v4 @4.2 @sm_53", "f16 / f32", "d:T+ t:texel g:f32+ h:f32+", "!tex", ""),
    ("tex .grad .geom .v2 @4.2 @sm_53", "f16x2 / f32", "d:T+ t:texel g:f32+ h:f32+", "!tex", ""),
    ("tld4 .component .geom:2d|a2d|cube|acube .v4", "u32 s32 f32 / f32", "d:T+ t:texel", "!tld4", ""),
    ("txq .query", "b32", "d m:mem", "!query", ""),
    ("txq.level .query:width|height|depth", "b32", "d m:mem l:u32", "!query", ""),
    ("suq .query:width|height|depth|channel_data_type|channel_order|array_size|memory_layout", "b32", "d m:mem",
     "!query", ""),
    ("suld .b .geom:1d|2d|3d|a1d|a2d .cop:ca|cg|cs|cv? .vec:v2|v4? .bounds", _SURFACE, "d:T^+ t:texel", "!suld", ""),
    ("sust .b .geom:1d|2d|3d|a1d|a2d .cop:wb|cg|cs|wt? .vec:v2|v4? .bounds", _SURFACE, "t:texel a:T^+", "!sust", ""),
    ("sust .p .geom:1d|2d|3d|a1d|a2d .cop:wb|cg|cs|wt? .vec:v2|v4? .bounds", "b32", "t:texel a:T+", "!sust", ""),
    ("sured .b .reduction:add .geom:1d|2d|3d .bounds", "u32 s32 u64", "t:texel a:T", "!sured", ""),
    ("sured .b .reduction:min|max .geom:1d|2d|3d .bounds", "u32 s32", "t:texel a:T", "!sured", ""),
    ("sured .b .reduction:min|max .geom:1d|2d|3d .bounds @8.1", "u64 s64", "t:texel a:T", "!sured", ""),
    ("sured .b .reduction:and|or .geom:1d|2d|3d .bounds", "b32", "t:texel a:T", "!sured", ""),
    ("sured .p .reduction:add|min|max|and|or .geom:1d|2d|3d .bounds", "b32", "t:texel a:T", "!sured", ""),
    ("sured .p .reduction:min|max .geom:1d|2d|3d .bounds @8.1", "b64", "t:texel a:T", "!sured", ""),
]  # fmt: skip
