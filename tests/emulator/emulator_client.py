"""A client of the emulator that does not use the package's driver layer: only addresses and plain C calls.

Every argument is passed as a 64-bit word, because 64-bit machines pass integers, pointers and 8-byte structures so.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time

import pytest

from tests.subject import module

HEAD = ".version 6.3\n.target sm_50\n.address_size 64\n"

# store: *at = value.  step: *at = *at * 10 + digit, so that the order of steps can be read.  spin: until *flag != 0.
# trap and wild (which stores to address 16) fail.
KERNELS = (
    HEAD
    + """
.visible .global .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .entry store(.param .u64 at, .param .u32 value)
{
    .reg .b64 %d<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %d1, [at];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %d2, %d1;
    st.global.u32 [%d2], %r1;
    ret;
}
.visible .entry step(.param .u64 at, .param .u32 digit)
{
    .reg .b64 %d<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %d1, [at];
    ld.param.u32 %r1, [digit];
    cvta.to.global.u64 %d2, %d1;
    ld.global.u32 %r2, [%d2];
    mad.lo.u32 %r3, %r2, 10, %r1;
    st.global.u32 [%d2], %r3;
    ret;
}
.visible .entry spin(.param .u64 flag)
{
    .reg .b64 %d<3>;
    .reg .b32 %r<2>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [flag];
    cvta.to.global.u64 %d2, %d1;
AGAIN:
    ld.volatile.global.u32 %r1, [%d2];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ret;
}
.visible .entry nothing() { ret; }
.visible .entry small() .maxntid 64, 1, 1 { ret; }
.visible .entry exact() .reqntid 32, 2, 1 { ret; }
.visible .entry trap() { trap; ret; }
.visible .entry wild()
{
    .reg .b64 %d;
    mov.u64 %d, 16;
    st.global.u32 [%d], 1;
    ret;
}
"""
)


class Failed(Exception):
    """An error code that a call returned."""

    def __init__(self, name, code):
        super().__init__(f"{name}: {code}")
        self.code = code


class Client:
    """A caller of entry points by name: `code` returns the result, `do` raises Failed, `get` returns the output."""

    def __init__(self, mode="eager", seed=0, devices=1, *, start=True, **more):
        if ctypes.sizeof(ctypes.c_void_p) != 8:
            pytest.skip("this caller has handles of 8 bytes")
        more.setdefault("executor", os.environ.get("TESTED_EXECUTOR", "auto"))
        self.emulator = module("emulator").Emulator(mode, seed, devices, **more)
        self._functions = {}
        if start:
            self.do("cuInit", 0)
            self.context = self.get("cuDevicePrimaryCtxRetain", 0)
            self.do("cuCtxSetCurrent", self.context)

    def code(self, name, *arguments):
        key = name, len(arguments)
        function = self._functions.get(key)
        if function is None:
            address = self.emulator.address(name)
            assert address, f"the emulator does not have {name}"
            function = self._functions[key] = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * len(arguments))(
                address
            )
        kept = [
            argument if not isinstance(argument, bytes) else ctypes.create_string_buffer(argument)
            for argument in arguments
        ]
        return function(*[_word(argument) for argument in kept])

    def do(self, name, *arguments):
        code = self.code(name, *arguments)
        if code:
            raise Failed(name, code)

    def get(self, name, *arguments):
        """Call with a 64-bit out-pointer as the first argument, and return the value that was written."""
        out = ctypes.c_uint64()
        self.do(name, out, *arguments)
        return out.value

    def get_int(self, name, *arguments):
        out = ctypes.c_int()
        self.do(name, out, *arguments)
        return out.value

    def allocate(self, nbytes):
        return self.get("cuMemAlloc_v2", nbytes)

    def upload(self, content):
        address = self.allocate(len(content))
        self.do("cuMemcpyHtoD_v2", address, bytes(content), len(content))
        return address

    def download(self, address, nbytes):
        buffer = ctypes.create_string_buffer(nbytes)
        self.do("cuMemcpyDtoH_v2", buffer, address, nbytes)
        return buffer.raw

    def stream(self, flags=1):
        return self.get("cuStreamCreate", flags)

    def event(self, flags=0):
        return self.get("cuEventCreate", flags)

    def pinned(self, content):
        address = self.get("cuMemHostAlloc", len(content), 0)
        ctypes.memmove(address, bytes(content), len(content))
        return address

    def load(self, text):
        return self.get("cuModuleLoadData", text.encode() if isinstance(text, str) else text)

    def launch(self, function, arguments, *, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=0):
        """Launch with ints as 64-bit arguments, and bytes unchanged; return the code."""
        cells = [ctypes.create_string_buffer(struct.pack("<Q", a) if isinstance(a, int) else a) for a in arguments]
        pointers = (ctypes.c_uint64 * max(1, len(cells)))(*[ctypes.addressof(cell) for cell in cells])
        return self.code("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, 0)

    def cooperative(self, function, arguments, *, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=0):
        """Launch as `launch` does, with blocks that may wait for each other."""
        cells = [ctypes.create_string_buffer(struct.pack("<Q", a) if isinstance(a, int) else a) for a in arguments]
        pointers = (ctypes.c_uint64 * max(1, len(cells)))(*[ctypes.addressof(cell) for cell in cells])
        return self.code("cuLaunchCooperativeKernel", function, *grid, *block, shared, stream, pointers)

    def kernels(self):
        """Load KERNELS, and return a function that returns a kernel by name."""
        loaded = self.load(KERNELS)
        return lambda name: self.get("cuModuleGetFunction", loaded, name.encode())

    def during_a_kernel(self, *calls):
        """Make calls in threads of their own, all of which begin while a kernel runs; return what they returned."""
        flag, spin, stream, found = self.pinned(bytes(4)), self.kernels()("spin"), self.stream(), []

        def work(number, call):
            self.do("cuCtxSetCurrent", self.context)
            found.append((number, call()))

        def run():
            return self.launch(spin, [flag], stream=stream) or self.code("cuStreamSynchronize", stream)

        threads = [threading.Thread(target=work, args=each) for each in enumerate((run, *calls))]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        ctypes.memmove(flag, b"\1\0\0\0", 4)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        return [result for _, result in sorted(found)[1:]]

    def number(self, address):
        return struct.unpack("<I", self.download(address, 4))[0]

    def live(self):
        """Return the live handles, without the primary context that the client itself retains."""
        counts = self.emulator.live_handles()
        counts["context"] -= 1
        return {kind: count for kind, count in counts.items() if count}


def _word(argument):
    if argument is None:
        return 0
    if isinstance(argument, int):
        return argument & (1 << 64) - 1
    return ctypes.addressof(argument)
