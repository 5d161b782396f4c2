"""The emulator counts blocks as NVIDIA's cuda_occupancy.h does, for every compute capability."""

from types import SimpleNamespace

import pytest

from tests.subject import module

answers, capabilities = module("emulator.machine.answers"), module("emulator.entries.hardware.capabilities")

# What cuda_occupancy.h of CUDA 13.0 says: architecture, registers, static and most dynamic shared memory, carveout,
# cache preference, threads in a block, dynamic shared memory; blocks on a multiprocessor.
SAYS = [
    (50, 24, 47533, 1619, -1, 0, 33, 1, 1),
    (50, 96, 0, 22315, -1, 3, 512, 0, 1),
    (50, 64, 1024, 48128, 78, 0, 33, 0, 16),
    (50, 32, 49152, 0, -1, 0, 64, 0, 1),
    (50, 32, 17243, 27566, -1, 2, 100, 41515, 0),
    (52, 40, 0, 49152, 0, 1, 33, 1024, 24),
    (52, 96, 1024, 48128, -1, 2, 128, 0, 5),
    (52, 24, 22393, 5141, 0, 0, 31, 1024, 4),
    (52, 255, 0, 49152, 100, 0, 128, 49152, 2),
    (52, 96, 49152, 0, 100, 0, 33, 1, 0),
    (53, 128, 16, 49136, 100, 2, 100, 1, 4),
    (53, 40, 0, 49152, 100, 0, 32, 0, 32),
    (53, 24, 0, 49152, 14, 3, 512, 19306, 3),
    (53, 64, 16, 49136, 37, 0, 33, 0, 16),
    (53, 64, 1024, 48128, 11, 3, 32, 49152, 0),
    (60, 135, 1024, 48128, -1, 0, 100, 0, 3),
    (60, 64, 0, 49152, 50, 0, 100, 0, 8),
    (60, 64, 23702, 25450, 93, 1, 128, 0, 2),
    (60, 40, 1024, 48128, -1, 3, 206, 16384, 3),
    (60, 111, 28723, 20429, 0, 2, 958, 0, 0),
    (61, 24, 49152, 0, 100, 0, 32, 0, 2),
    (61, 168, 16, 49136, 0, 3, 31, 49136, 2),
    (61, 40, 0, 49152, -1, 3, 1, 49152, 2),
    (61, 77, 22794, 26358, 50, 3, 100, 26358, 2),
    (61, 40, 1024, 48128, -1, 2, 100, 49152, 0),
    (62, 16, 0, 11014, -1, 3, 128, 0, 16),
    (62, 40, 16, 49136, -1, 3, 1, 16384, 3),
    (62, 40, 1024, 41226, -1, 0, 33, 16384, 3),
    (62, 32, 0, 49152, 72, 0, 31, 27145, 2),
    (62, 175, 1024, 48128, -1, 2, 32, 49152, 0),
    (70, 168, 1024, 97280, 100, 0, 32, 24488, 3),
    (70, 32, 16, 17090, 0, 0, 31, 0, 32),
    (70, 168, 16, 49136, 44, 1, 128, 49136, 1),
    (70, 72, 1024, 48128, -1, 3, 31, 48128, 1),
    (70, 96, 22075, 27077, -1, 2, 100, 79109, 0),
    (75, 64, 0, 49152, -1, 2, 100, 0, 8),
    (75, 96, 1024, 48128, 50, 0, 31, 1, 16),
    (75, 58, 16, 65520, -1, 0, 811, 1, 1),
    (75, 64, 1024, 48128, -1, 0, 128, 19429, 3),
    (75, 72, 49152, 16384, -1, 3, 100, 49152, 0),
    (80, 32, 1024, 48128, -1, 1, 1024, 0, 2),
    (80, 40, 16, 49136, 27, 0, 88, 9241, 6),
    (80, 72, 0, 49152, -1, 3, 304, 1, 2),
    (80, 40, 1024, 48128, 9, 0, 512, 0, 3),
    (80, 168, 49152, 117760, -1, 0, 512, 1, 0),
    (86, 128, 0, 49152, 100, 0, 100, 0, 4),
    (86, 32, 0, 101376, 53, 0, 64, 101376, 1),
    (86, 32, 30671, 70705, 0, 2, 64, 49152, 1),
    (86, 16, 0, 49152, -1, 2, 128, 16384, 1),
    (86, 255, 16, 49136, 50, 0, 256, 88675, 0),
    (87, 128, 0, 49152, 100, 0, 100, 0, 4),
    (87, 128, 16, 166896, 84, 3, 1, 166896, 1),
    (87, 16, 0, 49152, -1, 0, 32, 1024, 16),
    (87, 89, 0, 138957, -1, 1, 128, 1024, 5),
    (87, 144, 16, 49136, -1, 0, 512, 49152, 0),
    (89, 128, 0, 99890, 50, 0, 512, 1024, 1),
    (89, 40, 0, 49152, -1, 0, 31, 49152, 2),
    (89, 72, 38102, 63274, 0, 0, 32, 0, 1),
    (89, 137, 0, 95893, 0, 1, 64, 95893, 1),
    (89, 40, 16, 10829, 0, 0, 64, 16384, 0),
    (90, 64, 0, 49152, 0, 2, 256, 16384, 1),
    (90, 168, 0, 232448, 0, 3, 64, 49152, 1),
    (90, 72, 0, 79303, 50, 1, 128, 49152, 2),
    (90, 168, 49152, 183296, 100, 1, 128, 16384, 3),
    (90, 40, 16, 49136, 50, 3, 1, 199307, 0),
    (100, 64, 3791, 93459, 0, 0, 1, 0, 1),
    (100, 255, 49152, 0, 100, 3, 128, 0, 2),
    (100, 16, 1024, 5611, -1, 3, 32, 0, 32),
    (100, 40, 1024, 48128, 50, 0, 64, 0, 24),
    (100, 128, 16, 232432, -1, 0, 846, 0, 0),
    (103, 16, 0, 49152, -1, 0, 1, 1, 32),
    (103, 24, 25673, 23479, 0, 0, 33, 23479, 1),
    (103, 203, 0, 181251, -1, 2, 256, 1, 1),
    (103, 168, 49152, 165360, 0, 2, 33, 49152, 1),
    (103, 24, 0, 49152, 57, 2, 64, 126307, 0),
    (110, 168, 0, 132939, 0, 3, 64, 1, 6),
    (110, 255, 13999, 218449, 100, 1, 64, 1024, 4),
    (110, 168, 1024, 231424, 64, 1, 64, 151465, 1),
    (110, 128, 0, 49152, 100, 0, 256, 1, 2),
    (110, 96, 49152, 0, 50, 2, 32, 1024, 0),
    (120, 32, 1024, 74002, 30, 0, 33, 0, 16),
    (120, 40, 47431, 53945, 0, 2, 256, 0, 1),
    (120, 40, 1024, 48128, 100, 0, 100, 1024, 12),
    (120, 128, 1024, 100352, 100, 3, 32, 1024, 16),
    (120, 96, 0, 101376, -1, 3, 838, 45023, 0),
]


def function(architecture, registers, static, most, carveout, cache):
    return SimpleNamespace(
        module=SimpleNamespace(machine=SimpleNamespace(architecture=architecture)),
        max_threads=1024,
        settings={8: most, 9: carveout},
        cache=cache,
        entry=SimpleNamespace(static_shared=static, registers=registers),
    )


@pytest.mark.parametrize("row", SAYS, ids=str)
def test_the_number_of_blocks(row):
    *facts, threads, dynamic, blocks = row
    assert capabilities.blocks_per_multiprocessor(function(*facts), threads, dynamic) == blocks


def test_it_is_bound_by_registers():
    """64 registers per thread are 2048 per warp; 16384 per quarter allow 8 warps, 32 in all: 4 blocks of 256."""
    count = capabilities.blocks_per_multiprocessor
    assert count(function(90, 64, 0, 48 << 10, -1, 0), 256, 0) == 4
    assert count(function(90, 255, 0, 48 << 10, -1, 0), 256, 0) == 1
    assert count(function(90, 255, 0, 48 << 10, -1, 0), 288, 0) == 0


@pytest.mark.parametrize("architecture", sorted(answers._CAPABILITIES))
def test_so_many_blocks_fit_with_what_is_available(architecture):
    limits = answers.capability_of(architecture)
    for static in (0, 100, 4096):
        one = function(architecture, 32, static, limits.optin - static, -1, 0)
        for blocks in range(1, capabilities.blocks_per_multiprocessor(one, 64, 0) + 1):
            size = capabilities.available_shared(one, blocks)
            assert capabilities.blocks_per_multiprocessor(one, 64, size) >= blocks, (static, blocks, size)


def test_an_unknown_architecture_is_as_the_one_before():
    assert answers.capability_of(130) is not None
    assert answers.capability_of(88).attributes() == answers.capability_of(87).attributes()
    assert answers.capability_of(30).attributes() == answers.capability_of(50).attributes()


def test_the_device_attributes_are_those_of_the_architecture():
    import ctypes

    for sm, expected in ((90, (2048, 233472, 232448, 32, 1024, 1)), (86, (1536, 102400, 101376, 16, 1024, 0))):
        emulator = module("emulator").Emulator(sm=sm)
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(
            emulator.address("cuDeviceGetAttribute")
        )
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(emulator.address("cuInit"))(0)
        found = ctypes.c_int()
        told = []
        for number in (39, 81, 97, 106, 111, 120):
            assert call(ctypes.addressof(found), number, 0) == 0
            told.append(found.value)
        assert tuple(told) == expected
