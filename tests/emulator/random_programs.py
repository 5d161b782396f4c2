"""Random kernels of defined behaviour: threads that go different ways, memory of their own, and what they do together.

What it is   `random_program` and `random_data`, the kernel and the buffers of a seed, for a grid of 3 blocks of 64.
Read next    test_executors.py, which compares what the executors make of them; tests/attack/test_programs.py
"""

from __future__ import annotations

import random
import struct

from tests.emulator.ptx_client import kernel

__all__ = ["START", "random_data", "random_program"]

START = (
    "mov.u32 %r1, %tid.x;\nmov.u32 %r20, %ctaid.x;\nmov.u32 %r21, %ntid.x;\nmad.lo.u32 %r22, %r20, %r21, %r1;\n"
    "ld.param.u64 %d3, [extra];\nmul.wide.u32 %d1, %r22, 4;\nadd.u64 %d1, %out, %d1;\n"
    "mul.wide.u32 %d2, %r1, 4;\nadd.u64 %d2, %d3, %d2;\n"
)

# Instructions, of which each may have a guard. {a} to {e} are registers of 32 bits, {h} and {i} of 16, {w} and {x} of
# 64, {f} and {g} of floats, {p} and {q} predicates. Each is used as an integer and as a float, and is narrower or wider
# than what is loaded and stored. (Which of two NaNs of float64 an operation returns is undefined.)
ANYWHERE = """
add.u32 {d}, {a}, {b};
sub.s32 {d}, {a}, {b};
mul.lo.u32 {d}, {a}, {b};
xor.b32 {d}, {a}, {b};
mad.lo.s32 {d}, {a}, {b}, {c};
min.s32 {d}, {a}, {b};
max.u32 {d}, {a}, {b};
shf.l.wrap.b32 {d}, {a}, {b}, {c};
bfe.u32 {d}, {a}, 3, 9;
prmt.b32 {d}, {a}, {b}, 0x5140;
popc.b32 {d}, {a};
selp.b32 {d}, {a}, {b}, {p};
setp.lt.s32 {p}, {a}, {b};
setp.eq.and.u32 {p}, {a}, {b}, {q};
cvt.rn.f32.s32 {f}, {a};
cvt.rzi.s32.f32 {d}, {f};
fma.rn.f32 {f}, {f}, {g}, {g};
mul.f32 {f}, {f}, {g};
add.f32 {g}, {f}, {g};
sqrt.rn.f32 {g}, {f};
mov.b32 {d}, {f};
lop3.b32 {d}, {a}, {b}, {c}, 0x6a;
div.u32 {d}, {a}, {b};
rem.s32 {d}, {a}, {b};
and.b32 %r30, {a}, 60; cvt.u64.u32 %d10, %r30; add.u64 %d10, %d3, %d10; ld.global.u32 {d}, [%d10];
st.global.u32 [%d1], {a}; ld.global.u32 {d}, [%d1];
and.b32 %r30, {a}, 28; mov.u32 %r31, own; add.u32 %r30, %r30, %r31; st.local.u32 [%r30], {b};
mov.u32 %r31, own; ld.local.u32 {d}, [%r31+8];
red.global.add.u32 [%d3+64], {a};
atom.global.max.s32 %r32, [%d3+68], {a};
add.f32 {d}, {a}, {b};
mul.f32 {d}, {a}, {b};
fma.rn.f32 {d}, {a}, {b}, {c};
max.f32 {d}, {a}, {b};
neg.f32 {d}, {a};
cvt.rn.f32.s32 {d}, {a};
cvt.rni.s32.f32 {d}, {a};
setp.gtu.f32 {p}, {a}, {b};
mov.b32 {d}, {a};
slct.b32.s32 {d}, {a}, {b}, {c};
selp.f32 {d}, {a}, {b}, {p};
add.f64 {w}, {w}, {x}; testp.notanumber.f64 %p5, {w}; selp.b64 {w}, 1, {w}, %p5;
mul.f64 {w}, {w}, {x}; testp.notanumber.f64 %p5, {w}; selp.b64 {w}, 1, {w}, %p5;
cvt.f64.f32 {w}, {a};
cvt.rn.f32.f64 {d}, {w};
cvt.rn.f64.u32 {w}, {a};
setp.lt.f64 {p}, {w}, {x};
selp.b64 {w}, {w}, {x}, {p};
mov.b64 {w}, {x};
mov.b64 {w}, {{{a}, {b}}};
mov.b64 {{{d}, {e}}}, {w};
mov.b32 {d}, {{{h}, {i}}};
mov.b32 {{{h}, {i}}}, {a};
cvt.u16.u32 {h}, {a};
cvt.s32.s16 {d}, {h};
cvt.u64.u32 {w}, {a};
cvt.s64.s32 {w}, {a};
cvt.u32.u64 {d}, {w};
mul.wide.s32 {w}, {a}, {b};
mad.wide.u16 {d}, {h}, {i}, {a};
add.s16 {h}, {h}, {i};
shr.s16 {h}, {h}, 3;
add.f16 {h}, {h}, {i};
cvt.rn.f16.f32 {h}, {a};
cvt.f32.f16 {d}, {h};
fma.rn.f16x2 {d}, {a}, {b}, {c};
shl.b64 {w}, {w}, 7;
xor.b64 {w}, {w}, {x};
add.cc.u32 {d}, {a}, {b}; addc.u32 {e}, {c}, 0;
sub.cc.u32 {d}, {a}, {b}; subc.u32 {e}, {c}, 5;
bfi.b32 {d}, {a}, {b}, 5, 11;
bfe.s32 {d}, {a}, 4, 20;
shr.s32 {d}, {a}, {b};
clz.b32 {d}, {a};
ld.global.u8 {d}, [%d3+0];
ld.global.s8 {d}, [%d3+8];
ld.global.s8 {d}, [%d3+16];
ld.global.u16 {d}, [%d3+16];
ld.global.s16 {d}, [%d3+24];
ld.global.s16 {d}, [%d3+32];
ld.global.b32 {d}, [%d3+32];
ld.global.f32 {d}, [%d3+40];
ld.global.f32 {d}, [%d3+48];
ld.global.s8 {h}, [%d3+0];
ld.global.b16 {h}, [%d3+8];
ld.global.b16 {h}, [%d3+16];
ld.global.u8 {w}, [%d3+16];
ld.global.s16 {w}, [%d3+24];
ld.global.s16 {w}, [%d3+32];
ld.global.s32 {w}, [%d3+32];
ld.global.b64 {w}, [%d3+40];
ld.global.b64 {w}, [%d3+48];
ld.global.f64 {w}, [%d3+0];
ld.global.v2.u8 {{{d}, {e}}}, [%d3+6];
ld.global.v4.s8 {{{d}, {e}, %r33, %r34}}, [%d3+20]; xor.b32 {d}, %r33, %r34;
ld.global.v2.b32 {{{d}, {e}}}, [%d3+24];
ld.global.v2.s8 {{{h}, {i}}}, [%d3+34];
ld.global.v2.b64 {{{w}, {x}}}, [%d3+16];
ld.param.u16 {d}, [extra+2];
ld.param.s8 {w}, [out+1];
ld.const.b8 {d}, [table+5];
and.b32 %r30, {a}, 15; mov.u64 %d10, table; cvt.u64.u32 %d11, %r30; add.u64 %d10, %d10, %d11; ld.const.s8 {d}, [%d10];
mov.u32 %r31, own; st.local.b8 [%r31+5], {a};
mov.u32 %r31, own; st.local.b16 [%r31+10], {a};
mov.u32 %r31, own; st.local.v2.b32 [%r31+16], {{{a}, {b}}};
mov.u32 %r31, own; st.local.b64 [%r31+24], {w};
mov.u32 %r31, own; ld.local.v2.u16 {{{d}, {e}}}, [%r31+8];
mov.u32 %r31, own; ld.local.s8 {d}, [%r31+5];
mov.u32 %r31, own; ld.local.b64 {w}, [%r31+16];
atom.global.exch.b32 {d}, [%d1], {a};
st.global.u32 [%d1], 0x40490fdb; atom.global.add.f32 {d}, [%d1], {a};
atom.global.inc.u32 {d}, [%d1], 9;
atom.global.cas.b32 {d}, [%d1], {a}, {b};
call ({d}), same, ({a});
st.param.b32 [A], {a}; st.param.b64 [B], {w}; st.param.b8 [C], {b}; call (R), twist, (A, B, C); ld.param.b32 {d}, [R];
"""

# {m} and {n}: registers that no arithmetic writes keep all bits, whatever they are used as.
ANYWHERE += """\
ld.global.b32 {m}, [%d3+12];
ld.global.f32 {m}, [%d3+4];
ld.global.v2.b32 {{{m}, {n}}}, [%d3+8];
mov.b32 {m}, {n};
mov.b32 {d}, {m};
mov.b32 {f}, {g};
selp.b32 {m}, {n}, {m}, {p};
slct.f32.s32 {m}, {m}, {n}, {a};
mov.b64 {w}, {{{m}, {n}}};
add.f32 {d}, {m}, {n};
min.f32 {f}, {m}, {g};
fma.rn.f32 {d}, {m}, {n}, {a};
setp.lt.f32 {p}, {m}, {n};
cvt.rzi.s32.f32 {d}, {m};
call ({m}), same, ({n});
mov.u32 %r31, own; st.local.b32 [%r31+12], {m};
mov.u32 %r31, own; ld.local.b32 {m}, [%r31+12];
atom.global.exch.b32 {m}, [%d1], {n};
st.global.f32 [%d1], {m};
"""

# in places that all threads of a warp reach
TOGETHER = """
shfl.sync.idx.b32 {m}, {n}, {a}, 31, -1;
shfl.sync.down.b32 {m}|{p}, {n}, 4, 31, -1;
redux.sync.xor.b32 {d}, {a}, -1;
match.all.sync.b32 {d}|{p}, {a}, -1;
shfl.sync.bfly.b32 {d}, {a}, 3, 31, -1;
shfl.sync.up.b32 {d}|{p}, {a}, 1, 0, -1;
vote.sync.ballot.b32 {d}, {p}, -1;
vote.sync.any.pred {q}, {p}, -1;
match.any.sync.b32 {d}, {a}, -1;
bar.red.popc.u32 {d}, 0, {p};
bar.sync 0; st.shared.u32 [%r41], {a}; bar.sync 0; ld.shared.u32 {d}, [%r42]; bar.sync 0;
bar.sync 0; red.shared.add.u32 [%r40], {a}; bar.sync 0; ld.shared.u32 {d}, [%r40]; bar.sync 0;
bar.warp.sync -1; st.shared.u32 [%r41], {a}; bar.warp.sync -1; ld.shared.u32 {d}, [%r43]; bar.sync 0;
"""

FUNCTIONS = """.const .align 4 .b8 table[16] = {0, 127, 128, 255, 1, 254, 64, 192, 3, 5, 7, 11, 13, 17, 19, 23};
.func (.reg .b32 b) same(.reg .b32 a) { mov.b32 b, a; ret; }
.func (.param .b32 r) twist(.param .b32 a, .param .b64 b, .param .b8 c)
{
    .reg .b32 x, y, z; .reg .pred p;
    ld.param.b32 x, [a]; ld.param.s8 y, [c]; ld.param.u16 z, [b+2]; setp.lt.s32 p, x, y;
    @p add.u32 x, x, z; @!p add.f32 x, x, y; st.param.b32 [r], x; ret;
}
"""

SPECIAL = (  # numbers, NaNs of both kinds, and integers with the bits of NaNs
    0xFFFFFFFF, 0x7F800001, 0xFFB3B4C0, 0x7FC01234, 0x80000000, 1, 0x3FC00000, 0xFF800000, 0x807FFFFF, 0x7FF00000,
    0xC2F6E979, 0xFFF80000, 0x12345678, 0x9ABCDEF0, 0x7F7FFFFF, 0x00800000,
)  # fmt: skip


def random_data(seed: int) -> list[bytes]:
    """Return the buffers of a random program: a word for each thread, and 64 words."""
    rng = random.Random(seed)
    words = [rng.choice((rng.choice(SPECIAL), rng.getrandbits(32))) for _ in range(64)]
    return [bytes(4 * 64 * 3), struct.pack("<64I", *words)]


def random_program(seed: int) -> str:
    """Return a kernel without races: loops and branches by data, own memory, and what all threads do together."""
    rng = random.Random(seed)
    labels = iter(range(10_000))

    def step(together: bool) -> str:
        form = rng.choice((TOGETHER if together else ANYWHERE).strip().split("\n"))
        words = {name: f"%r{rng.randint(1, 8)}" for name in "abc"}
        for names, stem, registers in (("de", "r", range(2, 9)), ("mn", "r", (61, 62, 63)), ("wx", "d", (20, 21, 22)),
                                       ("hi", "h", (1, 2, 3))):  # fmt: skip
            words.update(zip(names, (f"%{stem}{k}" for k in rng.sample(registers, 2))))
        words.update((name, f"%{kind}{rng.randint(1, 3)}") for name, kind in ("ff", "gf", "pp", "qp"))
        text = form.format(**words)
        if not together and form[0] != "{" and rng.random() < 0.3:
            guard = f"@{rng.choice(('', '!'))}%p{rng.randint(1, 3)} "
            text = guard + text[:-1].replace("; ", f"; {guard}") + ";"
        return text

    def part(depth: int, together: bool) -> list[str]:
        lines = []
        for _ in range(rng.randint(2, 5)):
            kind = rng.random()
            if kind < 0.18 and depth:
                label = next(labels)
                lines += [f"@{rng.choice(('', '!'))}%p{rng.randint(1, 3)} bra E{label};", *part(depth - 1, False)]
                if rng.random() < 0.5:
                    lines += [f"bra F{label};", f"E{label}:", *part(depth - 1, False), f"F{label}:"]
                else:
                    lines.append(f"E{label}:")
            elif kind < 0.32 and depth:
                label, counter = next(labels), f"%r{50 + depth}"
                lines += [f"and.b32 {counter}, %r{rng.randint(1, 8)}, 7;", f"L{label}:", *part(depth - 1, False)]
                lines += [f"sub.s32 {counter}, {counter}, 1;", f"setp.gt.s32 %p4, {counter}, 0;", f"@%p4 bra L{label};"]
            else:
                lines.append(step(together and kind > 0.7))
        return lines

    start = [
        ".param .b32 A, R; .param .b64 B; .param .b8 C;",
        ".shared .align 4 .b8 s[1024];", ".local .align 4 .b8 own[32];", "mov.u32 %r40, s;", "shl.b32 %r41, %r1, 2;",
        "add.u32 %r41, %r41, %r40;", "xor.b32 %r42, %r1, 37;", "shl.b32 %r42, %r42, 2;", "add.u32 %r42, %r42, %r40;",
        "xor.b32 %r43, %r1, 9;", "shl.b32 %r43, %r43, 2;", "add.u32 %r43, %r43, %r40;", "st.shared.u32 [%r41], %r22;",
        "mov.u32 %r31, own;", *(f"st.local.u32 [%r31+{at}], %r22;" for at in range(0, 32, 4)),
        *(f"mad.lo.u32 %r{k}, %r22, {k * 7919}, {k};" for k in range(2, 9)),
        *(f"setp.lt.s32 %p{k}, %r{k + 1}, {k * 50000};" for k in range(1, 4)),
        *(f"cvt.rn.f32.u32 %f{k}, %r{k + 3};" for k in range(1, 4)),
        *(f"ld.global.b64 %d{19 + k}, [%d3+{8 * k}]; ld.global.b32 %r{60 + k}, [%d3+{4 * k}];" for k in range(1, 4)),
        *(f"cvt.u16.u32 %h{k}, %r{k + 2};" for k in range(1, 4)), "bar.sync 0;",
    ]  # fmt: skip
    end = [
        *(f"mov.b32 %r{8 + k}, %f{k};\ncvt.u32.u16 %r{11 + k}, %h{k};" for k in range(1, 4)),
        *(f"mov.b64 {{%r{13 + 2 * k}, %r{14 + 2 * k}}}, %d{19 + k};" for k in range(1, 4)),
        *(f"mad.lo.u32 %r2, %r2, 31, %r{k};" for k in (*range(3, 21), 61, 62, 63)),
    ]
    body = [line for _ in range(3) for line in part(2, True)]
    lines = [START, *start, *body, *end, "st.global.u32 [%d1], %r2;"]
    text = kernel("\n".join(lines), ".param .u64 out, .param .u64 extra", before=FUNCTIONS)
    return text.replace(".target sm_75", ".target sm_80")
