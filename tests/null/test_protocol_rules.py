"""docs/protocols.md and the tests agree: each row has a test or a reason, and each numbered test has a row."""

from __future__ import annotations

from tests.protocol_table import TABLE, filled, numbered_tests, rows, rules_of


def test_every_row_has_a_test_or_a_reason():
    table = rows(TABLE.read_text("utf-8"))
    numbers = [row[0] for row in table]
    assert len(numbers) == len(set(numbers)) > 120
    for rule, demand, tests, state in table:
        assert demand and (state == "tested") == ("::" in tests), f"{rule}: {state}"
        assert "LOST" not in state and (state == "tested" or len(state) > 8), f"{rule} has no test, and no reason"


def test_the_table_names_the_tests_that_there_are():
    text = TABLE.read_text("utf-8")
    assert filled(text) == text, "run python3 -m tests.protocol_table"
    unknown = set(numbered_tests()) - {row[0] for row in rows(text)}
    assert unknown <= {"1.000", "100.000"}, f"tests of rules that the table does not have: {unknown}"


def test_names_lead_to_rows():
    assert rules_of("test_2_10_2_13_never_a_type_error") == ["2.10", "2.13"] and rules_of("test_0_1_x") == ["0.1"]
    assert (
        rules_of("test_1_1_to_1_3_layouts") == ["1.1", "1.2", "1.3"]
        and rules_of("test_anything") == []
        and rules_of("test_x", "2.16") == ["2.16"]
    )
