"""The emulator's devices: how many, which are visible, and which reach each other."""

from __future__ import annotations

import pytest

from tests.conftest import Python
from tests.subject import module

devices, emulator = module("emulator.entries.hardware.devices"), module("emulator")
UUIDS = [devices.uuid_of(index) for index in range(4)]


@pytest.mark.parametrize(
    "text, chosen",
    [
        ("0,1,2,3", [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        ("3", [3]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("4", []),
        ("0,4,1", [0]),
        ("0,-1,1", [0]),
        ("1,,2", [1]),
        ("0, 2", [0, 2]),
        ("+1", [1]),
        ("1x,2y", [1, 2]),
        ("x1", []),
        ("0,0", []),
        ("0,1,0", []),
        ("0,9,0", [0]),
        ("NoDevFiles", []),
        ("99999999999999999999", []),
        ("٣", []),
        (UUIDS[2], [2]),
        (f"{UUIDS[3]},{UUIDS[0]}", [3, 0]),
        (UUIDS[1][:12], [1]),
        ("GPU-", []),
        (f"{UUIDS[1]},{UUIDS[1][:14]}", []),
        (f"{UUIDS[1]},0", [1]),
        (f"0,{UUIDS[1]}", [0]),
        (f"{UUIDS[1]},GPU-ffffffff-no,{UUIDS[2]}", [1]),
        ("MIG-1", []),
    ],
)
def test_which_devices_are_visible(text: str, chosen: list[int]) -> None:
    """As drivers do it; PyTorch's torch.cuda counts devices by the same rules."""
    assert devices.visible(text, UUIDS) == chosen


def test_the_uuids_begin_differently() -> None:
    assert len({uuid[:8] for uuid in UUIDS}) == 4


SHOW = """
    from tests.subject import rawcuda
    for device in rawcuda.devices():
        device.allocate(16).fill(1)
        device.synchronize()
        print(device.ordinal, device.uuid, device.pci_bus_id, device.attribute("PCI_BUS_ID"))
"""


def test_the_environment_chooses_and_numbers(python: Python) -> None:
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=4", "CUDA_VISIBLE_DEVICES": "3,1"}
    result = python(SHOW, env=env, check=True)
    assert result.stdout.splitlines() == [f"0 {UUIDS[3]} 0000:04:00.0 4", f"1 {UUIDS[1]} 0000:02:00.0 2"]
    result = python(SHOW, env={**env, "CUDA_VISIBLE_DEVICES": UUIDS[2][:10]}, check=True)
    assert result.stdout.splitlines() == [f"0 {UUIDS[2]} 0000:03:00.0 3"]


def test_no_device_is_left(python: Python) -> None:
    for text in ("", "7", "0,0"):
        env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=2", "CUDA_VISIBLE_DEVICES": text}
        result = python("from tests.subject import rawcuda\nprint(rawcuda.devices())", env=env)
        assert result.returncode == 1 and "CUDA_ERROR_NO_DEVICE (100)" in result.stderr
        assert f"CUDA_VISIBLE_DEVICES is {text!r}" in result.stderr


def test_peers_of_hidden_devices(python: Python) -> None:
    """In pairs, 0 and 1 belong together, also if they have other numbers now."""
    code = """
        from tests.subject import rawcuda
        one, two, three = rawcuda.devices()
        print(one.can_reach(two), one.can_reach(three), two.can_reach(three))
    """
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=4,peers=pairs", "CUDA_VISIBLE_DEVICES": "1,2,0"}
    assert python(code, env=env, check=True).stdout.split() == ["False", "True", "False"]
    for peers, answer in (("off", "False"), ("on", "True")):
        env["RAWCUDA_EMULATOR"] = f"devices=4,peers={peers}"
        assert python(code, env=env, check=True).stdout.split() == [answer] * 3


def test_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("peers", "peers=", "peers=maybe", "devices=4,peers=on=off"):
        monkeypatch.setenv("RAWCUDA_EMULATOR", text)
        with pytest.raises(ValueError, match="peers=on/off/pairs"):
            emulator.Emulator.from_environment()
    with pytest.raises(ValueError, match="must be 'on', 'off' or 'pairs'"):
        emulator.Emulator(peers="all")
