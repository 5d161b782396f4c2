"""Zstandard in plain Python, compared with frames of the program zstd."""

from __future__ import annotations

import base64
import random
import shutil
import subprocess
import sys
import types

import pytest

from tests.subject import module

zstd = module("images.zstd")
ZSTD = shutil.which("zstd")

TEXT = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
"""
for _k in range(40):
    TEXT += f"    ld.param.u32 %r{_k}, [n+{_k * 4}];\n    add.u32 %r{_k}, %r{_k}, {_k * _k * 7919 % 1000};\n"
    TEXT += f"    st.global.u32 [%rd1+{4 * _k}], %r{_k};\n"
TEXT += "    ret;\n}\n"
FRAME = base64.b85decode(  # zstd -19
    "D77#B1ZZ6n0OlG-8&Fl+3_zT6Z>WeVqN<8RWcTLEy|51}s=mV-Q~);sH2?{P<iU6<lqwu*5HTb|MS#U4IT}Y0Nr#CrNmt90Ac-h3"
    "c><1vi7FB3Nzg;lpfoOzb4^gDK|xR`P_$Si9;X@sp`;4Lh!T~@si#v!(x61p<q5}2GrYuOMdY)0+pX-?b!%<BHXo|-Auk*9>d)7#"
    "%k8?nzLs!3p4r|R9_uQfy{&HrTSNfEBfM<cT&w@@rI=-T{ZWtCmUfND+RJC}y<1&zl@`~vcCI$xYVIvBTPLsnde<z?-O{}NOasow"
    "DO8}SwR<(2FBLC&+06K>|NWZv+^y&Jii*cW>pjF{O}?{t+RqB>s;sWCwU^bJ&$NFQfgY$aWo$!f*gpdy+Muc7Ap|H}B;ryafyi83"
    "2T(rw5C?=$=J?_cLPOx>1{f5T0LBG28|r}ToP8(-m<r>ikRVCan1zCZj5(SP1wk^wWN9?f)0hJ^{A!9z#LE0LEJH)^OfYOp0G}F("
    "i<K0al1<<zTX)F|0q~pL=l=qXB>>Q)5FZZAB*jh9nE%E+0<F+0oP%qFx(u73(LR>VS4WAbF%yvXPH~n1K#xLvI53kGH$}t#tjQNg"
    "6QgowAok})rj3#yrdU?t#+63Caew|0r|-pDhg%d=m%R{2WeEf2QCap6faD!i!`uN>xFri`Ts%;Y95Nmtp5n<3>5RPd;t_#OO8R2}"
    "iF4F~ltnHvw6vVb3h)FaCNl%Gi%h0Z2GTq<*Fk{45vH#K%kbha"
)


def test_a_frame_with_compressed_literals_and_sequences() -> None:
    assert zstd._decompress(FRAME).decode() == zstd.decompress(FRAME).decode() == TEXT


def test_several_frames_and_one_to_skip() -> None:
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    assert zstd._decompress(FRAME + skipped + FRAME).decode() == TEXT * 2


@pytest.mark.parametrize("data", [b"1234", FRAME[:-1], FRAME[:40], FRAME[:5], b"\x28\xb5\x2f\xfd\x03" + bytes(9)])
def test_what_is_refused(data: bytes) -> None:
    for decompress in (zstd._decompress, zstd.decompress):
        with pytest.raises(ValueError):
            decompress(data)


def test_a_standard_library_with_zstandard_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Frame:
        """Stands for the class of Python 3.14. A frame is all that is before a full stop."""

        def decompress(self, data: bytes, most: int) -> bytes:
            content, stop, self.unused_data = data.partition(b".")
            self.eof = bool(stop)
            return content[:most]

    library = types.SimpleNamespace(ZstdDecompressor=Frame, ZstdError=LookupError)
    monkeypatch.setitem(sys.modules, "compression", types.SimpleNamespace(zstd=library))  # type: ignore[arg-type]
    assert zstd.decompress(b"ab.c.", 3) == b"abc" and zstd.decompress(b"") == b""
    for data, words in ((b"ab.c", "damaged"), (b"ab.cd.", "more than 3 bytes")):
        with pytest.raises(ValueError, match=words):
            zstd.decompress(data, 3)


def test_damage_is_refused_or_harmless() -> None:
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(FRAME)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            zstd._decompress(bytes(damaged))
        except ValueError:
            pass


@pytest.mark.parametrize("text, wanted", [
    (b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999),
    (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
])  # fmt: skip
def test_the_checksum_is_the_lower_half_of_xxh64(text: bytes, wanted: int) -> None:
    assert zstd._checksum(text) == wanted.to_bytes(8, "little")[:4]


@pytest.mark.parametrize("at, bit", [(4, 3), (5, 0), (9, 0), (12, 7)], ids=["reserved", "size", "content", "checksum"])
def test_each_field_of_a_frame_is_checked(at: int, bit: int) -> None:
    """One block without compression, with the size of the content and a checksum."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x24\x03\x19\0\0abc" + (0xAD770999).to_bytes(4, "little"))
    assert zstd._decompress(bytes(frame)) == zstd.decompress(bytes(frame)) == b"abc"
    frame[at] ^= 1 << bit
    for decompress in (zstd._decompress, zstd.decompress):
        with pytest.raises(ValueError, match="damaged"):
            decompress(bytes(frame))


@pytest.mark.parametrize("width, flags", [(0, 0), (2, 0x40), (4, 0x80), (8, 0xC0)])
def test_a_size_of_any_width_is_compared(width: int, flags: int) -> None:
    size = (300 - 256 if width == 2 else 300).to_bytes(8, "little")[:width]
    block = (300 << 3 | 1).to_bytes(3, "little") + bytes(300)
    frame = b"\x28\xb5\x2f\xfd" + bytes([flags, 0x58]) + size + block
    assert zstd._decompress(frame) == zstd.decompress(frame) == bytes(300)


def test_the_lengths_of_each_code_begin_where_those_of_the_one_before_end() -> None:
    for bits, bases, first in (
        (zstd._LITERAL_BITS, zstd._LITERAL_BASES, 0),
        (zstd._MATCH_BITS, zstd._MATCH_BASES, 3),
    ):
        assert bases == [first + sum(1 << each for each in bits[:code]) for code in range(len(bits))]


@pytest.mark.skipif(ZSTD is None, reason="the program zstd is not installed")
@pytest.mark.parametrize("level", [1, 3, 9, 19])
def test_frames_of_the_program(level: int) -> None:
    chance = random.Random(level)
    texts = [b"", b"a", b"ab" * 1000, bytes(70_000), chance.randbytes(3000), TEXT.encode() * 3]
    for size in (10, 300, 5000):
        texts += [bytes(chance.randrange(letters) for _ in range(size)) for letters in (2, 20, 256)]
    for text in texts:
        command = [str(ZSTD), "-q", "-c", f"-{level}"]
        packed = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout
        assert zstd._decompress(packed) == text
