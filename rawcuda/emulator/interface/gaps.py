"""What the emulator does not support, and why: one table, which the command `doctor` prints.

What it is   rows of (what, why), in four parts: what no emulator can reproduce; entry points that do not exist
             (address() returns None for them); entry points that do less than the driver's; where the emulator is
             stricter than a GPU, or where its behaviour has not been compared with one.
Read next    the README, which explains what passing tests on the emulator mean
"""

from __future__ import annotations

__all__ = ["GAPS"]

GAPS: tuple[tuple[str, str], ...] = (
    # -- what no emulator can reproduce
    (
        "real asynchrony",
        "work runs in the threads that make calls (host functions in a separate thread), and nothing runs between "
        "calls; the lazy and random modes show what may run late, not what may run at the same time. In lazy mode, a "
        "program that waits for a kernel by reading pinned memory in a loop, without a call, never ends",
    ),
    (
        "weak memory ordering",
        "threads run one after another, or in step, and each store is visible at once; in the random mode, a store may "
        "become visible to other blocks only at the next fence. With the word racecheck, a missing fence before a flag "
        "or an atomic is reported; a missing fence after a flag is not",
    ),
    (
        "the order of threads",
        "a large launch runs whole blocks in step with NumPy, a small one runs thread after thread. A result that "
        "depends on the order of threads (the old value of an atomic, a sum of floats by atomics, a race in global "
        "memory) may then be different; CUDA permits both. With RAWCUDA_EMULATOR=executor=scalar, the order is fixed",
    ),
    (
        "resource limits",
        "registers are estimated, and each thread has a stack of 512 KiB: a launch that exceeds the limits of a GPU "
        "runs",
    ),
    (
        "speed",
        "5 to 30 million thread instructions per second, and 250 to 1,500 million in large launches if NumPy is "
        "installed; times of events and kernels do not predict those of a GPU",
    ),
    (
        "machine code",
        "only PTX runs: a cubin is refused with 209. A fatbin is searched for PTX, which may be compressed",
    ),
    (
        "wgmma, tcgen05, sparse and block-scaled products, multimem, tensor copies of the forms im2col and gather",
        "refused when the module is loaded, with opcode and line; mma, wmma, mbarrier and other copies run",
    ),
    # -- entry points that do not exist
    (
        "texture and surface references (cuTexRef*, cuSurfRef*)",
        "CUDA 12 removed references from kernels; use texture and surface objects",
    ),
    (
        "multicast objects, sparse arrays (cuMulticast*, cuMemMapArrayAsync), fabric handles",
        "device attributes 132, 112 and 128 say what is not supported",
    ),
    (
        "linking of machine code and LTO-IR (cuLinkAddData of a cubin or NVVM)",
        "only PTX is linked, also from fatbins, host objects and archives, of which every member is linked; nvJitLink, "
        "where it is installed, turns LTO-IR into PTX",
    ),
    (
        "nodes of graphs for external semaphores and for batches of memory operations "
        "(cuGraph*ExternalSemaphores*, cuGraph*BatchMemOp*)",
        "there are no external semaphores to signal; a kernel or a copy can write a value",
    ),
    (
        "unified functions of libraries (cuLibraryGetUnifiedFunction)",
        "they are code of the host, which a module of PTX does not contain",
    ),
    (
        "graphics and external semaphores (cuGraphics*, cuExternal*, cuEGL*, ...)",
        "there is no graphics driver to share with",
    ),
    (
        "checkpoints, coredumps, NvSciSync (cuCheckpoint*, cuCoredump*, cuDeviceGetNvSciSyncAttributes)",
        "they control hardware, tools or other processes",
    ),
    ("entry points newer than CUDA 13.0", "CUDA 13.0 is the version that the emulator reports"),
    (
        "old ABIs with addresses of 32 bits, such as cuMemAlloc without a suffix",
        "newer calls replace them; cuGetProcAddress does not find them, and never returns another ABI in their place",
    ),
    (
        "tables of functions that are not documented (cuGetExportTable)",
        "refused with 801. NVIDIA's own CUDA runtime needs them: link programs with nvcc -cudart=shared, for which the "
        "command `emulate` has a runtime. It lacks graphics, external memory and texture references",
    ),
    # -- entry points that do less than the driver's
    ("arrays in batches of copies (cuMemcpy3DBatchAsync)", "refused with 801"),
    (
        "launches of graphs by kernels, memory of a graph on the host, input/output memory (cuMemHostRegister), "
        "contexts with affinity or graphics parameters (CUctxCreateParams)",
        "refused with 801",
    ),
    (
        "graphs",
        "the nodes of a launch run one after another in one stream: in the order in which they were added (eager), the "
        "latest first (lazy), or in any order that the edges permit (random). The data of edges is stored, without an "
        "effect",
    ),
    (
        "PTX newer than the driver",
        "unless `cuda=` chooses a version, PTX of CUDA 13.5 is read, too; a driver answers 222",
    ),
    (
        "attributes of streams, cache preferences of a context, the profiler's switch",
        "checked, stored and returned, but without an effect",
    ),
    (
        "green contexts",
        "a part has an even number of the four multiprocessors, and kernels of different parts run one after another; "
        "cuCtxFromGreenCtx returns the primary context, and cuStreamGetCtx refuses their streams (801)",
    ),
    (
        "several devices",
        "RAWCUDA_EMULATOR=devices=4,peers=pairs creates them; peers=on, off or pairs selects which of them can access "
        "the memory of each other, and CUDA_VISIBLE_DEVICES is respected. All connections are equally good, and "
        "atomics work on them",
    ),
    (
        "waiting for values in stream order",
        "the memory is read every 5 ms while a call waits; a flush of remote writes is refused with 801",
    ),
    (
        "arrays of compressed, planar and normalized formats, depth and sparse arrays, seamless cubemaps",
        "refused with 801",
    ),
    (
        "texture variables (.texref, .samplerref, .surfref), separate samplers, anisotropy",
        "the first two are refused when the module is loaded; anisotropy has no effect",
    ),
    (
        "tensor maps",
        "copies with an interleaved map, one of the form im2col or a swizzle of compute capability 10.0 stop the "
        "kernel",
    ),
    (
        "products of tensor cores",
        "sums of floats other than f64 are made in double precision and rounded once: their last bits differ from "
        "those of a GPU",
    ),
    (
        "asynchronous copies",
        "a copy is made when its thread waits, or when a thread tests its barrier; a missing proxy fence is found only "
        "before bulk copies out of shared memory, and only if no thread of the block has executed one",
    ),
    (
        "clusters",
        "their blocks run one after another between barriers; a preferred cluster size is not used; "
        ".blocksareclusters is refused; races between blocks are only found with the word racecheck",
    ),
    (
        "limits, priorities",
        "stored and returned, but without an effect, except for the heap of malloc and the buffer of printf. The size "
        "of this buffer counts characters of the text, where a GPU counts arguments, and stderr says if output was "
        "lost",
    ),
    (
        "programmatic dependent launch, memory synchronization domains, cache policies of a launch",
        "checked, but without an effect: each kernel begins after the end of the one before, and the events of a "
        "launch are reached at its end",
    ),
    (
        "memory pools",
        "the memory that a pool keeps is only counted, because addresses are never reused; the use of stream-ordered "
        "memory before its stream reaches the allocation is not detected",
    ),
    (
        "sharing between processes",
        "on Linux only, by files in memory; a process opens a handle through /proc, so the owner's process must be "
        "visible there and belong to the same user. If the process that recorded an event has ended, a wait for it "
        "makes the context unusable",
    ),
    ("managed memory", "never moves; the host may access it at any time; advice and prefetches are only recorded"),
    (
        "the memory checker",
        "finds reads of device, local and shared memory of which no byte was written, if the value is used and not "
        "only moved; allocations above 64 MiB are not tracked, and memory that a kernel copied from uninitialized "
        "memory counts as written. Without the word racecheck, only races in shared memory are found, and fences, "
        "locks, polled flags and partial barriers count as barriers. With it, only a few readers of each granule of "
        "memory are remembered, and barriers in shared memory count as barriers of the block. After any wait, a thread "
        "may read data that has arrived on a barrier in shared memory, even if it did not wait for this barrier",
    ),
    # -- stricter than a GPU, or not compared with one
    (
        "textures and surfaces",
        "a fetch of another geometry or an object of another kind stops the kernel; weighted sums are rounded once; "
        "missing components are 0, and the last one 1; a border color of integers is truncated",
    ),
    (
        "stricter checks",
        "bounds are exact to the byte, device addresses and handles are never reused, new memory of up to 64 MiB holds "
        "an unlikely value, and an upload from pageable memory may still be pending when the call returns: a program "
        "that fails here may work on a GPU",
    ),
    (
        "a wait for a value that nobody can write",
        "if no other work can run and the process has only one Python thread, the context becomes unusable with 702 "
        "after 3 seconds; a GPU waits forever",
    ),
    (
        "results that were not compared with a GPU",
        "which of two bad arguments is refused first; cuMemFree(0) returns 1; an allocation of zero bytes in stream "
        "order returns a null pointer; a signalling NaN, or an integer with its bits, that is loaded into a register "
        "to which the kernel also writes the result of float arithmetic, that an atomic addition of floats returns, or "
        "that is a parameter of type f32 of a function, becomes a quiet one, if few threads are launched; which of two "
        "NaNs an operation on float64 returns; zero bytes may be copied between any pointers; "
        "a call that names a stream or an event still needs a current context; a context that was reset after a "
        "sticky error can be used again; prefetches and discards of managed memory can be captured, and are then nodes "
        "of the type of batches of memory operations; an update may give a node of an executable graph memory of a "
        "pool in the place of other memory of the same device",
    ),
)
