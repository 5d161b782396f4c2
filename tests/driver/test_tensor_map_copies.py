"""Copies of boxes that tensor maps describe: cp.async.bulk.tensor, to and from shared memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.subject import rawcuda

np = pytest.importorskip("numpy")
TensorMap = rawcuda.TensorMap

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
IN = """
.visible .entry read{rank}(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 count, {parameters})
{{
    .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %d<20>;
    .shared .align 1024 .b8 s[16384]; .shared .align 8 .b64 bar;
    {coordinates}
    mov.b64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [out]; cvta.to.global.u64 %d2, %d2;
    ld.param.u32 %r20, [count]; mov.u32 %r21, %tid.x; setp.ne.u32 %p1, %r21, 0; mov.u32 %r22, s;
    @%p1 bra ready;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r20;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {{{names}}}], [bar];
ready: bar.sync 0;
again: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra again;
    shl.b32 %r21, %r21, 2;
next: setp.ge.u32 %p3, %r21, %r20;
    @%p3 bra over;
    add.u32 %r23, %r22, %r21; ld.shared.b32 %r24, [%r23];
    cvt.u64.u32 %d3, %r21; add.s64 %d3, %d3, %d2; st.global.b32 [%d3], %r24;
    add.u32 %r21, %r21, 128;
    bra next;
over: ret;
}}
"""
OUT = """
.visible .entry {name}{rank}(.param .align 64 .b8 map[128], .param .u64 from, .param .u32 count, {parameters})
{{
    .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %d<20>;
    .shared .align 1024 .b8 s[16384];
    {coordinates}
    mov.b64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [from]; cvta.to.global.u64 %d2, %d2;
    ld.param.u32 %r20, [count]; mov.u32 %r21, %tid.x; setp.ne.u32 %p1, %r21, 0; mov.u32 %r22, s;
    shl.b32 %r21, %r21, 2;
next: setp.ge.u32 %p3, %r21, %r20;
    @%p3 bra full;
    cvt.u64.u32 %d3, %r21; add.s64 %d3, %d3, %d2; ld.global.b32 %r24, [%d3];
    add.u32 %r23, %r22, %r21; st.shared.b32 [%r23], %r24;
    add.u32 %r21, %r21, 128;
    bra next;
full: fence.proxy.async.shared::cta; bar.sync 0;
    @%p1 bra over;
    {copy} [%d1, {{{names}}}], [s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
over: ret;
}}
"""


def module(template: str, rank: int, **more: str) -> str:
    names = [f"%r{at + 1}" for at in range(rank)]
    return HEAD + template.format(
        rank=rank,
        parameters=", ".join(f".param .u32 c{at}" for at in range(rank)),
        coordinates=" ".join(f"ld.param.u32 {name}, [c{at}];" for at, name in enumerate(names)),
        names=", ".join(names),
        **more,
    )


@pytest.fixture(autouse=True)
def supported(device: Any) -> None:
    if not device.attribute("TENSOR_MAP_ACCESS_SUPPORTED"):
        pytest.skip("this device has no tensor maps")


def box_of(values: Any, start: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...], fill: float) -> Any:
    """Return a box of an array, with what is outside of it filled; all outermost first."""
    sides = [-(-side // step) for side, step in zip(box, steps)]
    made = np.full(sides, fill, values.dtype)
    for place in itertools.product(*map(range, sides)):
        at = tuple(first + number * step for first, number, step in zip(start, place, steps))
        if all(0 <= index < size for index, size in zip(at, values.shape)):
            made[place] = values[at]
    return made


def swizzled(data: bytes, mode: int) -> bytes:
    """Return a box as it lies in shared memory: 16-byte parts, exchanged within 32, 64 or 128 bytes."""
    made = bytearray(data)
    for at in range(0, len(data), 16):
        row, part = at // 128, at // 16 % 8
        to = row * 128 + 16 * (part ^ (row & (1 << mode) - 1))
        made[to : to + 16] = data[at : at + 16]
    return bytes(made)


def read(device: Any, made: Any, rank: int, nbytes: int, start: tuple[int, ...]) -> bytes:
    out = device.empty(nbytes, "uint8")
    with device.load(module(IN, rank)) as code:
        numbers = [at & 0xFFFFFFFF for at in reversed(start)]
        code[f"read{rank}"].launch(made, out, nbytes, *numbers, grid=1, block=32)
        return bytes(out.tolist())


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("where", ["inside", "before", "behind", "far"])
def test_boxes_of_every_rank(device: Any, rank: int, where: str) -> None:
    shape = (3, 4, 5, 6, 32)[5 - rank :]
    box = (2, 2, 3, 4, 16)[5 - rank :]
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    start = {
        "inside": (1, 1, 1, 1, 8), "before": (-1, -1, -2, -1, -4), "behind": (2, 3, 4, 5, 28),
        "far": (100, -100, 7, 9, 4),
    }[where][5 - rank :]  # fmt: skip
    view = device.upload(values)
    made = TensorMap.tiled(view, box=box)
    wanted = box_of(values, start, box, (1,) * rank, 0.0)
    found = np.frombuffer(read(device, made, rank, wanted.nbytes, start), np.float32).reshape(box)
    assert (found == wanted).all()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_swizzles(device: Any, mode: int) -> None:
    inner = {0: 64, 1: 8, 2: 16, 3: 32}[mode]
    values = np.arange(40 * 128, dtype=np.uint32).reshape(40, 128)
    view = device.upload(values)
    made = TensorMap.tiled(view, box=(16, inner), swizzle=(None, "32B", "64B", "128B")[mode])
    wanted = values[3:19, 4 : 4 + inner].tobytes()
    assert read(device, made, 2, len(wanted), (3, 4)) == swizzled(wanted, mode)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64", "float16", "float64"])
def test_elements_of_every_size(device: Any, dtype: str) -> None:
    values = np.arange(16 * 64).reshape(16, 64).astype(dtype)
    view = device.upload(values)
    wanted = box_of(values, (-1, 48), (4, 32), (1, 1), 0)
    assert read(device, TensorMap.tiled(view, box=(4, 32)), 2, wanted.nbytes, (-1, 48)) == wanted.tobytes()


@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("start", [(1, 4), (-2, 20), (7, 100)])
def test_a_box_goes_back(device: Any, mode: int, start: tuple[int, int]) -> None:
    values = np.zeros((10, 48), np.float32)
    view = device.upload(values)
    made = TensorMap.tiled(view, box=(4, 32), swizzle=(None, "32B", "64B", "128B")[mode])
    box = np.arange(128, dtype=np.float32).reshape(4, 32) + 1
    given = device.upload(np.frombuffer(swizzled(box.tobytes(), mode), np.uint32).copy())
    copy = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
    adds = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"
    wanted = np.zeros((10 + 20, 48 + 200), np.float32)
    wanted[start[0] + 10 : start[0] + 14, start[1] + 50 : start[1] + 82] = box
    wanted = wanted[10:20, 50:98]
    numbers = [at & 0xFFFFFFFF for at in reversed(start)]
    for name, text, times in (("write", copy, 1), ("add", adds, 2)):
        with device.load(module(OUT, 2, name=name, copy=text)) as code:
            code[f"{name}2"].launch(made, given, box.nbytes, *numbers, grid=1, block=32)
            assert (np.asarray(view.download()) == wanted * times).all()


def test_what_a_copy_has_read_may_be_written(device: Any) -> None:
    """The wait with .read is over when the box was read; it is written later."""
    view = device.zeros((8, 8), "float32")
    made, given = TensorMap.tiled(view, box=(8, 8)), device.full((64,), 3, "float32")
    text = module(OUT, 2, name="write", copy="cp.async.bulk.tensor.2d.global.shared::cta.bulk_group")
    text = text.replace("wait_group 0;", "wait_group.read 0; mov.b32 %r25, 77; st.shared.b32 [s], %r25;")
    with device.load(text) as code:
        code["write2"].launch(made, given, 256, 0, 0, grid=1, block=32)
        assert view.tolist() == [[3.0] * 8] * 8


REPLACED = """
.visible .entry change(.param .align 64 .b8 map[128], .param .u64 room, .param .u32 value)
{{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
    .shared .align 128 .b8 s[128];
    mov.b64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [room]; cvta.to.global.u64 %d2, %d2;
    ld.param.u32 %r3, [value];
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; cvt.u64.u32 %d3, %r2; add.s64 %d4, %d1, %d3;
    ld.b32 %r4, [%d4]; mov.u32 %r5, s; add.u32 %r5, %r5, %r2; st.shared.b32 [%r5], %r4;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0; mov.u32 %r6, s; cvt.u64.u32 %d5, %r6;
    @!%p1 tensormap.replace.tile.{field}.shared::cta.b1024.b32 [%d5], {ordinal}%r3;
    bar.sync 0;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d2], [%d5], 128;
    ret;
}}
"""


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize(
    "field,ordinal,value", [("box_dim", "1, ", 2), ("global_dim", "1, ", 3), ("box_dim", "0, ", 0)]
)
def test_a_kernel_changes_a_map(device: Any, field: str, ordinal: str, value: int) -> None:
    """The changed map describes a smaller box, or a smaller tensor; a box without elements is an error."""
    values = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) + 1
    view = device.upload(values)
    made = TensorMap.tiled(view, box=(4, 32))
    room = device.empty(32, "uint32")
    text = HEAD.replace("8.0", "8.3").replace("sm_90", "sm_90a") + REPLACED.format(field=field, ordinal=ordinal)
    with device.load(text) as code:
        code["change"].launch(made, room, value, grid=1, block=32)
    other = module(IN, 2).replace(".align 64 .b8 map[128]", ".u64 other").replace(
        "mov.b64 %d1, map; cvta.param.u64 %d1, %d1;", "ld.param.u64 %d1, [other];"
    )  # fmt: skip
    sides = (2, 32) if (field, value) == ("box_dim", 2) else (4, 32)
    wanted = box_of(values[: 3 if field == "global_dim" else 16], (1, 0), sides, (1, 1), 0.0)
    out = device.empty(wanted.nbytes, "uint8")
    with device.load(other) as code:
        if not value:
            with pytest.raises(rawcuda.CudaError, match="a bad tensor map|unspecified"):
                code["read2"].launch(room, out, wanted.nbytes, 0, 1, grid=1, block=32)
                device.synchronize()
        else:
            code["read2"].launch(room, out, wanted.nbytes, 0, 1, grid=1, block=32)
            assert bytes(out.tolist()) == wanted.tobytes()
    if not value:
        device.reset()


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.emulator_only("a GPU ends the context with a code only")
def test_what_a_kernel_does_wrong(device: Any) -> None:
    view = device.upload(np.zeros((16, 32), np.float32))
    made = TensorMap.tiled(view, box=(4, 32))
    for given, rank, words in ((made, 3, "3 coordinates for a tensor map of 2"), (bytes(128), 2, "not a tensor map")):
        with device.load(module(IN, rank)) as code:
            if isinstance(given, bytes):
                text = module(IN, rank).replace(".align 64 .b8 map[128]", ".u64 other").replace(
                    "mov.b64 %d1, map; cvta.param.u64 %d1, %d1;", "ld.param.u64 %d1, [other];"
                )  # fmt: skip
                code = device.load(text)
                given = device.upload(np.zeros(32, np.uint32))
            with pytest.raises(rawcuda.CudaError, match=words):
                code[f"read{rank}"].launch(given, view, 512, *[0] * rank, grid=1, block=32)
                device.synchronize()
            device.reset()
        view = device.upload(np.zeros((16, 32), np.float32))
        made = TensorMap.tiled(view, box=(4, 32))
