"""What the emulator lacks, and why: one table, which `doctor` prints.

What it is   rows of (what, why), in four parts: what no emulator shows; entry points that are not there (for them address() answers
             None); those that do less than the driver's; where the emulator is stricter, or nobody has asked a GPU yet.
Read next    the README, for what a green run on the emulator means
"""

from __future__ import annotations

__all__ = ["GAPS"]

GAPS: tuple[tuple[str, str], ...] = (
    # -- what no emulator shows
    (
        "real asynchrony",
        "work runs in threads that make calls (host functions in one of their own), and between calls nothing goes on; lazy and random "
        "modes show what may run late, not what runs at the same time. A program that waits for a kernel without any call, by reading "
        "pinned memory in a loop, waits for ever in lazy mode",
    ),
    (
        "weak memory ordering",
        "threads run one after another and each store is seen at once: a missing fence goes unseen",
    ),
    (
        "resource limits",
        "registers are estimated, and heap, stack and launch queue have no bound: a launch that a GPU refuses for want of them runs",
    ),
    ("speed", "some 10 million thread-instructions a second; the times of events and kernels say nothing of a GPU"),
    (
        "machine code",
        "only PTX runs: a cubin is refused with 209. A fatbin is searched for PTX, plain or compressed with LZ4; with zstd, as nvcc 13 "
        "does unless told --no-compress, it can be unpacked from Python 3.14 on",
    ),
    (
        "tensor-core, texture, surface, mbarrier and bulk-copy instructions",
        "refused when the module is loaded, with opcode and line",
    ),
    # -- entry points that are not there
    (
        "arrays, textures and surfaces (cuArray*, cuMipmappedArray*, cuTex*, cuSurf*)",
        "memory without addresses, which nothing here uses; the device attributes that describe it say 0",
    ),
    (
        "virtual memory management (cuMemCreate, cuMemMap, cuMemAddressReserve, ...)",
        "allocations here need no mapping; device attribute 102 says that it is not supported",
    ),
    (
        "waiting for and writing values in stream order (cuStreamWaitValue*, ...)",
        "not needed so far; device attributes 122 and 123 say so",
    ),
    ("batched copies and prefetches (cuMem*Batch*), cache preferences, attributes of peers", "not needed so far"),
    ("linking (cuLink*)", "a module must be complete in one PTX text"),
    (
        "graphs made node by node, looked into, changed, copied or nested (cuGraphAdd*, cuGraphNode*, cuGraphExec*, ...)",
        "graphs come from capturing streams",
    ),
    (
        "memory, pools and events shared with other processes (cuIpc*, cuMemPoolExport*, ...)",
        "emulated memory is this process's own objects",
    ),
    (
        "libraries (cuLibrary*, cuKernel*), attributes of streams and of graphs' memory",
        "modules do what libraries do, and nothing here sets such attributes",
    ),
    (
        "graphics and external semaphores (cuGraphics*, cuExternal*, cuEGL*, ...)",
        "there is no graphics driver to share with",
    ),
    (
        "checkpoints, green contexts, multicast, profiler, coredump, NvSciSync",
        "they control hardware, tools or other processes",
    ),
    ("entry points newer than CUDA 13.0", "that is the version which the emulator says it has"),
    (
        "old ABIs, deprecated calls, and the forms for the per-thread default stream (_ptsz, _ptds)",
        "cuGetProcAddress gives the newest ABI that the asked version had, or says that the version is not sufficient; handle 2 is the "
        "per-thread default stream",
    ),
    # -- entry points that do less than the driver's
    (
        "allocations and graphs inside a captured graph, input/output memory (cuMemHostRegister), contexts with CUctxCreateParams",
        "refused with 801",
    ),
    ("clusters", "their sizes are checked; their blocks then run like any others, without distributed shared memory"),
    ("limits, priorities, advice and prefetches", "kept and given back; they change nothing"),
    (
        "programmatic dependent launch, memory synchronisation domains",
        "taken, and of no effect: each kernel runs to its end",
    ),
    (
        "memory pools",
        "nothing is kept for reuse; stream-ordered memory can be used before its stream has come to the allocation, unnoticed",
    ),
    ("managed memory", "never moves; the host may touch it at any time"),
    (
        "the memory checker",
        "finds reads of device, local and shared memory where nobody wrote any byte and the value is used for more than being moved; "
        "allocations above 64 MiB are not followed, and a copy of unwritten memory by a kernel counts as written. "
        "Races are looked for in shared memory only, and fences, locks, watched flags and partial barriers count as barriers",
    ),
    # -- stricter than a GPU, or not confirmed by one
    (
        "leniency",
        "bounds are exact to the byte, freed addresses and handles are never used again, fresh memory holds a wild value, an upload "
        "from pageable memory may still be under way when the call returns: what is refused or goes wrong here may pass on a GPU",
    ),
    (
        "answers that no GPU has confirmed",
        "which of two bad arguments is refused first; cuMemFree(0) is 1; zero bytes may be copied between any pointers; a call that "
        "names a stream or event needs a current context all the same; a context that was reset after a sticky error can be used again",
    ),
)
