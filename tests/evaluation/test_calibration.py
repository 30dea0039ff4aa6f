from __future__ import annotations

import pytest

from fieldmark.evaluation.calibration import JudgedValue, calibrate, curve_svg, is_same_value, judge


def kinds(gold: dict, got: dict) -> dict[str, str]:
    return {one.path: one.kind for one in judge("a", gold, got, {})}


def test_every_extracted_value_is_right_wrong_invented_or_in_an_extra_row():
    gold = {"total": 10, "date": "2024-03-12", "note": None, "items": [{"name": "nut", "price": 1, "count": 2}]}
    got = {
        "total": 10,
        "date": "2024-03-13",
        "note": "paid",
        "other": "x",
        "blank": None,
        "items": [{"name": "Subtotal", "price": 3, "count": 9}, {"name": "nut", "price": 1, "count": 3}],
    }
    assert kinds(gold, got) == {
        "total": "right",
        "date": "wrong",
        "note": "invented",
        "other": "invented",
        "items[0].name": "extra_row",
        "items[0].price": "extra_row",
        "items[0].count": "extra_row",
        "items[1].name": "right",
        "items[1].price": "right",
        "items[1].count": "wrong",
    }


@pytest.mark.parametrize(
    ("gold", "got", "is_same"),
    [
        ("3/28/20", "2020-03-28", True),
        ("2020-03-28", "28.03.2020", True),
        ("2020-03-28", "2020-03-29", False),
        ("１２ｋｇ", "12 kg", True),
        ("1.250,00", 1250, True),
        (1250, 125000, False),
        ("12 kg net", "12 kg", False),
        ("net", "12 kg net", False),
        (True, "yes", False),
        ("", "x", False),
    ],
)
def test_another_printed_form_is_the_same_value_and_a_part_is_not(gold, got, is_same):
    assert is_same_value(gold, got) is is_same


def test_figures_count_values_and_leave_out_extra_rows():
    values = [JudgedValue("a", str(n), 0.99, "right", "right") for n in range(8)]
    values += [JudgedValue("b", "x", 0.99, "wrong", "wrong"), JudgedValue("b", "y", 0.4, "right", "wrong")]
    values += [
        JudgedValue("b", "z", 0.5, "invented", "invented"),
        JudgedValue("b", "r[0]", 0.99, "extra_row", "extra_row"),
    ]
    found = calibrate(values)
    assert (found.documents, found.values, found.shown) == (2, 11, 9)
    assert found.right_shown.value == 8 / 9 and found.not_right.value == 1 / 9 and found.extra_rows.value == 1 / 10
    assert found.ranking == ((8 * 0.5 + 0) + 8) / (9 * 2)
    assert [(point.confidence, point.right_shown, point.not_right) for point in found.curve] == [
        (0.99, 8 / 9, 1 / 9),
        (0.5, 8 / 9, 2 / 10),
        (0.4, 1.0, 2 / 11),
    ]
    assert curve_svg({"a < b": found}).count("polyline") == 1


def test_interval_is_over_documents():
    """Errors that are all in one document of ten leave far more open than one error in each document."""
    one = [JudgedValue(str(n), str(k), 1, "wrong" if n == 0 else "right", "right") for n in range(10) for k in range(3)]
    each = [
        JudgedValue(str(n), str(k), 1, "wrong" if k == 0 else "right", "right") for n in range(10) for k in range(3)
    ]
    clustered, spread = calibrate(one).not_right, calibrate(each).not_right
    assert spread.low == spread.high == spread.value == 1 / 3
    assert clustered.low == 0 and clustered.high is not None and clustered.high >= 0.3


def test_nothing_has_no_figures():
    found = calibrate([])
    assert (found.shown, found.not_right.value, found.ranking, found.curve) == (0, None, None, [])
