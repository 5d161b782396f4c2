"""Answers of real drivers: a report of `check` replaces what the emulator answers by itself."""

from __future__ import annotations

import copy
import ctypes
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Python
from tests.emulator.emulator_client import KERNELS, Client
from tests.emulator.ptx_client import kernel
from tests.subject import NAME, module

answers, codes = module("emulator.machine.answers"), module("emulator.machine.codes")

# A report, shortened, of a device that does not exist.
REPORT: dict[str, Any] = {
    "cuda": 12040,
    "devices": [
        {
            "name": "NVIDIA Z9",
            "compute_capability": "8.6",
            "memory": 16 << 30,
            "modes": ["MIG"],
            "attributes": {
                "MULTIPROCESSOR_COUNT": 7,
                "MAX_THREADS_PER_BLOCK": 512,
                "CLUSTER_LAUNCH": 1,
                "TEXTURE_ALIGNMENT": 256,
                "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 99 << 10,
                "A_NEW_ATTRIBUTE": 3,
            },
            "limits": {"stack_size": 2048, "malloc_heap_size": 1 << 20, "cig_enabled": 0},
            "priorities": [0, -2],
        }
    ],
    "answers": {
        "alignment of an allocation": 256,
        "pitch of a row of one byte": 256,
        "granularity of virtual memory": 1 << 16,
        "cuLaunchKernel in another context": 400,
        "cuStreamQuery without a context": 400,
        "cuStreamSynchronize without a context": 0,
        "cuMemAlloc_v2 in a capture": 0,
        "cuMemGetInfo_v2 in a capture": 900,
        "cuCtxSynchronize in a capture": 900,
        "a question of a newer version": 1,
    },
    "codes": {"0": ["CUDA_SUCCESS", "no error"], "2": ["CUDA_ERROR_OUT_OF_MEMORY", "no room"]},
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "report.json"
    made.write_text(json.dumps(REPORT), "utf-8")
    return str(made)


def test_a_report_replaces_what_it_tells(path: str) -> None:
    client = Client(report=path)
    asked = {number: client.get_int("cuDeviceGetAttribute", number, 0) for number in (16, 1, 14, 75, 76, 97, 10, 120)}
    assert asked == {16: 7, 1: 512, 14: 256, 75: 8, 76: 6, 97: 99 << 10, 10: 32, 120: 0}  # no clusters below 9.0
    name = ctypes.create_string_buffer(64)
    client.do("cuDeviceGetName", name, 64, 0)
    assert name.value == b"NVIDIA Z9 (emulated)"
    assert client.get("cuDeviceTotalMem_v2", 0) == 16 << 30 and client.get_int("cuDriverGetVersion") == 12040
    assert client.get("cuCtxGetLimit", 0) == 2048 and client.get("cuCtxGetLimit", 2) == 1 << 20
    least, greatest = ctypes.c_int(), ctypes.c_int()
    client.do("cuCtxGetStreamPriorityRange", least, greatest)
    assert (least.value, greatest.value) == (0, -2)
    text = ctypes.c_char_p()
    client.do("cuGetErrorString", 2, text)
    assert text.value == b"no room"
    assert client.code("cuGetErrorString", 700, text) == 1  # this driver does not know it


@pytest.mark.parametrize("wanted", [100, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("count", [64, 132, 512, 600])
def test_a_device_of_many_multiprocessors_can_be_divided(tmp_path: Path, count: int, wanted: int) -> None:
    report = copy.deepcopy(REPORT)
    report["devices"][0]["attributes"]["MULTIPROCESSOR_COUNT"] = count
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), "utf-8")
    client, number = Client(report=str(path)), ctypes.c_uint32(wanted)
    whole, rest, again = (ctypes.create_string_buffer(512) for _ in range(3))
    parts = ctypes.create_string_buffer(144 * 100)
    client.do("cuDeviceGetDevResource", 0, whole, 1)
    client.do("cuDevSmResourceSplitByCount", parts, number, whole, rest, 0, 14)
    sizes = [struct.unpack_from("<I", parts, 144 * at + 96)[0] for at in range(number.value)]
    most = min(count, 512)  # what the private bytes have room for
    assert struct.unpack_from("<I", whole, 96)[0] == most
    assert sizes == [14] * (most // 14) and struct.unpack_from("<I", rest, 96)[0] == most % 14
    descriptor = ctypes.c_uint64()
    client.do("cuDevResourceGenerateDesc", descriptor, parts, number.value)
    green = client.get("cuGreenCtxCreate", descriptor.value, 0, 1)
    client.do("cuGreenCtxGetDevResource", green, again, 1)
    assert struct.unpack_from("<I", again, 96)[0] == sum(sizes)


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_blocks_run_on_the_multiprocessors_that_the_device_has(path: str, executor: str) -> None:
    body = """mov.u32 %r1, %smid; mov.u32 %r2, %nsmid; mov.u32 %r3, %ctaid.x; mul.wide.u32 %d1, %r3, 8;
    add.u64 %d1, %out, %d1; st.global.v2.u32 [%d1], {%r1, %r2};"""
    for client, count in ((Client(report=path, executor=executor), 7), (Client(executor=executor), 4)):
        function, out = client.get("cuModuleGetFunction", client.load(kernel(body)), b"k"), client.upload(bytes(160))
        assert not client.launch(function, [out], grid=(20, 1, 1), block=(32, 1, 1))
        assert struct.unpack("<40I", client.download(out, 160))[1::2] == (count,) * 20
        assert set(struct.unpack("<40I", client.download(out, 160))[::2]) == set(range(count))


def test_sizes_and_alignments_are_those_of_the_report(path: str) -> None:
    made = answers.Answers.from_report(path)
    assert (made.alignment, made.pitch, made.granularity) == (256, 256, 1 << 16)
    client = Client(report=path)
    addresses = [client.get("cuMemAlloc_v2", 1) for _ in range(4)]
    assert all(address % 256 == 0 for address in addresses) and any(address % 512 for address in addresses)
    assert client.get("cuMemAddressReserve", 1 << 16, 0, 0, 0) % (1 << 16) == 0
    assert Client().code("cuMemAddressReserve", ctypes.c_uint64(), 1 << 16, 0, 0, 0) == 1


def test_a_feature_that_is_not_emulated_stays_absent(tmp_path: Path) -> None:
    report = copy.deepcopy(REPORT)
    report["devices"][0]["attributes"]["MULTICAST_SUPPORTED"] = 1
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), "utf-8")
    assert answers.Answers.from_report(str(path)).attributes[132] == 0


def test_facts_at_the_end_of_their_range(tmp_path: Path) -> None:
    report = copy.deepcopy(REPORT)
    report["devices"][0]["attributes"].update(NUMA_ID=-1, MANAGED_MEMORY=0, MAX_PITCH=(1 << 31) - 1, CLOCK_RATE=0)
    report["devices"][0]["priorities"] = [0, 0]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), "utf-8")
    made = answers.Answers.from_report(str(path))
    assert [made.attributes[number] for number in (131, 83, 11, 13)] == [-1, 0, (1 << 31) - 1, 0]
    assert made.priorities == (0, 0)


def test_a_fact_that_check_did_not_find_is_left(tmp_path: Path) -> None:
    report = copy.deepcopy(REPORT)
    report["devices"][0]["limits"] = report["codes"] = {"error": "the context is lost"}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), "utf-8")
    made, default = answers.Answers.from_report(str(path)), answers.Answers(86)
    assert made.limits == default.limits and made.texts == default.texts and made.pitch == 256


def test_a_launch_in_another_context(path: str) -> None:
    """Drivers may differ: without a report, the emulator permits it."""
    for client, code in ((Client(report=path), 400), (Client(), 0)):
        function = client.get("cuModuleGetFunction", client.load(KERNELS), b"nothing")
        stream = client.stream()
        client.get("cuCtxCreate_v2", 0, 0)
        assert client.code("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) == code


def test_the_code_without_a_context(path: str) -> None:
    for client, code in ((Client(report=path), 400), (Client(), 201)):
        stream = client.stream()
        assert client.code("cuStreamQuery", stream) == 0
        client.get("cuCtxPopCurrent_v2")
        assert client.code("cuStreamQuery", stream) == code and client.code("cuStreamSynchronize", stream) == 201


def test_what_is_refused_in_a_capture(path: str) -> None:
    """The report replaces the table of headers/behaviour.py, which holds for the functions that it does not list."""
    behaviour, default, told = module("headers.behaviour"), answers.Answers(), answers.Answers.from_report(path)
    for name, known in behaviour.functions().items():
        assert default.is_unsafe(name) == (known.capture == "unsafe")
    for symbol, with_report, without in (
        ("cuMemAlloc_v2", False, True),
        ("cuMemGetInfo_v2", True, False),
        ("cuEventQuery", True, True),
        ("cuCtxSynchronize", False, False),  # only for a context that has a captured stream
    ):
        assert (told.is_unsafe(symbol), default.is_unsafe(symbol)) == (with_report, without), symbol
    for client, codes_of in ((Client(report=path), (0, 900)), (Client(), (900, 0))):
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        for code, name, arguments in (
            (codes_of[0], "cuMemAlloc_v2", (ctypes.c_uint64(), 16)),
            (codes_of[1], "cuMemGetInfo_v2", (free, total)),
        ):
            stream = client.stream()
            client.do("cuStreamBeginCapture_v2", stream, 0)
            assert client.code(name, *arguments) == code
            assert client.code("cuStreamEndCapture", stream, ctypes.c_uint64()) == (901 if code else 0)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda report: report.pop("devices"), "'devices'.* is missing"),
        (lambda report: report.update(devices=[]), "is missing, or of another type"),
        (lambda report: report["devices"][0].update(compute_capability="nine"), "not enough values|invalid literal"),
        (lambda report: report["devices"][0]["attributes"].update(WARP_SIZE="many"), "invalid literal"),
        (lambda report: report.update(codes=[]), "is missing, or of another type"),
        (lambda report: report["devices"][0].update(memory=float("inf")), "infinity"),
        (lambda report: report["devices"][0].update(memory=0), "memory is 0, not a number from 1"),
        (lambda report: report["devices"][0].update(priorities=[-1, 0]), "the priorities are -1 and 0"),
        (lambda report: report["devices"][0].update(priorities=[0]), "not enough values"),
        (lambda report: report["devices"][0].update(priorities=[10**30, 0]), "a priority is 10{30}, not a number"),
        (
            lambda report: report["devices"][0].update(compute_capability="9" * 12 + ".0"),
            "major is 9{12}, not a number",
        ),
        (lambda report: report["devices"][0].update(compute_capability="9.-1"), "minor is -1, not a number"),
        (lambda report: report["devices"][0].update(name="\ud800"), "surrogates not allowed"),
        (lambda report: report.update(cuda=-1), "cuda is -1, not a number from 0"),
        (lambda report: report["devices"][0]["limits"].update(stack_size=-5), "stack_size is -5, not a number from 0"),
        *[
            (
                lambda report, name=name, value=value: report["devices"][0]["attributes"].update({name: value}),
                f"{name} is {value}, not a number from",
            )
            for name, value in (
                ("MAX_THREADS_PER_BLOCK", -1),
                ("MAX_GRID_DIM_X", 0),
                ("WARP_SIZE", 0),
                ("MAX_PITCH", 1 << 31),
                ("MULTIPROCESSOR_COUNT", 0),
                ("MULTIPROCESSOR_COUNT", -2),
                ("MANAGED_MEMORY", -1),
                ("NUMA_ID", -2),
            )
        ],
        *[
            (lambda report, name=name, size=size: report["answers"].update({name: size}), f"is {size}, not a power")
            for name in ("alignment of an allocation", "pitch of a row of one byte", "granularity of virtual memory")
            for size in (0, -1, 3, 1 << 70)
        ],
        *[
            (
                lambda report, name=name: report["answers"].update({name: 1 << 32}),
                f"{name} is 4294967296, not a number from 0",
            )
            for name in ("cuCtxSynchronize without a context", "cuLaunchKernel in another context")
        ],
    ],
)
def test_a_damaged_report_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    report = copy.deepcopy(REPORT)
    change(report)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), "utf-8")
    with pytest.raises(ValueError, match=f"report={path}: .*({said}).*: give the file that `check` wrote"):
        answers.Answers.from_report(str(path))


def test_a_file_that_is_not_a_report_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = module("emulator").Emulator
    monkeypatch.setenv("RAWCUDA_EMULATOR", f"report={tmp_path / 'nowhere.json'}")
    with pytest.raises(ValueError, match=r"nowhere\.json: .*No such file"):
        emulator.from_environment()
    (tmp_path / "text.json").write_text("text", "utf-8")
    with pytest.raises(ValueError, match=r"text\.json: Expecting value"):
        emulator(report=str(tmp_path / "text.json"))
    (tmp_path / "deep.json").write_text("[" * 200_000, "utf-8")
    with pytest.raises(ValueError, match=r"deep\.json: .*(recursion|missing|Expecting)"):
        emulator(report=str(tmp_path / "deep.json"))


def test_the_architecture_is_that_of_the_report(path: str) -> None:
    with pytest.raises(ValueError, match="leave out sm"):
        module("emulator").Emulator(report=path, sm=90)
    made = module("emulator").Emulator(report=path)._machine
    assert (made.architecture, made.mig, made.cuda) == (86, True, 12040)


@pytest.mark.once
def test_the_report_of_the_emulator_changes_nothing(python: Python, tmp_path: Path) -> None:
    """What `check` brings is what the emulator was given: a report of a report has the same facts."""
    found = []
    for name, env in (("first", {}), ("second", {"RAWCUDA_EMULATOR": "devices=2,report=first"})):
        result = python(["-m", NAME, "check", "memory", "--json", name], env=env, timeout=120)
        assert result.returncode == 0, result.stdout
        found.append(json.loads((tmp_path / name).read_text("utf-8")))
    first, second = found
    assert second["devices"][0]["name"] == first["devices"][0]["name"] + " (emulated)"
    for name in ("attributes", "limits", "priorities", "memory", "compute_capability"):
        assert first["devices"][0][name] == second["devices"][0][name]
    assert first["answers"] == second["answers"] and first["codes"] == second["codes"]
