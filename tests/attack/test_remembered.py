"""Random sequences of inputs that differ in one thing, with and without what is remembered: as many as time permits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.attack.conftest import Campaign
from tests.driver import sequences
from tests.subject import rawcuda


@pytest.mark.codes("cuStreamIsCapturing returned 400")  # a stream that an exporter named is gone: the next call says so
def test_what_is_remembered_is_what_would_be_worked_out_anew(library: Any, campaign: Campaign) -> None:
    device = rawcuda.Device(0)
    with sequences.Tables() as tables, device.load(sequences.PTX) as loaded:

        def attack(chance: random.Random) -> None:
            seed = chance.randrange(1 << 60)
            campaign.done["steps"] += sequences.compare(device, loaded, tables, library, seed, 60)

        campaign.each(attack)
