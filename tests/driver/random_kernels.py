"""Random kernels without races, in CUDA C: shared and global memory, barriers, warps, atomics, fences, flags, locks.

Each kernel is right by construction: between two barriers a thread only touches what is its own, or all only read, or
all only use atomics. Blocks communicate through a last block, a chain of flags, or a lock. Without one of its barriers
or fences, a kernel is probably wrong: `kernel(seed, name, without)` leaves one out.
"""

from __future__ import annotations

import random

BLOCKS, THREADS = 3, 64
WORDS = 64 * BLOCKS  # of the array `data`
PARAMETERS = "int *data, unsigned *counters, volatile int *flags, int *lock, int *out"


class Writer:
    """A kernel under construction; `syncs` counts what orders its threads."""

    def __init__(self, seed: int, without: int) -> None:
        self.pick = random.Random(seed)
        self.lines: list[str] = []
        self.without, self.syncs = without, 0
        self.mask = 0  # thread t owns element t ^ mask

    def sync(self, text: str = "__syncthreads();") -> str:
        self.syncs += 1
        return "" if self.syncs == self.without else text

    def put(self, *lines: str) -> None:
        self.lines += lines

    def own(self) -> None:
        place = f"t ^ {self.mask}"
        self.put(self.pick.choice([f"s[{place}] += v;", f"v += s[{place}] * 3;", f"s[{place}] = v ^ s[{place}];"]))

    def own_global(self) -> None:
        place = f"b * 64 + (t ^ {self.mask})"
        self.put(self.pick.choice([f"data[{place}] += v;", f"v ^= data[{place}];"]))

    def trade(self) -> None:
        self.put(self.sync())
        self.mask = self.pick.randrange(64)

    def trade_in_warp(self) -> None:
        self.put(self.sync("__syncwarp();"))
        self.mask ^= self.pick.randrange(32)

    def everybody_reads(self) -> None:
        where = self.pick.choice(["s[(t * 5 + 3) & 63]", "s[63 - t]", "data[b * 64 + (t + 9 & 63)]", "s[v & 63]"])
        self.put(self.sync(), f"v += {where};", self.sync())

    def count(self) -> None:
        how = self.pick.choice(["atomicAdd(&c[v & 15], 1u);", "atomicMax(&c[t & 15], (unsigned)v & 255);",
                                "atomicCAS(&c[t & 15], 0u, (unsigned)v & 7);"])  # fmt: skip
        self.put(how, self.sync(), f"v += c[(t + {self.pick.randrange(16)}) & 15];", self.sync())

    def count_everywhere(self) -> None:
        self.put("atomicAdd(&counters[v & 7], (unsigned)t);")

    def guarded_atomic(self) -> None:
        self.put("if (counters[8] < (unsigned)(v & 63)) atomicMax(&counters[8], (unsigned)(v & 63));")

    def shuffle(self) -> None:
        self.put(f"v += __shfl_xor_sync(0xffffffffu, v, {self.pick.choice([1, 2, 4, 8, 16])});")

    def two_buffers(self) -> None:
        self.put(self.sync(), "for (int k = 0; k < 3; ++k) {", "d[k & 1][t] = v + k;", self.sync(),
                 "v += d[k & 1][(t + 1) & 63];", "}")  # fmt: skip

    def leader(self) -> None:
        self.put(self.sync(), "if (t == 0) one = v;", self.sync(), "v += one;")

    def warp_reduction(self) -> None:
        self.put(self.sync(), "r[t] = v;", self.sync("__syncwarp();"), "for (int k = 16; k > 0; k /= 2) {",
                 "int other = r[t ^ k];", self.sync("__syncwarp();"), "r[t] += other;", self.sync("__syncwarp();"), "}",
                 "v = r[t & ~31];")  # fmt: skip

    def last_block(self) -> None:
        self.put(self.sync(), "if (t == 0) {", self.sync("__threadfence();"),
                 "one = atomicAdd(&counters[9], 1u) == gridDim.x - 1;", "}", self.sync(),
                 f"if (one) for (int k = 0; k < {BLOCKS}; ++k) v += data[k * 64 + (t * 7 & 63)];")  # fmt: skip

    def chain(self) -> None:
        self.put(self.sync(), "if (t == 0) {", "if (b) while (flags[b - 1] == 0) {}",
                 self.pick.choice(["", "__threadfence();"]), "}", self.sync(), "if (b) v += data[(b - 1) * 64 + t];",
                 self.sync(), "if (t == 0) {", self.sync("__threadfence();"), "flags[b] = 1;", "}")  # fmt: skip

    def locked(self) -> None:
        free = self.pick.choice(["atomicExch(lock, 0);", "*(volatile int *)lock = 0;", "*lock = 0;"])
        self.put("if (t == 0) {", "while (atomicCAS(lock, 0, 1) != 0) {}", "__threadfence();",
                 f"out[{WORDS}] += v;", self.sync("__threadfence();"), free, "}")  # fmt: skip

    def write(self, name: str) -> str:
        """Return the kernel."""
        self.put("int t = threadIdx.x, b = blockIdx.x, v = t * 3 + b;",
                 "__shared__ int s[64], d[2][64], r[64], one; __shared__ unsigned c[16];",
                 "s[t] = v; data[b * 64 + t] = v; if (t < 16) c[t] = 0;", self.sync())  # fmt: skip
        steps = [self.own, self.own, self.own_global, self.trade, self.trade, self.trade_in_warp, self.everybody_reads,
                 self.count, self.count_everywhere, self.guarded_atomic, self.shuffle, self.two_buffers, self.leader,
                 self.warp_reduction]  # fmt: skip
        for _ in range(self.pick.randint(2, 9)):
            self.pick.choice(steps)()
        self.pick.choice([self.last_block, self.chain, self.locked, lambda: None])()
        body = "\n".join(f"    {line}" for line in self.lines if line)
        return f'extern "C" __global__ void {name}({PARAMETERS})\n{{\n{body}\n    out[b * 64 + t] = v;\n}}\n'


def kernel(seed: int, name: str, without: int = 0) -> str:
    """Return a kernel that has no race, or one that lacks its n-th barrier or fence."""
    return Writer(seed, without).write(name)


def syncs(seed: int) -> int:
    """Return the number of barriers and fences that may be left out."""
    made = Writer(seed, 0)
    made.write("k")
    return made.syncs
