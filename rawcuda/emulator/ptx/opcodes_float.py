"""The opcode table: floating point. forms.py says how to read a row.

"round" rows are computed in double and rounded once more to their own width, which is exact for everything here but
FMA (rounding.py says why); directed roundings and everything in half precision are left to rounding.py and half.py.
Approximations are computed in double and rounded: closer than the ISA asks for, and never bit for bit a GPU's.

source       PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions"
Read next    rounding.py, half.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["FLOATS"]

_HALF = "f16 f16x2"
_BRAIN = "bf16 bf16x2"

FLOATS: list[Row] = [
    ("add .rnd? .ftz? .sat?", "f32", "d a b", "round", "{a} + {b}"),
    ("add .rnd?", "f64", "d a b", "round", "{a} + {b}"),
    ("add .rn? .ftz? .sat? @4.2 @sm_53", _HALF, "d a b", "half", "add"),
    ("add .rn? @7.8 @sm_90", _BRAIN, "d a b", "half", "add"),
    ("add .rnd? .ftz? @8.6 @sm_100", "f32x2", "d a b", "exact", "pair_add('{rnd}', '{ftz}', {a}, {b})"),
    ("add .rnd? .sat? @8.6 @sm_100", "f32 / f16 bf16", "d a:T2 c", "float", "mixed_add('{T2}', '{rnd}', {a}, {c})"),
    ("sub .rnd? .ftz? .sat?", "f32", "d a b", "round", "{a} - {b}"),
    ("sub .rnd?", "f64", "d a b", "round", "{a} - {b}"),
    ("sub .rn? .ftz? .sat? @4.2 @sm_53", _HALF, "d a b", "half", "sub"),
    ("sub .rn? @7.8 @sm_90", _BRAIN, "d a b", "half", "sub"),
    ("sub .rnd? .ftz? @8.6 @sm_100", "f32x2", "d a b", "exact", "pair_sub('{rnd}', '{ftz}', {a}, {b})"),
    ("sub .rnd? .sat? @8.6 @sm_100", "f32 / f16 bf16", "d a:T2 c", "float", "mixed_sub('{T2}', '{rnd}', {a}, {c})"),
    ("mul .rnd? .ftz? .sat?", "f32", "d a b", "round", "{a} * {b}"),
    ("mul .rnd?", "f64", "d a b", "round", "{a} * {b}"),
    ("mul .rn? .ftz? .sat? @4.2 @sm_53", _HALF, "d a b", "half", "mul"),
    ("mul .rn? @7.8 @sm_90", _BRAIN, "d a b", "half", "mul"),
    ("mul .rnd? .ftz? @8.6 @sm_100", "f32x2", "d a b", "exact", "pair_mul('{rnd}', '{ftz}', {a}, {b})"),
    ("fma .rnd .ftz? @8.6 @sm_100", "f32x2", "d a b c", "exact", "pair_fma('{rnd}', '{ftz}', {a}, {b}, {c})"),
    ("fma .rnd .sat? @8.6 @sm_100", "f32 / f16 bf16", "d a:T2 b:T2 c", "float", "mixed_fma('{T2}', '{rnd}', {a}, {b}, {c})"),
    ("fma .rnd .ftz? .sat?", "f32", "d a b c", "!fma", ""),
    ("fma .rnd", "f64", "d a b c", "!fma", ""),
    ("fma .rn .ftz? .sat? @4.2 @sm_53", _HALF, "d a b c", "half", "fma"),
    ("fma .rn .ftz? .relu @7.0 @sm_80", _HALF, "d a b c", "half", "fma"),
    ("fma .rn .relu? @7.0 @sm_80", _BRAIN, "d a b c", "half", "fma"),
    ("fma .rn .oob .relu? @8.1 @sm_90", f"{_HALF} {_BRAIN}", "d a b c", "half", "fma"),
    ("mad .rnd .ftz? .sat?", "f32", "d a b c", "!fma", ""),
    ("mad .rnd", "f64", "d a b c", "!fma", ""),
    ("div .rnd .ftz?", "f32", "d a b", "round", "{a} / {b} if {b} else divide_by_zero({a}, {b})"),
    ("div .approx .ftz?", "f32", "d a b", "approx", "{a} / {b} if {b} else divide_by_zero({a}, {b})"),
    ("div .full .ftz?", "f32", "d a b", "approx", "{a} / {b} if {b} else divide_by_zero({a}, {b})"),
    ("div .rnd", "f64", "d a b", "round", "{a} / {b} if {b} else divide_by_zero({a}, {b})"),
    ("sqrt .rnd .ftz?", "f32", "d a", "round", "sqrt({a}) if {a} >= 0.0 else root_of_other({a})"),
    ("sqrt .approx .ftz?", "f32", "d a", "approx", "sqrt({a}) if {a} >= 0.0 else root_of_other({a})"),
    ("sqrt .rnd", "f64", "d a", "round", "sqrt({a}) if {a} >= 0.0 else root_of_other({a})"),
    ("rcp .rnd .ftz?", "f32", "d a", "round", "1.0 / {a} if {a} else divide_by_zero(1.0, {a})"),
    ("rcp .approx .ftz?", "f32", "d a", "approx", "1.0 / {a} if {a} else divide_by_zero(1.0, {a})"),
    ("rcp .rnd", "f64", "d a", "round", "1.0 / {a} if {a} else divide_by_zero(1.0, {a})"),
    ("rcp .approx .ftz", "f64", "d a", "float", "coarse_reciprocal({a})"),
    ("rsqrt .approx .ftz?", "f32", "d a", "approx", "inverse_root({a})"),
    ("rsqrt .approx", "f64", "d a", "float", "inverse_root_64({a})"),
    ("rsqrt .approx .ftz", "f64", "d a", "float", "coarse_inverse_root({a})"),
    ("sin .approx .ftz?", "f32", "d a", "approx", "sine({a})"),
    ("cos .approx .ftz?", "f32", "d a", "approx", "cosine({a})"),
    ("lg2 .approx .ftz?", "f32", "d a", "approx", "binary_logarithm({a})"),
    ("ex2 .approx .ftz?", "f32", "d a", "approx", "power_of_two({a})"),
    ("ex2 .approx @7.0 @sm_75", _HALF, "d a", "half", "ex2"),
    ("ex2 .approx .ftz @7.8 @sm_90", _BRAIN, "d a", "half", "ex2"),
    ("tanh .approx @7.0 @sm_75", "f32", "d a", "approx", "tanh({a})"),
    ("tanh .approx @7.0 @sm_75", f"{_HALF} {_BRAIN}", "d a", "half", "tanh"),
    ("abs .ftz?", "f32", "d a", "float", "abs({a})"),
    ("abs", "f64", "d a", "float", "abs({a})"),
    ("abs .ftz? @6.5 @sm_53", _HALF, "d a", "exact", "{a} & 0x7fff7fff"),
    ("abs @7.0 @sm_80", _BRAIN, "d a", "exact", "{a} & 0x7fff7fff"),
    ("neg .ftz?", "f32", "d a", "float", "-{a}"),
    ("neg", "f64", "d a", "float", "-{a}"),
    ("neg .ftz? @6.0 @sm_53", "f16", "d a", "exact", "{a} ^ 0x8000"),
    ("neg .ftz? @6.0 @sm_53", "f16x2", "d a", "exact", "{a} ^ 0x80008000"),
    ("neg @7.0 @sm_80", "bf16", "d a", "exact", "{a} ^ 0x8000"),
    ("neg @7.0 @sm_80", "bf16x2", "d a", "exact", "{a} ^ 0x80008000"),
    ("min .ftz? .NaN? .abs?", "f32", "d a b c?", "float", "minimum({a}, {b})"),
    ("min .ftz? .NaN? .xorsign .abs @7.2 @sm_86", "f32", "d a b", "float", "minimum({a}, {b})"),
    ("min", "f64", "d a b", "float", "minimum({a}, {b})"),
    ("min .ftz? .NaN? @7.0 @sm_80", _HALF, "d a b", "half", "min"),
    ("min .NaN? @7.0 @sm_80", _BRAIN, "d a b", "half", "min"),
    ("min .ftz? .NaN? .xorsign .abs @7.2 @sm_86", _HALF, "d a b", "half", "min"),
    ("min .NaN? .xorsign .abs @7.2 @sm_86", _BRAIN, "d a b", "half", "min"),
    ("max .ftz? .NaN? .abs?", "f32", "d a b c?", "float", "maximum({a}, {b})"),
    ("max .ftz? .NaN? .xorsign .abs @7.2 @sm_86", "f32", "d a b", "float", "maximum({a}, {b})"),
    ("max", "f64", "d a b", "float", "maximum({a}, {b})"),
    ("max .ftz? .NaN? @7.0 @sm_80", _HALF, "d a b", "half", "max"),
    ("max .NaN? @7.0 @sm_80", _BRAIN, "d a b", "half", "max"),
    ("max .ftz? .NaN? .xorsign .abs @7.2 @sm_86", _HALF, "d a b", "half", "max"),
    ("max .NaN? .xorsign .abs @7.2 @sm_86", _BRAIN, "d a b", "half", "max"),
    ("copysign", "f32 f64", "d a b", "float", "copysign({b}, {a})"),
    ("testp .testp", "f32 f64", "d:pred a", "pred", "test_property('{testp}', {a}, {W})"),
]  # fmt: skip
