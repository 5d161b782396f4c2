"""Each row of the table in docs/numpy.md, evaluated with NumPy and with views of host and device memory."""

from __future__ import annotations

import copy
import pickle

import pytest

from tests.subject import CHECKOUT, rawcuda

numpy = pytest.importorskip("numpy")

ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in (CHECKOUT / "docs/numpy.md").read_text("utf-8").splitlines()
    if line.startswith("| `")
]


def outcome(expression, x):
    """Return the value of an expression as the table writes it."""
    try:
        value = eval(expression, {"numpy": numpy, "copy": copy, "pickle": pickle, "x": x})
    except Exception as error:
        return f"`{type(error).__name__}`"
    if isinstance(value, rawcuda.StridedView):
        return "a view" if value.shape else "a view without dimensions"
    if isinstance(value, numpy.ndarray):
        return "an array"
    if isinstance(value, numpy.generic) and not isinstance(value, numpy.bool_):
        return "a scalar"
    return f"`{bool(value) if isinstance(value, numpy.bool_) else value!r}`"


def test_the_table_is_there():
    assert len(ROWS) > 40 and all(len(row) == 4 for row in ROWS), [row for row in ROWS if len(row) != 4]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row(row, device):
    expression = row[0].strip("`")
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    assert outcome(expression, array.copy()) == row[1]
    assert outcome(expression, rawcuda.view(array.copy())) == row[3]
    assert outcome(expression, device.upload(array)) == row[3]
