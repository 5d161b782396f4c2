"""Exporters that refuse a protocol, in uploads and as arguments of launches; see tests/null/test_refusals.py."""

from __future__ import annotations

import pytest

from tests.null.test_refusals import GOOD, exporter, shows


def test_5_17_0_10_upload_and_launches_follow_the_rule(device):
    numpy = pytest.importorskip("numpy")
    error = TypeError("bits")
    thing = exporter({"__dlpack__": error}, __array__=lambda self, *a, **k: numpy.array([True, False]))
    there = device.upload(thing)
    assert there.dtype == "bool" and there.tolist() == [True, False]
    assert device.upload(exporter({"__dlpack__": error}, __array_interface__=shows(GOOD))).tolist() == [1, 2, 3]
    with device.load(ONE) as loaded:
        kernel = loaded["k"]
        with pytest.raises(TypeError, match="bits"):
            kernel.launch(exporter({"__dlpack__": error}), grid=1, block=1)
        with pytest.raises(ValueError, match="cannot access"):  # found by the array interface, and then refused
            kernel.launch(exporter({"__dlpack__": error}, __array_interface__=shows(GOOD)), grid=1, block=1)
        del kernel
    error.__traceback__ = None  # it refers to the kernel


ONE = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry k(.param .u64 p) { ret; }
"""
