"""Code images are checked to be complete before the driver reads them, because the driver gets no length."""

import struct

import pytest

from tests.subject import module

image = module("gpu.kernels.image")


def elf(sections):
    """Make a small ELF file with named sections."""
    names, body, headers = b"\0", b"", [b"\0" * 64]
    for name, data in [*sections, (".shstrtab", None)]:
        at = len(names)
        names += name.encode() + b"\0"
        data = names if data is None else data
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0))
        body += data
    head = (
        b"\x7fELF\2\1\1"
        + b"\0" * 9
        + struct.pack(
            "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(headers), len(headers) - 1
        )
    )
    return head + body + b"".join(headers)


CUBIN = elf([(".text.add", b"code"), (".nv.info", b"x" * 9), (".text._Z3mulPf", b"more")])


def test_kernels_of_a_cubin():
    assert image.cubin_kernels(CUBIN) == ["add", "_Z3mulPf"]
    assert image.prepare(CUBIN) == ("cubin", CUBIN + b"\0")


@pytest.mark.parametrize("length", [4, 20, 63, 64, 70, len(CUBIN) - 1])
def test_a_truncated_cubin_is_refused(length):
    with pytest.raises(ValueError, match="truncated cubin"):
        image.prepare(CUBIN[:length])


def test_a_host_program_is_refused():
    with pytest.raises(ValueError, match="machine 62 is not a cubin"):
        image.prepare(CUBIN[:18] + struct.pack("<H", 62) + CUBIN[20:])


def test_a_cubin_without_all_of_its_segments_is_refused():
    there = struct.pack("<Q", len(CUBIN) - 56) + CUBIN[40:54] + struct.pack("<HH", 56, 1)
    assert image.prepare(CUBIN[:32] + there + CUBIN[58:])[0] == "cubin"
    with pytest.raises(ValueError, match="truncated cubin: its segment table"):
        image.prepare(CUBIN[:32] + there[:-2] + struct.pack("<H", 2) + CUBIN[58:])


def test_no_damage_makes_it_read_outside():
    from random import Random

    chance = Random(1)
    for _ in range(2000):
        damaged = bytearray(CUBIN)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            image.prepare(bytes(damaged))
            image.cubin_kernels(bytes(damaged))
        except ValueError:
            pass


def test_a_damaged_cubin_is_refused():
    with pytest.raises(ValueError, match="64-bit"):
        image.prepare(b"\x7fELF\1" + CUBIN[5:])
    with pytest.raises(ValueError, match="damaged"):
        image.prepare(CUBIN[:62] + b"\xff\0" + CUBIN[64:])


def test_fatbins():
    whole = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + b"12345678"
    assert image.prepare(whole)[0] == "fatbin"
    for length in (4, 15, 16, 23):
        with pytest.raises(ValueError, match="truncated fatbin"):
            image.prepare(whole[:length])
    with pytest.raises(ValueError, match="wrapper"):
        image.prepare(struct.pack("<IIQQ", 0x466243B1, 1, 0, 0))


@pytest.mark.parametrize("code", [".version 7.0\n", b".version 7.0\n", bytearray(b".version 7.0\n\0\0")])
def test_ptx(code):
    assert image.prepare(code) == ("ptx", b".version 7.0\n\0")


@pytest.mark.parametrize(
    "code, why",
    [
        ("", "empty"),
        (b"\0", "empty"),
        ("  \n", "empty"),
        ("kernel.ptx", "pathlib.Path"),
        ("__global__ void f() {\n}", "nvcc -ptx"),
        (b".version 7\0\x01", "NUL at byte 10"),
        (b"PK\3\4\n....", "not PTX"),
    ],
)
def test_what_is_no_code_says_why(code, why):
    with pytest.raises(ValueError, match=why):
        image.prepare(code)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="os.PathLike"):
        image.prepare(3)


def test_text_that_cannot_be_encoded():
    with pytest.raises(
        ValueError, match=r"character 9 is '.*ud800', half of a surrogate pair.*; to load a cubin, give bytes"
    ) as raised:
        image.prepare(".version \ud800")
    assert type(raised.value) is ValueError
