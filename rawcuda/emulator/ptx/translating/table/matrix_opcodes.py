"""The rows of the opcode table for tensor cores: mma, wmma, and the moves of small matrices.

Source       PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions"
Read next    ptx/translating/emitting/emit_matrices.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .forms import Row

__all__ = ["MATRICES"]

# The types of the registers; all others are b32.
_REGISTER = {
    "f32": "f32", "f64": "f64", "s32": "s32", "f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32",
    "s8": "u32", "u8": "u32", "s8 u8": "u32",
}  # fmt: skip
_SMALL = "e4m3 e5m2 e2m3 e3m2 e2m1"


def _product(opcode: str, shape: str, d: str, ab: str, c: str, modifiers: str, since: str) -> list[Row]:
    """Return the rows of a product: one for each type of D and of C, because these decide the registers."""
    return [
        (f"{opcode} .sync .aligned .{shape} {modifiers} {since}", f"{to} / {ab} / {ab} / {of}",
         f"d:{_REGISTER.get(to, 'b32')}+ a:{_operand(ab)}+ b:{_operand(ab)}+ c:{_REGISTER.get(of, 'b32')}+", "!mma", "")
        for to in d.split() for of in c.split()
    ]  # fmt: skip


def _operand(types: str) -> str:
    return _REGISTER.get(types, "b32")


def _mma() -> list[Row]:
    rows = _product("mma", "m8n8k4", "f16 f32", "f16", "f16 f32", ".alayout:row|col .blayout:row|col", "@6.4 @sm_70")
    plain = ".row .col"
    for shape, since in (("m16n8k8", "@6.5 @sm_75"), ("m16n8k16", "@7.0 @sm_80")):
        rows += _product("mma", shape, "f16", "f16", "f16", plain, since)
        rows += _product("mma", shape, "f32", "f16", "f32", plain, since)
        rows += _product("mma", shape, "f32", "bf16", "f32", plain, "@7.0 @sm_80")
    for shape in ("m16n8k4", "m16n8k8"):
        rows += _product("mma", shape, "f32", "tf32", "f32", plain, "@7.0 @sm_80")
    for shape, since in (("m8n8k4", "@7.0 @sm_80"), ("m16n8k4", "@7.8 @sm_90"), ("m16n8k8", "@7.8 @sm_90"),
                         ("m16n8k16", "@7.8 @sm_90")):  # fmt: skip
        rows += _product("mma", shape, "f64", "f64", "f64", plain, since)
        rows += _product("mma", shape, "f64", "f64", "f64", f"{plain} .rnd", since)
    for shape, since in (("m8n8k16", "@6.5 @sm_75"), ("m16n8k16", "@7.0 @sm_80"), ("m16n8k32", "@7.0 @sm_80")):
        rows += _product("mma", shape, "s32", "s8 u8", "s32", f"{plain} .satfinite?", since)
    for shape, since in (("m8n8k32", "@6.5 @sm_75"), ("m16n8k32", "@7.0 @sm_80"), ("m16n8k64", "@7.0 @sm_80")):
        rows += _product("mma", shape, "s32", "s4 u4", "s32", f"{plain} .satfinite?", since)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        if shape == "m8n8k128":
            first = "@7.0 @sm_75"
        else:
            first = "@7.0 @sm_80"
        rows += _product("mma", shape, "s32", "b1", "s32", f"{plain} .xor .popc", first)
        rows += _product("mma", shape, "s32", "b1", "s32", f"{plain} .and .popc", "@7.1 @sm_80")
    for shape, d, c, since in (
        ("m16n8k32", "f32", "f32", "@8.4 @sm_89"),
        ("m16n8k16", "f32", "f32", "@8.7 @sm_89"),
        ("m16n8k32", "f16", "f16", "@8.7 @sm_89"),
        ("m16n8k16", "f16", "f16", "@8.7 @sm_89"),
    ):
        rows += _product("mma", shape, d, "e4m3 e5m2", c, plain, since)
    for each in ("f32", "f16"):
        rows += _product("mma", "m16n8k32", each, _SMALL, each, f"{plain} .kind::f8f6f4", "@8.7 @sm_120")
    return rows


def _wmma() -> list[Row]:
    rows: list[Row] = []
    tall = "m16n16k16 m8n32k16 m32n8k16"
    for shapes, ab, c, since in (
        (tall, "f16", "f16 f32", "@6.0 @sm_70"), (tall, "bf16", "f32", "@7.0 @sm_80"),
        (tall, "s8 u8", "s32", "@6.3 @sm_72"), ("m16n16k8", "tf32", "f32", "@7.0 @sm_80"),
        ("m8n8k4", "f64", "f64", "@7.0 @sm_80"), ("m8n8k32", "s4 u4", "s32", "@6.3 @sm_75"),
        ("m8n8k128", "b1", "s32", "@6.3 @sm_75"),
    ):  # fmt: skip
        either = ".layout:row|col"
        for shape in shapes.split():
            for matrix in "ab":
                if ab in ("s4 u4", "b1"):
                    fixed = {"a": ".row", "b": ".col"}[matrix]
                else:
                    fixed = either
                rows.append(
                    (f"wmma .load .{matrix} .sync .aligned {fixed} .{shape} .matrix_space? {since}", ab,
                     f"d:{_operand(ab)}+ m:mem a?:u32", "!wmma_load", "")
                )  # fmt: skip
            for type in c.split():
                held = _REGISTER.get(type, "b32")
                rows += [
                    (f"wmma .load .c .sync .aligned {either} .{shape} .matrix_space? {since}", type,
                     f"d:{held}+ m:mem a?:u32", "!wmma_load", ""),
                    (f"wmma .store .d .sync .aligned {either} .{shape} .matrix_space? {since}", type,
                     f"m:mem b:{held}+ a?:u32", "!wmma_store", ""),
                ]  # fmt: skip
            if ab in ("s4 u4", "b1"):
                layouts = ".row .col"
            else:
                layouts = ".alayout:row|col .blayout:row|col"
            if ab == "f16":  # the types of A and B are not written
                rows += [
                    (f"wmma .mma .sync .aligned {layouts} .{shape} {since}", f"{d} / {of}",
                     f"d:{_REGISTER.get(d, 'b32')}+ a:f16x2+ b:f16x2+ c:{_REGISTER.get(of, 'b32')}+", "!mma", "")
                    for d in ("f16", "f32") for of in ("f16", "f32")
                ]  # fmt: skip
            elif ab == "b1":
                rows += _product("wmma", shape, "s32", "b1", "s32", f".mma {layouts} .xor .popc", since)
                rows += _product("wmma", shape, "s32", "b1", "s32", f".mma {layouts} .and .popc", "@7.1 @sm_80")
            else:
                if c == "s32":
                    more = " .satfinite?"
                elif c == "f64":
                    more = " .rnd?"
                else:
                    more = ""
                for type in ab.split():  # that of A and of B
                    rows += _product("wmma", shape, c, type, c, f".mma {layouts}{more}", since)
    return rows


MATRICES: list[Row] = [
    *_mma(),
    *_wmma(),
    ("ldmatrix .sync .aligned .m8n8 .x1|x2|x4 .trans? .incta? @6.5 @sm_75", "b16", "d:b32+ m:mem", "!ldmatrix", ""),
    ("stmatrix .sync .aligned .m8n8 .x1|x2|x4 .trans? .incta? @7.8 @sm_90", "b16", "m:mem a:b32+", "!stmatrix", ""),
    ("movmatrix .sync .aligned .m8n8 .trans @7.8 @sm_75", "b16", "d:b32 a:b32!", "!movmatrix", ""),
]  # fmt: skip
