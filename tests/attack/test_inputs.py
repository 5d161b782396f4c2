"""What others give, at random: formats of buffers, array interfaces, tensors, pickles and .npy files."""

from __future__ import annotations

import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.attack.conftest import Campaign
from tests.subject import module, rawcuda

np = pytest.importorskip("numpy")
npy = module("elements.npy")
HUGE = (0, 1, -1, 2**31, 2**32, 2**60, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30)


def test_exporters(campaign: Campaign) -> None:
    """The attacks of tests/null on formats, dicts and structs, with other seeds each time."""
    from tests.null import test_protocol_hostile as hostile

    def attack(chance: random.Random) -> None:
        for each in hostile.test_formats, hostile.test_array_interfaces, hostile.test_tensors:
            each(chance.randrange(2**40))
            campaign.done[each.__name__[5:]] += 1

    campaign.each(attack)


def arrays(chance: random.Random) -> Any:
    """Return an array of a random shape, order and type."""
    shape = tuple(chance.choice((0, 1, 2, 3, 5)) for _ in range(chance.randrange(4)))
    made = np.arange(int(np.prod(shape)) if shape else 1).astype(chance.choice(("u1", "i2", "f4", "f8", "c8", "M8[s]")))
    made = made.reshape(shape)
    return chance.choice((made, made.T, made[..., ::2] if shape else made, made[::-1] if shape else made))


def test_pickles_and_files(campaign: Campaign, tmp_path: Path) -> None:
    """A whole one arrives; a damaged one is refused by name, or gives an array of the stated size."""
    path = tmp_path / "a.npy"

    def damaged(chance: random.Random, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(min(len(changed), 200) or 1)
            kind = chance.randrange(4)
            if kind == 0 and changed:
                changed[at % len(changed)] = chance.randrange(256)
            elif kind == 1:
                del changed[at : at + chance.randrange(1, 20)]
            elif kind == 2:
                changed[at:at] = str(chance.choice(HUGE)).encode()
            else:
                changed[at:at] = changed[: chance.randrange(20)]
        return bytes(changed)

    def attack(chance: random.Random) -> None:
        array = arrays(chance)
        view = rawcuda.view(array)
        made = pickle.loads(pickle.dumps(view, chance.choice((2, 4, 5))))
        assert made.tobytes() == view.tobytes() and made.shape == view.shape
        function, given = view.__reduce_ex__(4)[:2]
        wrong = list(given)
        wrong[chance.randrange(len(wrong))] = chance.choice(
            (*HUGE, None, "x", b"", (2**60,), ("a",), object(), [1], ())
        )
        try:
            again = function(*wrong)
        except (rawcuda.RawCudaError, TypeError, ValueError, OverflowError, pickle.UnpicklingError) as error:
            assert str(error)
            campaign.done["pickles refused"] += 1
        else:
            assert again.nbytes == len(again.tobytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.save(path, array)
            data = damaged(chance, path.read_bytes())
            path.write_bytes(data)
            try:
                read = npy.read(path)
            except (rawcuda.RawCudaError, ValueError) as error:
                assert str(path) in str(error), error
                campaign.done["files refused"] += 1
            else:
                assert rawcuda.view(read).nbytes <= len(data)
                campaign.done["files read"] += 1

    campaign.each(attack)
