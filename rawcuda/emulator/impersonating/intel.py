"""The machine code of the shared object for x86-64: each line has the bytes, and then the instruction.

What it is   `stub`, the code of an exported function; and `shared`, the code to which all of them jump.
How          [rbx+NAME] is the word NAME of symbol_table.py. The distance to the table depends on the number of
             functions, so its four bytes are filled in when the object is written.
Source       AMD64 Architecture Programmer's Manual, volume 3; System V ABI, AMD64 supplement
Read next    symbol_table.py, which has the same steps in C
"""

from __future__ import annotations

__all__ = ["WHOLE", "shared", "stub"]

WHOLE: dict[str, bytes] = {}  # functions that need no shared code


def stub(number: int, distance: int) -> bytes:
    """Return the code of a function, 16 bytes: endbr64; mov eax, number; jmp to the shared code.

    distance  from the beginning of this code to the shared code
    """
    jump = (distance - 14).to_bytes(4, "little", signed=True)
    return b"\xf3\x0f\x1e\xfa\xb8" + number.to_bytes(4, "little") + b"\xe9" + jump + b"\xcc\xcc"


def shared(distance: int) -> bytes:
    """Return the shared code.

    distance  from its beginning to the table
    """
    code = bytearray()
    for line in SHARED.strip().splitlines():
        digits = line.partition(" ")[0]
        if not line.endswith(":"):
            code += bytes.fromhex(digits.replace("????????", "00000000"))
        if "?" in digits:
            code[-4:] = (distance - len(code)).to_bytes(4, "little", signed=True)
    return bytes(code)


SHARED = """
common:
55                   push rbp
4889e5               mov rbp, rsp
53                   push rbx
4154                 push r12
4155                 push r13
4156                 push r14
4881eca0000000       sub rsp, 0xa0
48897dd8             mov [rbp-0x28], rdi
488975d0             mov [rbp-0x30], rsi
488955c8             mov [rbp-0x38], rdx
48894dc0             mov [rbp-0x40], rcx
4c8945b8             mov [rbp-0x48], r8
4c894db0             mov [rbp-0x50], r9
660fd645a8           movq [rbp-0x58], xmm0
660fd64da0           movq [rbp-0x60], xmm1
660fd65598           movq [rbp-0x68], xmm2
660fd65d90           movq [rbp-0x70], xmm3
660fd66588           movq [rbp-0x78], xmm4
660fd66d80           movq [rbp-0x80], xmm5
660fd6b578ffffff     movq [rbp-0x88], xmm6
660fd6bd70ffffff     movq [rbp-0x90], xmm7
4189c4               mov r12d, eax
4531ed               xor r13d, r13d
488d1d????????       lea rbx, [rip+TABLE]
e86b030000           call note
ba04000000           mov edx, 4
443ba3e8000000       cmp r12d, [rbx+ERRNAME]
7420                 je put
443ba3f0000000       cmp r12d, [rbx+GETNAME]
7443                 je get
ba08000000           mov edx, 8
443ba3f8000000       cmp r12d, [rbx+GETTEXT]
7435                 je get
443ba3ec000000       cmp r12d, [rbx+ERRTEXT]
7549                 jne plain
put:
488b75d0             mov rsi, [rbp-0x30]
41be01000000         mov r14d, 1
4885f6               test rsi, rsi
0f84e8010000         je out
e8ff020000           call look
488906               mov [rsi], rax
4885c0               test rax, rax
0f84d7010000         je out
4531f6               xor r14d, r14d
e9cf010000           jmp out
get:
e8e6020000           call look
4989c6               mov r14, rax
4885c0               test rax, rax
0f85be010000         jne out
448b7108             mov r14d, [rcx+8]
4901de               add r14, rbx
e9b2010000           jmp out
plain:
837b0800             cmp dword ptr [rbx+PID], 0
7415                 je same
b827000000           mov eax, 39
0f05                 syscall
3b4308               cmp eax, [rbx+PID]
7409                 je same
448b7324             mov r14d, [rbx+FORKED]
e997010000           jmp out
same:
f0ff83d4000000       lock inc dword ptr [rbx+INSIDE]
83bbd800000000       cmp dword ptr [rbx+ENDING], 0
7426                 je open
ff93a8000000         call [rbx+SELF]
448b7320             mov r14d, [rbx+CLOSED]
483b83e0000000       cmp rax, [rbx+MAIN]
0f8569010000         jne finish
83bbd800000001       cmp dword ptr [rbx+ENDING], 1
0f855c010000         jne finish
eb29                 jmp alive
open:
837b3000             cmp dword ptr [rbx+READY], 0
7505                 jne ready
e86f010000           call find
ready:
448b732c             mov r14d, [rbx+FAILED]
48837b5000           cmp qword ptr [rbx+ISINIT], 0
0f8440010000         je finish
ff5350               call [rbx+ISINIT]
448b7320             mov r14d, [rbx+CLOSED]
85c0                 test eax, eax
0f8431010000         je finish
alive:
ff5358               call [rbx+ENSURE]
898550ffffff         mov [rbp-0xb0], eax
488dbd68ffffff       lea rdi, [rbp-0x98]
488db560ffffff       lea rsi, [rbp-0xa0]
488d9558ffffff       lea rdx, [rbp-0xa8]
ff5368               call [rbx+FETCH]
4a8b84e380020000     mov rax, [rbx+r12*8+SLOTS]
4885c0               test rax, rax
752f                 jne found
448b732c             mov r14d, [rbx+FAILED]
48837b1800           cmp qword ptr [rbx+RESOLVE], 0
7515                 jne resolve
e8d3010000           call boot
48837b1800           cmp qword ptr [rbx+RESOLVE], 0
0f84c7000000         je restore
e82c020000           call note
resolve:
4489e7               mov edi, r12d
ff5318               call [rbx+RESOLVE]
4885c0               test rax, rax
0f84b3000000         je restore
found:
448b7328             mov r14d, [rbx+MISSING]
4883f801             cmp rax, 1
0f84a5000000         je restore
4989c6               mov r14, rax
4883bb8000000000     cmp qword ptr [rbx+GCOFF], 0
7413                 je copy
f0ff4334             lock inc dword ptr [rbx+DEPTH]
837b3401             cmp dword ptr [rbx+DEPTH], 1
7509                 jne copy
ff9380000000         call [rbx+GCOFF]
894338               mov [rbx+GCWAS], eax
copy:
4881ec80000000       sub rsp, 0x80
488d7510             lea rsi, [rbp+16]
4889e7               mov rdi, rsp
b910000000           mov ecx, 16
f348a5               rep movsq
f30f7e45a8           movq xmm0, [rbp-0x58]
f30f7e4da0           movq xmm1, [rbp-0x60]
f30f7e5598           movq xmm2, [rbp-0x68]
f30f7e5d90           movq xmm3, [rbp-0x70]
f30f7e6588           movq xmm4, [rbp-0x78]
f30f7e6d80           movq xmm5, [rbp-0x80]
f30f7eb578ffffff     movq xmm6, [rbp-0x88]
f30f7ebd70ffffff     movq xmm7, [rbp-0x90]
488b7dd8             mov rdi, [rbp-0x28]
488b75d0             mov rsi, [rbp-0x30]
488b55c8             mov rdx, [rbp-0x38]
488b4dc0             mov rcx, [rbp-0x40]
4c8b45b8             mov r8, [rbp-0x48]
4c8b4db0             mov r9, [rbp-0x50]
41ffd6               call r14
4881c480000000       add rsp, 0x80
4989c6               mov r14, rax
4883bb8000000000     cmp qword ptr [rbx+GCOFF], 0
7412                 je restore
f0ff4b34             lock dec dword ptr [rbx+DEPTH]
750c                 jne restore
837b3800             cmp dword ptr [rbx+GCWAS], 0
7406                 je restore
ff9388000000         call [rbx+GCON]
restore:
488bbd68ffffff       mov rdi, [rbp-0x98]
488bb560ffffff       mov rsi, [rbp-0xa0]
488b9558ffffff       mov rdx, [rbp-0xa8]
ff5370               call [rbx+RESTORE]
8bbd50ffffff         mov edi, [rbp-0xb0]
ff5360               call [rbx+RELEASE]
finish:
f0ff8bd4000000       lock dec dword ptr [rbx+INSIDE]
out:
4d85ed               test r13, r13
7404                 je leaving
45897504             mov [r13+4], r14d
leaving:
4c89f0               mov rax, r14
488d65e0             lea rsp, [rbp-0x20]
415e                 pop r14
415d                 pop r13
415c                 pop r12
5b                   pop rbx
5d                   pop rbp
c3                   ret
find:
4156                 push r14
4157                 push r15
4157                 push r15
spin:
b801000000           mov eax, 1
87430c               xchg [rbx+LOCK], eax
85c0                 test eax, eax
7404                 je locked
f390                 pause
ebf0                 jmp spin
locked:
837b3000             cmp dword ptr [rbx+READY], 0
0f8592000000         jne unlock
4531f6               xor r14d, r14d
search:
4531ff               xor r15d, r15d
next:
4489f8               mov eax, r15d
c1e005               shl eax, 5
488db40300010000     lea rsi, [rbx+rax+NAMES]
4c89f7               mov rdi, r14
ff5340               call [rbx+DLSYM]
4885c0               test rax, rax
7405                 je absent
4a8944fb50           mov [rbx+r15*8+API], rax
absent:
41ffc7               inc r15d
4183ff0c             cmp r15d, 12
75d9                 jne next
48837b5000           cmp qword ptr [rbx+ISINIT], 0
7524                 jne start
4d85f6               test r14, r14
7552                 jne done
8bbbb0000000         mov edi, [rbx+LIBPYTHON]
85ff                 test edi, edi
7448                 je done
4801df               add rdi, rbx
be02010000           mov esi, 0x102
ff5348               call [rbx+DLOPEN]
4989c6               mov r14, rax
4885c0               test rax, rax
75ad                 jne search
eb33                 jmp done
start:
4d85f6               test r14, r14
742e                 je done
ff5350               call [rbx+ISINIT]
85c0                 test eax, eax
7527                 jne done
4883bb9000000000     cmp qword ptr [rbx+SETNAME], 0
740f                 je initialize
8bbbb4000000         mov edi, [rbx+PROGRAM]
4801df               add rdi, rbx
ff9390000000         call [rbx+SETNAME]
initialize:
31ff                 xor edi, edi
ff9398000000         call [rbx+INITEX]
ff93a0000000         call [rbx+SAVE]
done:
c7433001000000       mov dword ptr [rbx+READY], 1
unlock:
c7430c00000000       mov dword ptr [rbx+LOCK], 0
415f                 pop r15
415f                 pop r15
415e                 pop r14
c3                   ret
boot:
4883ec08             sub rsp, 8
8bbbbc000000         mov edi, [rbx+DIGITS]
4801df               add rdi, rbx
4889d8               mov rax, rbx
b910000000           mov ecx, 16
digit:
89c2                 mov edx, eax
83e20f               and edx, 15
83c230               add edx, 0x30
83fa3a               cmp edx, 0x3a
7203                 jb written
83c227               add edx, 39
written:
48ffcf               dec rdi
8817                 mov [rdi], dl
48c1e804             shr rax, 4
ffc9                 dec ecx
75e3                 jne digit
8bbbb8000000         mov edi, [rbx+SCRIPT]
4801df               add rdi, rbx
ff5378               call [rbx+RUN]
4883c408             add rsp, 8
c3                   ret
look:
8b8bf4000000         mov ecx, [rbx+ERRORS]
4801d9               add rcx, rbx
8b45d8               mov eax, [rbp-0x28]
row:
83790400             cmp dword ptr [rcx+4], 0
7411                 je unknown
3b01                 cmp eax, [rcx]
7406                 je known
4883c10c             add rcx, 12
ebf0                 jmp row
known:
8b0411               mov eax, [rcx+rdx]
4801d8               add rax, rbx
c3                   ret
unknown:
31c0                 xor eax, eax
c3                   ret
note:
488b4b10             mov rcx, [rbx+JOURNAL]
4885c9               test rcx, rcx
7437                 je unnoted
f042ff84a140040000   lock inc dword ptr [rcx+r12*4+0x440]
ba01000000           mov edx, 1
f00fc15108           lock xadd [rcx+8], edx
83e23f               and edx, 63
c1e204               shl edx, 4
4c8d6c1140           lea r13, [rcx+rdx+0x40]
45896500             mov [r13], r12d
41c74504ffffffff     mov dword ptr [r13+4], -1
64488b142500000000   mov rdx, fs:[0]
49895508             mov [r13+8], rdx
unnoted:
c3                   ret
"""
