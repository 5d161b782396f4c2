"""The opcode table: integers, logic, moves, memory, control. Floats are in opcodes_float.py.

One row a form; forms.py says how to read one. `{a}` is an operand as unsigned integer (or float), `{sa}` as signed,
`{W}` its width in bits, `{M}` its mask, `{S}` its sign bit. Whatever else a value names stands in integers.py.

source       PTX ISA, "Instruction Set"
Read next    opcodes_float.py, then data.py and what follows it
"""

from __future__ import annotations

from .forms import Table
from .opcodes_float import FLOATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["TABLE"]

_U = "u16 u32 u64"
_S = "s16 s32 s64"
_B = "b16 b32 b64"
_MEMORY = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 b128"
_WIDE, _WORDS = "b64 u64 s64 f64", "b32 u32 s32 f32"
_ANY = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"

INTEGERS: list[Row] = [
    ("add", f"{_U} {_S}", "d a b", "wrap", "{a} + {b}"),
    ("add .sat", "s32", "d a b", "wrap", "clamp({sa} + {sb}, -0x80000000, 0x7fffffff)"),
    ("add @8.0 @sm_90", "u16x2 s16x2", "d a b", "exact", "({a} & 0xffff0000) + ({b} & 0xffff0000) & 0xffff0000 | {a} + {b} & 0xffff"),
    ("add .cc", "u32 s32 u64 s64", "d a b", "!carry", "{a} + {b}"),
    ("addc .cc?", "u32 s32 u64 s64", "d a b", "!carry", "{a} + {b} + cf"),
    ("sub", f"{_U} {_S}", "d a b", "wrap", "{a} - {b}"),
    ("sub .sat", "s32", "d a b", "wrap", "clamp({sa} - {sb}, -0x80000000, 0x7fffffff)"),
    ("sub .cc", "u32 s32 u64 s64", "d a b", "!carry", "{a} + {M} - {b} + 1"),
    ("subc .cc?", "u32 s32 u64 s64", "d a b", "!carry", "{a} + {M} - {b} + cf"),
    ("mul .lo", f"{_U} {_S}", "d a b", "wrap", "{a} * {b}"),
    ("mul .hi", _U, "d a b", "exact", "{a} * {b} >> {W}"),
    ("mul .hi", _S, "d a b", "wrap", "{sa} * {sb} >> {W}"),
    ("mul .wide", "u16 u32", "d:wide a b", "exact", "{a} * {b}"),
    ("mul .wide", "s16 s32", "d:wide a b", "wrap", "{sa} * {sb}"),
    ("mad .lo", f"{_U} {_S}", "d a b c", "wrap", "{a} * {b} + {c}"),
    ("mad .hi", _U, "d a b c", "wrap", "({a} * {b} >> {W}) + {c}"),
    ("mad .hi", _S, "d a b c", "wrap", "({sa} * {sb} >> {W}) + {c}"),
    ("mad .hi .sat", "s32", "d a b c", "wrap", "clamp(({sa} * {sb} >> 32) + {sc}, -0x80000000, 0x7fffffff)"),
    ("mad .wide", "u16 u32", "d:wide a b c:wide", "wrap", "{a} * {b} + {c}"),
    ("mad .wide", "s16 s32", "d:wide a b c:wide", "wrap", "{sa} * {sb} + {c}"),
    ("mad .lo .cc", "u32 s32 u64 s64", "d a b c", "!carry", "({a} * {b} & {M}) + {c}"),
    ("mad .hi .cc", "u32 u64", "d a b c", "!carry", "({a} * {b} >> {W}) + {c}"),
    ("mad .hi .cc", "s32 s64", "d a b c", "!carry", "({sa} * {sb} >> {W} & {M}) + {c}"),
    ("madc .lo .cc?", "u32 s32 u64 s64", "d a b c", "!carry", "({a} * {b} & {M}) + {c} + cf"),
    ("madc .hi .cc?", "u32 u64", "d a b c", "!carry", "({a} * {b} >> {W}) + {c} + cf"),
    ("madc .hi .cc?", "s32 s64", "d a b c", "!carry", "({sa} * {sb} >> {W} & {M}) + {c} + cf"),
    ("mul24 .lo", "u32", "d a b", "wrap", "({a} & 0xffffff) * ({b} & 0xffffff)"),
    ("mul24 .hi", "u32", "d a b", "exact", "({a} & 0xffffff) * ({b} & 0xffffff) >> 16"),
    ("mul24 .lo", "s32", "d a b", "wrap", "signed24({a}) * signed24({b})"),
    ("mul24 .hi", "s32", "d a b", "wrap", "signed24({a}) * signed24({b}) >> 16"),
    ("mad24 .lo", "u32", "d a b c", "wrap", "({a} & 0xffffff) * ({b} & 0xffffff) + {c}"),
    ("mad24 .hi", "u32", "d a b c", "wrap", "(({a} & 0xffffff) * ({b} & 0xffffff) >> 16) + {c}"),
    ("mad24 .lo", "s32", "d a b c", "wrap", "signed24({a}) * signed24({b}) + {c}"),
    ("mad24 .hi", "s32", "d a b c", "wrap", "(signed24({a}) * signed24({b}) >> 16) + {c}"),
    ("mad24 .hi .sat", "s32", "d a b c", "wrap",
     "clamp((signed24({a}) * signed24({b}) >> 16) + {sc}, -0x80000000, 0x7fffffff)"),
    ("sad", _U, "d a b c", "wrap", "{c} + abs({a} - {b})"),
    ("sad", _S, "d a b c", "wrap", "{c} + abs({sa} - {sb})"),
    # a division by zero has an unspecified result; this is what the hardware's sequence gives
    ("div", _U, "d a b", "exact", "{a} // {b} if {b} else {M}"),
    ("div", _S, "d a b", "wrap", "divide({sa}, {sb})"),
    ("rem", _U, "d a b", "exact", "{a} % {b} if {b} else {a}"),
    ("rem", _S, "d a b", "wrap", "remainder({sa}, {sb})"),
    ("abs", _S, "d a", "wrap", "abs({sa})"),
    ("neg", _S, "d a", "wrap", "-{a}"),
    ("min", _U, "d a b", "exact", "{a} if {a} < {b} else {b}"),
    ("min", _S, "d a b", "exact", "{a} if {a} ^ {S} < {b} ^ {S} else {b}"),
    ("min .relu @8.0 @sm_90", "s32", "d a b", "wrap", "max(min({sa}, {sb}), 0)"),
    ("min @8.0 @sm_90", "u16x2", "d a b", "exact", "halves(min, {a}, {b})"),
    ("min .relu? @8.0 @sm_90", "s16x2", "d a b", "exact", "signed_halves(min, {a}, {b}, '{relu}')"),
    ("max", _U, "d a b", "exact", "{a} if {a} > {b} else {b}"),
    ("max", _S, "d a b", "exact", "{a} if {a} ^ {S} > {b} ^ {S} else {b}"),
    ("max .relu @8.0 @sm_90", "s32", "d a b", "wrap", "max({sa}, {sb}, 0)"),
    ("max @8.0 @sm_90", "u16x2", "d a b", "exact", "halves(max, {a}, {b})"),
    ("max .relu? @8.0 @sm_90", "s16x2", "d a b", "exact", "signed_halves(max, {a}, {b}, '{relu}')"),
    ("popc", "b32 b64", "d:u32 a", "exact", "bin({a}).count('1')"),
    ("clz", "b32 b64", "d:u32 a", "exact", "{W} - ({a}).bit_length()"),
    ("brev", "b32 b64", "d a", "exact", "reverse({a}, {W})"),
    ("bfind .shiftamt?", "u32 u64", "d:u32 a", "exact", "find_bit({a}, {W}, '{shiftamt}')"),
    ("bfind .shiftamt?", "s32 s64", "d:u32 a", "exact", "find_bit({a} ^ ({M} if {a} & {S} else 0), {W}, '{shiftamt}')"),
    ("fns @6.0", "b32", "d a b:b32 c:s32", "exact", "find_nth({a}, {b}, {c})"),
    ("bfe", "u32 u64", "d a b:u32<256 c:u32<256", "exact", "{a} >> ({b} & 0xff) & (1 << ({c} & 0xff)) - 1"),
    ("bfe", "s32 s64", "d a b:u32<256 c:u32<256", "wrap", "signed_field({a}, {b} & 0xff, {c} & 0xff, {W})"),
    ("bfi", "b32 b64", "d a b c:u32<256 e:u32<256", "exact", "insert_field({a}, {b}, {c} & 0xff, {e} & 0xff, {W})"),
    ("bmsk .clampwrap @7.6 @sm_70", "b32", "d a:u32 b:u32", "exact", "bit_mask({a}, {b}, '{clampwrap}')"),
    ("szext .clampwrap @7.6 @sm_70", "u32", "d a b:u32", "exact", "zero_extend({a}, {b}, '{clampwrap}')"),
    ("szext .clampwrap @7.6 @sm_70", "s32", "d a b:u32", "exact", "sign_extend({a}, {b}, '{clampwrap}')"),
    ("dp4a @5.0 @sm_61", "u32 s32 / u32 s32", "d:s32 a:u32 b:u32 c:s32", "wrap", "{c} + dot4({a}, {b}, '{T}', '{T2}')"),
    ("dp2a .lo|hi @5.0 @sm_61", "u32 s32 / u32 s32", "d:s32 a:u32 b:u32 c:s32", "wrap",
     "{c} + dot2({a}, {b}, '{T}', '{T2}', '{lo|hi}')"),
    ("and", _B, "d a b", "exact", "{a} & {b}"),
    ("or", _B, "d a b", "exact", "{a} | {b}"),
    ("xor", _B, "d a b", "exact", "{a} ^ {b}"),
    ("not", _B, "d a", "exact", "{a} ^ {M}"),
    ("cnot", _B, "d a", "exact", "0 if {a} else 1"),
    ("and", "pred", "d a b", "pred", "{a} and {b}"),
    ("or", "pred", "d a b", "pred", "{a} or {b}"),
    ("xor", "pred", "d a b", "pred", "({a}) != ({b})"),
    ("not", "pred", "d a", "pred", "not {a}"),
    ("lop3 @4.3 @sm_50", "b32", "d a b c e:constant", "!lop3", ""),
    ("lop3 .or|and @8.2 @sm_70", "b32", "d:pair a b c e:constant g:pred", "!lop3", ""),
    ("shl", _B, "d a b:u32", "!shift", "{a} << {b} & {M}"),
    ("shr", f"{_U} {_B}", "d a b:u32", "!shift", "{a} >> {b}"),
    ("shr", _S, "d a b:u32", "!shift", "{sa} >> {b} & {M}"),
    ("shf .dir .clampwrap", "b32", "d a b c:u32", "exact", "funnel({a}, {b}, {c}, '{dir}', '{clampwrap}')"),
    ("prmt .prmt?", "b32", "d a b c", "exact", "permute({a}, {b}, {c}, '{prmt}')"),
    ("vabsdiff4 .add? @3.0 @sm_30", "u32 s32 / u32 s32 / u32 s32", "d:u32 a:u32! b:u32! c:u32!", "exact",
     "byte_differences({a}, {b}, {c}, '{T2}', '{T3}', '{add}')"),
]  # fmt: skip

MOVES: list[Row] = [
    ("mov", _ANY, "d:any a:any", "!mov", ""),
    ("mov", "pred", "d a", "pred", "{a}"),
    ("mov", "b128", "d:any a:any", "!mov", ""),
    ("selp", _ANY, "d a b c:pred", "!select", ""),
    ("slct", f"{_ANY} / s32", "d a b c:T2", "!slct", "{sc} >= 0"),
    ("slct .ftz?", f"{_ANY} / f32", "d a b c:T2", "!slct", "{c} >= 0.0"),
    ("setp .cmp .bool?", f"{_ANY} f16 f16x2 bf16 bf16x2", "d:pair a b c?:pred", "!setp", ""),
    ("setp .cmp .bool? .ftz", "f32 f16 f16x2", "d:pair a b c?:pred", "!setp", ""),
    ("set .cmp .bool?", f"u32 s32 / {_ANY} f16 f16x2 bf16 bf16x2", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool? .ftz", "u32 s32 / f32 f16 f16x2", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool?", f"f32 / {_ANY}", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool? .ftz", "f32 / f32", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool?", "u16 s16 / f16 bf16", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool? .ftz", "u16 s16 / f16", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool?", f"f16 / {_ANY} f16", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool? .ftz", "f16 / f32 f16", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool?", f"bf16 / {_ANY} f16 bf16", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool? .ftz?", "f16x2 / f16x2", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("set .cmp .bool?", "bf16x2 / bf16x2", "d a:T2 b:T2 c?:pred", "!set", ""),
    ("cvta .space:window", "u64", "d a:any", "!cvta", ""),
    ("cvta .to .space:window", "u64", "d a", "!cvta", ""),
    ("isspacep .space:window", "", "d:pred a:b64", "!isspacep", ""),
    ("cvt .anyrnd? .ftz? .sat?", "u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64 bf16 / u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 "
     "f64 bf16", "d:T^ a:T2^", "!cvt", ""),
    ("cvt .rnd:rn|rz .relu? .satfinite? @7.0 @sm_80", "f16x2 bf16x2 / f32", "d a:T2^ b:T2^", "!cvt_pair", ""),
    ("cvt .pack .sat @6.5 @sm_72", "u16 s16 / s32", "d:u32^ a:T2^ b:T2^", "exact", "packed('{T}', 0, {sa}, {sb})"),
    ("cvt .pack .sat @6.5 @sm_72", "u8 s8 / s32 / b32", "d:u32^ a:T2^ b:T2^ c:b32^", "exact", "packed('{T}', {c}, {sa}, {sb})"),
    ("cvt .rna .satfinite? @7.0 @sm_80", "tf32 / f32", "d:b32 a:T2", "!cvt_tf32", ""),
    ("cvt .rn|rz .relu? @7.8 @sm_90", "tf32 / f32", "d:b32 a:T2", "!cvt_tf32", ""),
    ("cvt .rn|rz .relu? .satfinite @8.6 @sm_100", "tf32 / f32", "d:b32 a:T2", "!cvt_tf32", ""),
    ("cvt .rnd:rn|rz .relu .satfinite? @7.0 @sm_80", "f16 bf16 / f32", "d a:T2", "!cvt", ""),
    ("ld .sem:weak? .space? .cop? .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .sem:weak? .space:global? .cop? .prefetch .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .sem:weak? .space:global? .evict? .prefetch? .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .sem:weak? .space:global? .evict? .evict2 .prefetch? .vec:v4 @8.8 @sm_100", _WIDE, "d:any m:mem", "!ld", ""),
    ("ld .sem:weak? .space:global? .evict? .evict2 .prefetch? .vec:v8 @8.8 @sm_100", _WORDS, "d:any m:mem", "!ld", ""),
    ("ld .sem:volatile .space? .prefetch? .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .sem:relaxed|acquire .scope? .space? .evict? .prefetch? .vec? @6.0", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .space? .cop:ca|cg|cs? .nc .prefetch? .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .space? .nc .evict? .prefetch? .vec?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ld .space? .nc .evict? .evict2 .prefetch? .vec:v4 @8.8 @sm_100", _WIDE, "d:any m:mem", "!ld", ""),
    ("ld .space? .nc .evict? .evict2 .prefetch? .vec:v8 @8.8 @sm_100", _WORDS, "d:any m:mem", "!ld", ""),
    ("ld .mmio .sem:relaxed .scope:sys .space:global? @8.2 @sm_70", _MEMORY, "d:any m:mem", "!ld", ""),
    ("ldu .space:global? .vec:v2|v4?", _MEMORY, "d:any m:mem", "!ld", ""),
    ("st .sem:weak? .space? .cop:wb|cg|cs|wt? .vec?", _MEMORY, "m:mem a:any", "!st", ""),
    ("st .sem:weak? .space:global? .evict? .vec?", _MEMORY, "m:mem a:any", "!st", ""),
    ("st .sem:weak? .space:global? .evict? .evict2 .vec:v4 @8.8 @sm_100", _WIDE, "m:mem a:any", "!st", ""),
    ("st .sem:weak? .space:global? .evict? .evict2 .vec:v8 @8.8 @sm_100", _WORDS, "m:mem a:any", "!st", ""),
    ("st .sem:volatile .space? .vec?", _MEMORY, "m:mem a:any", "!st", ""),
    ("st .sem:relaxed|release .scope? .space? .evict? .vec? @6.0", _MEMORY, "m:mem a:any", "!st", ""),
    ("st .mmio .sem:relaxed .scope:sys .space:global? @8.2 @sm_70", _MEMORY, "m:mem a:any", "!st", ""),
    ("prefetch .space:global|local? .level:L1|L2", "", "m:mem", "!nothing", ""),
    ("prefetch .space:global? .L2::evict_last|L2::evict_normal", "", "m:mem", "!nothing", ""),
    ("prefetchu .L1", "", "m:mem", "!nothing", ""),
    ("discard .global? .L2 @7.4 @sm_80", "", "m:mem a:constant>127<129", "!nothing", ""),
    ("atom .sem? .scope? .atomspace? .cas", "b16 b32 b64 b128", "d m:mem a b", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .exch", "b32 b64 b128", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .add", "u32 s32 u64 f32 f64", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .add .noftz @6.2 @sm_60", "f16 f16x2 bf16 bf16x2", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .inc|dec", "u32", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .min|max", "u32 s32 u64 s64", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .atomspace? .and|or|xor", "b32 b64", "d m:mem a", "!atom", ""),
    ("atom .sem? .scope? .global? .add .vec @8.1 @sm_90", "f32", "d:any m:mem a:any", "!atom_vector", ""),
    ("atom .sem? .scope? .global? .add|min|max .noftz .vec @8.1 @sm_90", "f16 bf16 f16x2 bf16x2", "d:any m:mem a:any",
     "!atom_vector", ""),
    ("red .sem:relaxed|release? .scope? .global? .add .vec @8.1 @sm_90", "f32", "m:mem a:any", "!atom_vector", ""),
    ("red .sem:relaxed|release? .scope? .global? .add|min|max .noftz .vec @8.1 @sm_90", "f16 bf16 f16x2 bf16x2", "m:mem a:any",
     "!atom_vector", ""),
    ("red .sem:relaxed|release? .scope? .atomspace? .add", "u32 s32 u64 f32 f64", "m:mem a", "!atom", ""),
    ("red .sem:relaxed|release? .scope? .atomspace? .add .noftz @6.2 @sm_60", "f16 f16x2 bf16 bf16x2", "m:mem a", "!atom", ""),
    ("red .sem:relaxed|release? .scope? .atomspace? .inc|dec", "u32", "m:mem a", "!atom", ""),
    ("red .sem:relaxed|release? .scope? .atomspace? .min|max", "u32 s32 u64 s64", "m:mem a", "!atom", ""),
    ("red .sem:relaxed|release? .scope? .atomspace? .and|or|xor", "b32 b64", "m:mem a", "!atom", ""),
    ("cp .async .ca|cg .shared|shared::cta .global .evict2? .prefetch? @7.0 @sm_80", "", "m:mem n:mem a:u32 b?:any", "!cp_async", ""),
    ("cp .async .commit_group|wait_all @7.0 @sm_80", "", "", "!nothing", ""),
    ("cp .async .wait_group @7.0 @sm_80", "", "a:constant", "!nothing", ""),
]  # fmt: skip

CONTROL: list[Row] = [
    ("bra .uni?", "", "l:name", "!bra", ""),
    ("brx .idx .uni? @6.0", "", "a:u32 l:name", "!brx", ""),
    ("call .uni?", "", "l:any a?:any b?:any c?:any", "!call", ""),
    ("ret .uni?", "", "", "!ret", ""),
    ("exit", "", "", "!exit", ""),
    ("trap", "", "", "!trap", ""),
    ("brkpt", "", "", "!nothing", ""),
    ("pmevent", "", "a:constant<16", "!nothing", ""),
    ("pmevent .mask", "", "a:constant", "!nothing", ""),
    ("nanosleep @6.3 @sm_70", "u32", "a", "!nanosleep", ""),
    ("membar .cta|gl|sys", "", "", "!nothing", ""),
    ("fence .acq_rel|sc|acquire|release? .scope @6.0 @sm_70", "", "", "!nothing", ""),
    ("fence .proxy .alias @7.5 @sm_70", "", "", "!nothing", ""),
    ("fence .proxy .async @8.0 @sm_90", "", "", "!nothing", ""),
    ("fence .proxy .async .global|shared::cta @8.0 @sm_90", "", "", "!nothing", ""),
    ("bar .cta? .sync", "", "a:u32 b?:u32", "!bar", ""),
    ("bar .cta? .arrive", "", "a:u32 b:u32", "!bar", ""),
    ("bar .cta? .red .popc", "u32", "d a:u32 b:any c?:pred", "!bar_red", ""),
    ("bar .cta? .red .and|or", "pred", "d a:u32 b:any c?:pred", "!bar_red", ""),
    ("barrier .cta? .sync .aligned? @6.0", "", "a:u32 b?:u32", "!bar", ""),
    ("barrier .cta? .arrive .aligned? @6.0", "", "a:u32 b:u32", "!bar", ""),
    ("barrier .cta? .red .aligned? .popc @6.0", "u32", "d a:u32 b:any c?:pred", "!bar_red", ""),
    ("barrier .cta? .red .aligned? .and|or @6.0", "pred", "d a:u32 b:any c?:pred", "!bar_red", ""),
    ("barrier .cluster .arrive .release|relaxed? .aligned? @7.8 @sm_90", "", "", "!bar_cluster", ""),
    ("barrier .cluster .wait .acquire? .aligned? @7.8 @sm_90", "", "", "!bar_cluster", ""),
    ("bar .warp .sync @6.0", "", "a:u32", "!warp_sync", ""),
    ("shfl .sync .shfl @6.0", "b32", "d:pair a b:b32 c:b32 e:u32", "!shfl", ""),
    ("shfl .shfl", "b32", "d:pair a b:b32 c:b32", "!shfl", ""),
    ("vote .sync .all|any|uni @6.0", "pred", "d a e:u32", "!vote", ""),
    ("vote .sync .ballot @6.0", "b32", "d a:pred e:u32", "!vote", ""),
    ("vote .all|any|uni", "pred", "d a", "!vote", ""),
    ("vote .ballot", "b32", "d a:pred", "!vote", ""),
    ("match .any .sync @6.0 @sm_70", "b32 b64", "d:pair a e:u32", "!match", ""),
    ("match .all .sync @6.0 @sm_70", "b32 b64", "d:pair a e:u32", "!match", ""),
    ("redux .sync .add|min|max @7.0 @sm_80", "u32 s32", "d a e:u32", "!redux", ""),
    ("redux .sync .min|max .abs? .NaN? @8.6 @sm_100", "f32", "d a e:u32", "!redux", ""),
    ("redux .sync .and|or|xor @7.0 @sm_80", "b32", "d:u32 a:u32 e:u32", "!redux", ""),
    ("activemask @6.2", "b32", "d", "!activemask", ""),
    ("elect .sync @8.0 @sm_90", "", "d:pair e:u32", "!elect", ""),
    ("griddepcontrol .launch_dependents|wait @7.8 @sm_90", "", "", "!nothing", ""),
    ("setmaxnreg .inc|dec .sync .aligned @8.0 @sm_90", "u32", "a:constant>23<257", "!nothing", ""),
]  # fmt: skip

_TENSOR = "tensor-core instructions are not emulated"
_TEXTURE = "textures and surfaces are not emulated"
_BULK = "asynchronous barriers and bulk copies are not emulated"
REFUSED = {
    **dict.fromkeys(("wmma", "mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05"), _TENSOR),
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURE),
    **dict.fromkeys(("mbarrier", "tensormap", "multimem", "clusterlaunchcontrol", "st_async", "red_async"), _BULK),
    **dict.fromkeys(("mapa", "getctarank"), "shared memory of other blocks of a cluster is not emulated"),
    "applypriority": "cache policies are not emulated",
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "a stack of the kernel's own is not emulated"),
    **dict.fromkeys(
        ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vadd2", "vsub2", "vavrg2",
         "vabsdiff2", "vmin2", "vmax2", "vset2", "vadd4", "vsub4", "vavrg4", "vmin4", "vmax4", "vset4"),
        "video instructions are not emulated",
    ),
}  # fmt: skip

REFUSED_MODIFIERS = {
    **dict.fromkeys(
        ("e4m3x2", "e5m2x2", "e4m3x4", "e5m2x4", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"), "floats of 8 bits and less"
    ),
    **dict.fromkeys(("bulk", "mbarrier", "reduce"), _BULK),
    "shared::cluster": "shared memory of other blocks of a cluster",
}

# a cache policy changes no result: made, passed on, and never looked at
_LEVELS = "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
POLICIES: list[Row] = [
    (f"createpolicy .fractional .{_LEVELS} .L2::evict_unchanged|L2::evict_first? @7.4 @sm_80", "b64", "d a?:f32", "exact", "0"),
    *((f"{text} .L2::cache_hint @7.4 @sm_80", types, f"{slots} p:u64", result, value) for text, types, slots, result, value in
      ((each[0].replace(".space?", ".space:global?").replace(".atomspace?", ".global?"), *each[1:]) for each in MOVES)
      if text.split()[0] in ("ld", "st", "atom", "red") and not any(word in text for word in ("@s", ".mmio", ":volatile", ".cas"))),
]  # fmt: skip

TABLE = Table([*INTEGERS, *FLOATS, *MOVES, *POLICIES, *CONTROL], REFUSED, REFUSED_MODIFIERS)
