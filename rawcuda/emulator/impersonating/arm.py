"""The machine code of the shared object for AArch64: each line has a word of four bytes, and then the instruction.

What it is   `stub`, the code of an exported function; and `shared`, the code to which all of them jump.
How          [x19, NAME] is the word NAME of symbol_table.py. The distance to the table depends on the number of
             functions, and follows the code.
Source       Arm Architecture Reference Manual for A-profile; Procedure Call Standard for AArch64
Read next    symbol_table.py, which has the same steps in C
"""

from __future__ import annotations

import struct

__all__ = ["WHOLE", "shared", "stub"]

# Functions that return a structure in the memory to which x8 points. A C callback cannot read x8, so these are here:
# stp w0, w1, [x8]; stp w2, w3, [x8, 8]; str w4, [x8, 16]; ret
WHOLE = {"cudaCreateChannelDesc": struct.pack("<4I", 0x29000500, 0x29010D02, 0xB9001104, 0xD65F03C0)}


def stub(number: int, distance: int) -> bytes:
    """Return the code of a function, 16 bytes: bti c; mov w16, number; b to the shared code.

    distance  from the beginning of this code to the shared code
    """
    jump = 0x14000000 | (distance - 8 >> 2) & 0x3FFFFFF
    return struct.pack("<4I", 0xD503245F, 0x52800010 | number << 5, jump, 0)


def shared(distance: int) -> bytes:
    """Return the shared code.

    distance  from its beginning to the table
    """
    lines = SHARED.strip().splitlines()
    words = [int(line.partition(" ")[0], 16) for line in lines if not line.endswith(":")]
    return struct.pack(f"<{len(words)}Iq", *words, distance)


SHARED = """
common:
a9b27bfd stp x29, x30, [sp, -0xe0]!
910003fd mov x29, sp
a90153f3 stp x19, x20, [sp, 0x10]
a9025bf5 stp x21, x22, [sp, 0x20]
a90307e0 stp x0, x1, [sp, 0x30]
a9040fe2 stp x2, x3, [sp, 0x40]
a90517e4 stp x4, x5, [sp, 0x50]
a9061fe6 stp x6, x7, [sp, 0x60]
6d0707e0 stp d0, d1, [sp, 0x70]
6d080fe2 stp d2, d3, [sp, 0x80]
6d0917e4 stp d4, d5, [sp, 0x90]
6d0a1fe6 stp d6, d7, [sp, 0xa0]
2a1003f4 mov w20, w16
d2800015 mov x21, 0
10fffe53 adr x19, common
580021d1 ldr x17, distance
8b110273 add x19, x19, x17
940000f7 bl note
d280008d mov x13, 4
b940ea69 ldr w9, [x19, ERRNAME]
6b14013f cmp w9, w20
54000160 b.eq put
b940f269 ldr w9, [x19, GETNAME]
6b14013f cmp w9, w20
54000200 b.eq get
d280010d mov x13, 8
b940fa69 ldr w9, [x19, GETTEXT]
6b14013f cmp w9, w20
54000180 b.eq get
b940ee69 ldr w9, [x19, ERRTEXT]
6b14013f cmp w9, w20
540001e1 b.ne plain
put:
f9401fee ldr x14, [sp, 0x38]
d2800036 mov x22, 1
b400106e cbz x14, out
940000d6 bl look
f90001c0 str x0, [x14]
b4001000 cbz x0, out
d2800016 mov x22, 0
1400007e b out
get:
940000d1 bl look
aa0003f6 mov x22, x0
b5000f60 cbnz x0, out
b9400936 ldr w22, [x9, 8]
8b1302d6 add x22, x22, x19
14000078 b out
plain:
b9400a69 ldr w9, [x19, PID]
34000109 cbz w9, same
d2801588 mov x8, 172
d4000001 svc 0
b9400a69 ldr w9, [x19, PID]
6b09001f cmp w0, w9
54000060 b.eq same
b9402676 ldr w22, [x19, FORKED]
1400006f b out
same:
9103526a add x10, x19, INSIDE
enter:
885ffd4b ldaxr w11, [x10]
1100056b add w11, w11, 1
880cfd4b stlxr w12, w11, [x10]
35ffffac cbnz w12, enter
b940da69 ldr w9, [x19, ENDING]
34000169 cbz w9, open
f9405669 ldr x9, [x19, SELF]
d63f0120 blr x9
b9402276 ldr w22, [x19, CLOSED]
f9407269 ldr x9, [x19, MAIN]
eb09001f cmp x0, x9
54000ba1 b.ne finish
b940da69 ldr w9, [x19, ENDING]
7100053f cmp w9, 1
54000b41 b.ne finish
1400000b b alive
open:
9100c269 add x9, x19, READY
88dffd29 ldar w9, [x9]
35000049 cbnz w9, ready
94000061 bl find
ready:
b9402e76 ldr w22, [x19, FAILED]
f9402a69 ldr x9, [x19, ISINIT]
b4000a49 cbz x9, finish
d63f0120 blr x9
b9402276 ldr w22, [x19, CLOSED]
340009e0 cbz w0, finish
alive:
f9402e69 ldr x9, [x19, ENSURE]
d63f0120 blr x9
b900cbe0 str w0, [sp, 0xc8]
9102c3e0 add x0, sp, 0xb0
9102e3e1 add x1, sp, 0xb8
910303e2 add x2, sp, 0xc0
f9403669 ldr x9, [x19, FETCH]
d63f0120 blr x9
8b140e69 add x9, x19, x20, lsl 3
f941412a ldr x10, [x9, SLOTS]
b50001aa cbnz x10, found
b9402e76 ldr w22, [x19, FAILED]
f9400e69 ldr x9, [x19, RESOLVE]
b50000c9 cbnz x9, resolve
94000085 bl boot
f9400e69 ldr x9, [x19, RESOLVE]
b40006c9 cbz x9, restore
940000a5 bl note
f9400e69 ldr x9, [x19, RESOLVE]
resolve:
2a1403e0 mov w0, w20
d63f0120 blr x9
aa0003ea mov x10, x0
b400060a cbz x10, restore
found:
b9402a76 ldr w22, [x19, MISSING]
f100055f cmp x10, 1
540005a0 b.eq restore
aa0a03f6 mov x22, x10
f9404269 ldr x9, [x19, GCOFF]
b4000149 cbz x9, copy
9100d26a add x10, x19, DEPTH
deeper:
885ffd4b ldaxr w11, [x10]
1100056b add w11, w11, 1
880cfd4b stlxr w12, w11, [x10]
35ffffac cbnz w12, deeper
7100057f cmp w11, 1
54000061 b.ne copy
d63f0120 blr x9
b9003a60 str w0, [x19, GCWAS]
copy:
d10203ff sub sp, sp, 0x80
ad4707a0 ldp q0, q1, [x29, 0xe0]
ad0007e0 stp q0, q1, [sp]
ad4807a0 ldp q0, q1, [x29, 0x100]
ad0107e0 stp q0, q1, [sp, 0x20]
ad4907a0 ldp q0, q1, [x29, 0x120]
ad0207e0 stp q0, q1, [sp, 0x40]
ad4a07a0 ldp q0, q1, [x29, 0x140]
ad0307e0 stp q0, q1, [sp, 0x60]
6d4707a0 ldp d0, d1, [x29, 0x70]
6d480fa2 ldp d2, d3, [x29, 0x80]
6d4917a4 ldp d4, d5, [x29, 0x90]
6d4a1fa6 ldp d6, d7, [x29, 0xa0]
a94307a0 ldp x0, x1, [x29, 0x30]
a9440fa2 ldp x2, x3, [x29, 0x40]
a94517a4 ldp x4, x5, [x29, 0x50]
a9461fa6 ldp x6, x7, [x29, 0x60]
d63f02c0 blr x22
910003bf mov sp, x29
aa0003f6 mov x22, x0
f9404269 ldr x9, [x19, GCOFF]
b4000169 cbz x9, restore
9100d26a add x10, x19, DEPTH
higher:
885ffd4b ldaxr w11, [x10]
5100056b sub w11, w11, 1
880cfd4b stlxr w12, w11, [x10]
35ffffac cbnz w12, higher
350000ab cbnz w11, restore
b9403a69 ldr w9, [x19, GCWAS]
34000069 cbz w9, restore
f9404669 ldr x9, [x19, GCON]
d63f0120 blr x9
restore:
f9405be0 ldr x0, [sp, 0xb0]
f9405fe1 ldr x1, [sp, 0xb8]
f94063e2 ldr x2, [sp, 0xc0]
f9403a69 ldr x9, [x19, RESTORE]
d63f0120 blr x9
b940cbe0 ldr w0, [sp, 0xc8]
f9403269 ldr x9, [x19, RELEASE]
d63f0120 blr x9
finish:
9103526a add x10, x19, INSIDE
exit:
885ffd4b ldaxr w11, [x10]
5100056b sub w11, w11, 1
880cfd4b stlxr w12, w11, [x10]
35ffffac cbnz w12, exit
out:
b4000055 cbz x21, leaving
b90006b6 str w22, [x21, 4]
leaving:
aa1603e0 mov x0, x22
a9425bf5 ldp x21, x22, [sp, 0x20]
a94153f3 ldp x19, x20, [sp, 0x10]
a8ce7bfd ldp x29, x30, [sp], 0xe0
d65f03c0 ret
find:
a9be7bfd stp x29, x30, [sp, -0x20]!
910003fd mov x29, sp
a90163f7 stp x23, x24, [sp, 0x10]
91003269 add x9, x19, LOCK
spin:
885ffd2a ldaxr w10, [x9]
35ffffea cbnz w10, spin
5280002b mov w11, 1
880c7d2b stxr w12, w11, [x9]
35ffff8c cbnz w12, spin
b9403269 ldr w9, [x19, READY]
35000549 cbnz w9, unlock
d2800017 mov x23, 0
search:
d2800018 mov x24, 0
next:
8b181661 add x1, x19, x24, lsl 5
91040021 add x1, x1, NAMES
aa1703e0 mov x0, x23
f9402269 ldr x9, [x19, DLSYM]
d63f0120 blr x9
b4000060 cbz x0, absent
8b180e69 add x9, x19, x24, lsl 3
f9002920 str x0, [x9, API]
absent:
91000718 add x24, x24, 1
f100331f cmp x24, 12
54fffec1 b.ne next
f9402a69 ldr x9, [x19, ISINIT]
b5000169 cbnz x9, start
b50002f7 cbnz x23, done
b940b260 ldr w0, [x19, LIBPYTHON]
340002a0 cbz w0, done
8b130000 add x0, x0, x19
52802041 mov w1, 0x102
f9402669 ldr x9, [x19, DLOPEN]
d63f0120 blr x9
aa0003f7 mov x23, x0
b5fffd57 cbnz x23, search
1400000e b done
start:
b40001b7 cbz x23, done
d63f0120 blr x9
35000160 cbnz w0, done
f9404a69 ldr x9, [x19, SETNAME]
b4000089 cbz x9, initialize
b940b660 ldr w0, [x19, PROGRAM]
8b130000 add x0, x0, x19
d63f0120 blr x9
initialize:
52800000 mov w0, 0
f9404e69 ldr x9, [x19, INITEX]
d63f0120 blr x9
f9405269 ldr x9, [x19, SAVE]
d63f0120 blr x9
done:
52800029 mov w9, 1
9100c26a add x10, x19, READY
889ffd49 stlr w9, [x10]
unlock:
9100326a add x10, x19, LOCK
889ffd5f stlr wzr, [x10]
a94163f7 ldp x23, x24, [sp, 0x10]
a8c27bfd ldp x29, x30, [sp], 0x20
d65f03c0 ret
boot:
a9bf7bfd stp x29, x30, [sp, -0x10]!
b940be69 ldr w9, [x19, DIGITS]
8b130129 add x9, x9, x19
aa1303ea mov x10, x19
5280020b mov w11, 16
digit:
12000d4c and w12, w10, 15
1100c18c add w12, w12, 0x30
7100e99f cmp w12, 0x3a
54000043 b.lo written
11009d8c add w12, w12, 39
written:
381ffd2c strb w12, [x9, -1]!
d344fd4a lsr x10, x10, 4
5100056b sub w11, w11, 1
35ffff0b cbnz w11, digit
b940ba60 ldr w0, [x19, SCRIPT]
8b130000 add x0, x0, x19
f9403e69 ldr x9, [x19, RUN]
d63f0120 blr x9
a8c17bfd ldp x29, x30, [sp], 0x10
d65f03c0 ret
look:
b940f669 ldr w9, [x19, ERRORS]
8b130129 add x9, x9, x19
b94033ea ldr w10, [sp, 0x30]
row:
b940052b ldr w11, [x9, 4]
3400012b cbz w11, unknown
b940012b ldr w11, [x9]
6b0a017f cmp w11, w10
54000060 b.eq known
91003129 add x9, x9, 12
17fffffa b row
known:
b86d6920 ldr w0, [x9, x13]
8b130000 add x0, x0, x19
d65f03c0 ret
unknown:
d2800000 mov x0, 0
d65f03c0 ret
note:
f9400a69 ldr x9, [x19, JOURNAL]
b4000269 cbz x9, unnoted
9111012a add x10, x9, 0x440
8b14094a add x10, x10, x20, lsl 2
count:
885f7d4b ldxr w11, [x10]
1100056b add w11, w11, 1
880c7d4b stxr w12, w11, [x10]
35ffffac cbnz w12, count
9100212a add x10, x9, 8
place:
885f7d4b ldxr w11, [x10]
1100056c add w12, w11, 1
880d7d4c stxr w13, w12, [x10]
35ffffad cbnz w13, place
1200156b and w11, w11, 63
91010135 add x21, x9, 0x40
8b0b12b5 add x21, x21, x11, lsl 4
1280000c mov w12, -1
290032b4 stp w20, w12, [x21]
d53bd04c mrs x12, tpidr_el0
f90006ac str x12, [x21, 8]
unnoted:
d65f03c0 ret
"""
