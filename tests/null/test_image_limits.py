"""What readers of foreign bytes cost: no more than in proportion to what they read, whatever is in it."""

import random
import struct
import sys
import tracemalloc

import pytest

from tests.attack.parsers import READERS, growth, mutated, quietly
from tests.shared import sampled
from tests.subject import module

containers = module("images.containers")


def cubin(names, symbols, copies=1):
    """Make a cubin with these names and symbols, whose table of symbols several sections share."""
    shared = b"\0.strtab\0.symtab\0"
    strings, listed, end = 64, 64 + len(names), 64 + len(names) + len(symbols)
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, end + 32, 0, 64, 0, 0, 64, 2 + copies, 0)
    )
    rows = [(1, 3, end, len(shared), 0), *[(9, 2, listed, len(symbols), 1 + copies)] * copies]
    rows.append((1, 3, strings, len(names), 0))
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, size, link, 0, 1, 24) for name, kind, at, size, link in rows
    )
    return head + names + symbols + shared.ljust(32, b"\0") + table


def test_symbols_that_share_a_long_name_are_refused():
    symbol = struct.pack("<IBBHQQ", 1, 18, 16, 1, 0, 16)
    assert [each.name for each in containers.symbols(cubin(b"\0name\0", 3 * symbol))] == ["name"] * 3
    cut = cubin(b"\0name\0", 3 * symbol).replace(struct.pack("<QQ", 70, 72), struct.pack("<QQ", 70, 47))
    assert [each.name for each in containers.symbols(cut)] == ["name"]  # the section ends in the second symbol
    for count in (4096, 65536):
        data, peak = cubin(b"\0" + b"a" * 24 * count, symbol * count), 0
        tracemalloc.start()
        with pytest.raises(ValueError, match="names are longer than the file"):
            containers.symbols(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40 * len(data)


def test_sections_that_overlap_are_refused():
    symbol = struct.pack("<IBBHQQ", 1, 18, 16, 1, 0, 16)
    with pytest.raises(ValueError, match="sections overlap"):
        containers.symbols(cubin(b"\0name\0", symbol * 1000, copies=50))


def test_names_of_an_archive_that_overlap_are_refused():
    def member(name, content):
        return name.ljust(48) + str(len(content)).encode().ljust(10) + b"`\n" + content

    names = member(b"//", b"a" * 6000)
    assert len(containers.archive(containers.ARCHIVE + names + member(b"/0", b""))) == 1
    with pytest.raises(ValueError, match="names are longer"):
        containers.archive(containers.ARCHIVE + names + member(b"/0", b"") * 100)


def bomb(blocks, plain):
    """Make a fatbin whose PTX has blocks that repeat a byte 2,097,151 times each; its header says plain bytes."""
    frame = struct.pack("<I", 0xFD2FB528) + bytes(2)
    for number in range(blocks):
        frame += ((1 << 21) - 1 << 3 | 2 | (number == blocks - 1)).to_bytes(3, "little") + b"\n"
    member = struct.pack("<H2xIQI8xI8xQ8xQ", 1, 64, len(frame), len(frame), 90, 0x8000, plain)
    return containers.FATBIN + struct.pack("<HHQ", 1, 16, len(member) + len(frame)) + member + frame


@pytest.mark.parametrize("reader", ["images", "emulator"])
def test_a_member_unpacks_to_no_more_than_its_header_says(reader):
    emulated = module("emulator.entries.code.image_entries")
    read = containers.fatbin if reader == "images" else lambda data: emulated.choose(data, 90)
    for data in (bomb(500, 100), bomb(1, 1 << 31)):
        tracemalloc.start()
        with pytest.raises((ValueError, emulated.Refused)):
            read(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("packing", ["literals", "a copy", "Zstandard"])
def test_a_member_unpacks_to_exactly_what_its_header_says(packing, change):
    from tests.attack import parsers

    packed, flags, size = {
        "literals": (parsers.literals(b"a" * 600), 0x2000, 600),
        "a copy": (b"\x1fa\1\0\x0a", 0x2000, 30),  # a byte, and 29 copies of it
        "Zstandard": (parsers.blocks(3), 0x8000, 300),
    }[packing]
    made = parsers.fatbin(parsers.member(1, packed, flags, size))
    assert [each.code for each in containers.fatbin(made)] == [b"a" * size]
    with pytest.raises(ValueError, match=f"says {size + change} bytes, but|more than {size + change} bytes"):
        containers.fatbin(parsers.fatbin(parsers.member(1, packed, flags, size + change)))


@pytest.mark.parametrize("distance", [1, 2, 3, 7, 19, 20, 21])
def test_an_lz4_copy_may_overlap_its_own_output(distance):
    before = bytes(range(97, 97 + 22))
    expected = bytearray(before)
    for _ in range(20):
        expected.append(expected[-distance])
    packed = b"\xff\x07" + before + bytes([distance, 0, 1])  # 15 + 7 literals; a copy of 15 + 1 + 4 bytes
    assert containers._unpack_lz4(packed, 42) == containers._unpack_lz4(packed, 43) == expected
    for size in range(22, 42):
        assert containers._unpack_lz4(packed, size)[:size] == expected[:size]


def test_an_lz4_copy_is_not_made_byte_by_byte():
    lines = 0

    def trace(*_):
        nonlocal lines
        lines += 1
        return trace

    packed, before = b"\x1fa\1\0" + b"\xff" * 100 + b"\0", sys.gettrace()
    sys.settrace(trace)
    try:
        made = containers._unpack_lz4(packed, 25_520)
    finally:
        sys.settrace(before)
    assert made == b"a" * 25_520 and lines < 10 * len(packed)


def test_a_member_without_a_header_ends_the_search():
    emulated = module("emulator.entries.code.image_entries")
    with pytest.raises(emulated.Refused):
        emulated.choose(containers.FATBIN + struct.pack("<HHQ", 1, 16, 64) + bytes(64), 90)


@pytest.mark.parametrize("name", sampled(name for name in READERS if name != "ptx"))  # test_ptx_linear counts its steps
def test_time_and_memory_grow_no_faster_than_the_input(name):
    assert list(growth(name, (8, 32)))


@pytest.mark.parametrize("name", [name for name in READERS if name != "ptx"])
def test_mutants_are_read_or_refused(name):
    chance, seeds = random.Random(1), READERS[name].seeds()
    assert any(quietly(READERS[name], seed) for seed in seeds)
    for _ in range(100):
        quietly(READERS[name], mutated(chance, seeds))


def test_a_host_object_has_one_limit_for_all_its_fatbins():
    """Its sections may say in total what one of them may say."""
    from tests.attack import parsers

    body = parsers.member(1, parsers.literals(b"a" * 600), 0x2000, 600)
    two = [(".nv_fatbin", 1, containers.FATBIN + struct.pack("<HHQ", 1, 16, len(body)) + body, 0)] * 2
    data = parsers.elf(two, machine=62)
    assert len(containers.device_code(data, 1200)) == 2
    with pytest.raises(ValueError, match="more than 599 bytes"):
        containers.device_code(data, 1199)


@pytest.mark.parametrize("reader", ["images", "emulator"])
def test_ptx_unpacks_to_100_bytes_for_each_packed_one(reader):
    """The emulator takes up to 700 bytes for a character, and Zstandard packs 100,000 equal ones into 4 bytes."""
    from tests.attack import parsers

    emulated = module("emulator.entries.code.image_entries")
    read = containers.fatbin if reader == "images" else lambda data: emulated.choose(data, 90)
    packed = parsers.blocks(8, 1, 200, b"a")  # 38 bytes, and 2 of padding
    assert read(parsers.fatbin(parsers.member(1, packed, 0x8000, 1600)))
    packed = parsers.blocks(8, 1, 501, b"a")
    with pytest.raises((ValueError, emulated.Refused), match="more than 100 for each.*--compress-mode=none"):
        read(parsers.fatbin(parsers.member(1, packed, 0x8000, 4008)))


def test_the_members_of_a_small_file_are_small():
    """The readers of a cubin take up to 20 bytes for each of its bytes, and zeros of any number pack to a few."""
    from tests.attack import parsers

    def zeros(count):
        packed = bytearray(parsers.blocks(count, 1, 1 << 17, b"\0"))
        packed[5] = 7 << 3  # a window of 128 kB, as large as a block
        return parsers.fatbin(parsers.member(2, bytes(packed), 0x8000, count << 17))

    assert [each.size for each in containers.fatbin(zeros(100))] == [100 << 17]
    for read in (containers.fatbin, lambda data: list(module("compiler.linking")._members("fatbin", data))):
        with pytest.raises(ValueError, match="they have more than 16[0-9]{6} bytes"):
            read(zeros(130))
    for read in (containers.device_code, lambda data: list(module("compiler.linking")._members("object", data))):
        with pytest.raises(ValueError, match="they have more than 16[0-9]{6} bytes"):
            read(parsers.elf([(".nv_fatbin", 1, zeros(130), 0)], machine=62))


def test_zeros_after_ptx_count():
    """They are not part of the text, but they were unpacked."""
    from tests.attack import parsers

    members = parsers.member(1, parsers.literals(b"a" + bytes(599)), 0x2000, 600) * 2
    both = parsers.fatbin(members)
    assert [each.code for each in containers.fatbin(both, most=1200)] == [b"a", b"a"]
    with pytest.raises(ValueError, match="more than 599 bytes"):
        containers.fatbin(both, most=1199)
    one = parsers.fatbin(parsers.member(1, parsers.literals(b"a" + bytes(599)), 0x2000, 600))
    with pytest.raises(ValueError, match="more than 599 bytes"):
        containers.fatbin(one * 2, most=1199)
    data = parsers.elf([(".nv_fatbin", 1, one, 0)] * 2, machine=62)
    with pytest.raises(ValueError, match="more than 599 bytes"):
        containers.device_code(data, 1199)


def test_an_archive_has_one_limit_for_all_its_objects(monkeypatch):
    from tests.attack import parsers

    linking = module("compiler.linking")
    data = parsers.archive(parsers.host_object(), parsers.host_object())
    least = sum(len(each.code) for each in containers.device_code(parsers.host_object()))
    monkeypatch.setattr(containers, "most_unpacked", lambda _: 2 * least)
    assert [each.kind for each in linking._members("library", data)] == ["ptx", "cubin"] * 2
    monkeypatch.setattr(containers, "most_unpacked", lambda _: 2 * least - 5000)
    with pytest.raises(ValueError, match="more than"):
        list(linking._members("library", data))


def test_a_link_unpacks_each_member_once(monkeypatch):
    from tests.attack import parsers

    linking, unpack, calls = module("compiler.linking"), containers._unpack_lz4, []
    monkeypatch.setattr(containers, "_unpack_lz4", lambda *given: calls.append(given) or unpack(*given))
    text = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n\0"
    one = parsers.fatbin(parsers.member(1, parsers.literals(text), 0x2000, len(text)))
    read = linking.read_inputs([one])
    linking.check_symbols(read)
    assert (read[0].contains, read[0].defines, len(calls)) == ({"ptx"}, {"k"}, 1)


def test_the_error_of_a_damaged_member_names_the_image():
    from tests.attack import parsers

    damaged = parsers.archive(b"\x7fELF\2\1\1".ljust(18, b"\0") + struct.pack("<H", 190))
    with pytest.raises(ValueError, match="^given: a truncated cubin"):
        module("compiler.linking").read_inputs({"given": damaged})


def test_frames_beyond_a_number_are_refused():
    from tests.attack import parsers

    zstd = module("images.zstd")
    for read in (zstd._decompress, zstd.decompress):
        assert len(read(parsers.blocks(1) * 1000)) == 100_000
        with pytest.raises(ValueError, match="1000 frames"):
            read(parsers.blocks(1) * 1001)


def copies(count, before):
    """Make a frame with some bytes that are not compressed, and a block whose copies, of 3 bytes each, have no bits."""
    frame = struct.pack("<I", 0xFD2FB528) + bytes(2) + (len(before) << 3).to_bytes(3, "little") + before
    block = b"\x08A\xff" + (count - 0x7F00).to_bytes(2, "little") + b"\x54\0\0\0\1"  # a literal; tables of one code
    return frame + (len(block) << 3 | 5).to_bytes(3, "little") + block


def test_copies_beyond_a_number_for_each_byte_are_refused():
    zstd = module("images.zstd")
    enough = b"a" * (40_000 // 16)
    assert zstd._decompress(copies(40_000, enough)) == b"a" * len(enough) + b"a" * 120_000 + b"A"
    with pytest.raises(ValueError, match="16 copies for each byte.*--compress-mode=none"):
        zstd._decompress(copies(40_000, b"a" * 100))


def test_a_manifest_that_is_a_pipe_is_not_opened(tmp_path):
    import os

    vendor = module("tools.commands.vendor")
    os.mkfifo(tmp_path / "VENDORED.txt")
    assert vendor._read(str(tmp_path)) is None
