"""docs/systems.md is true: measurements are not worse than the committed results, which the page shows."""

from __future__ import annotations

import json

import pytest

from tests import systems_table
from tests.interop.exchanges import rows_of
from tests.interop.systems import HERE, SYSTEMS
from tests.interop.systems_text import ENTRIES
from tests.subject import NAME

pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the page is about the original")
RESULTS = json.loads(systems_table.RESULTS.read_text("utf-8"))


def ordered(version):
    """Return the numbers of a version, for comparisons."""
    return [int(part) for part in version.partition("+")[0].split(".") if part.isdigit()]


@pytest.mark.parametrize("kind", HERE, ids=lambda kind: kind.name)
@pytest.mark.filterwarnings("ignore")
def test_no_row_is_worse_than_committed(kind, pytestconfig):
    system = kind().load()
    known, now = RESULTS[system.name], rows_of(system)
    wrong = {
        f"{row} {case}: {outcome}"
        for row, found in now.items()
        for case, outcome in found.items()
        if outcome.startswith("wrong")
    }
    assert wrong <= {
        f"{row} {case}: {outcome}" for row, found in known["rows"].items() for case, outcome in found.items()
    }
    if ordered(system.version) < ordered(known["version"]):
        pytest.skip(
            f"{system} {system.version} is older than the results, which are of {known['version']}; "
            "nothing of it is wrong"
        )
    lost = {row: systems_table.worse(found, now.get(row, {})) for row, found in known["rows"].items()}
    assert not any(lost.values()), (
        f"worse than in {systems_table.RESULTS.name}, "
        f"with {system} {known['version']} there and {system.version} here: {lost}"
    )
    same = (system.version, systems_table.PYTHON) == (
        known["version"],
        known["python"],
    )  # (a later Python requires more of buffers)
    if same and pytestconfig.getoption("driver") != "nvidia":  # (and some libraries do more with a driver)
        assert now == known["rows"], "better than committed: run python3 -m tests.systems_table"


def test_a_row_that_regresses_is_noticed():
    known = {"contiguous": "yes", "strided": "copy", "0-d": "no", "float32": "yes"}
    assert systems_table.worse(known, known) == []
    assert systems_table.worse(known, {**known, "strided": "yes", "0-d": "yes"}) == []
    assert systems_table.worse(known, {**known, "contiguous": "copy"}) == ["contiguous: yes before, copy now"]
    assert systems_table.worse(known, {**known, "float32": "wrong: values"}) == [
        "float32: yes before, wrong: values now"
    ]
    assert len(systems_table.worse(known, {})) == 4


def test_the_page_is_made_from_the_results():
    assert systems_table.PAGE.read_text("utf-8") == systems_table.page(RESULTS), (
        "run python3 -m tests.systems_table --page"
    )
    assert set(ENTRIES) == {kind.name for kind in SYSTEMS} == set(RESULTS)
    for name, found in RESULTS.items():
        assert any(row.startswith("gives dlpack") or name == "mpi4py" for row in found["rows"]), name
        assert any(row.startswith("takes") for row in found["rows"]), name
        wrong = any(outcome.startswith("wrong") for row in found["rows"].values() for outcome in row.values())
        assert ENTRIES[name].remark or not wrong, f"{name}: a result is wrong, and no remark gives the reason"


@pytest.mark.parametrize("kind", HERE, ids=lambda kind: kind.name)
@pytest.mark.filterwarnings("ignore")
def test_the_lines_to_paste_run(kind):
    kind().load()
    exec(compile(ENTRIES[kind.name].lines, f"docs/systems.md, {kind.name}", "exec"), {})
