from __future__ import annotations

import copy

import pytest

from fieldmark.errors import Invalid
from fieldmark.evaluation.evaluate import regressions

TALLY = {"gold": 10, "exact": 8, "normalised": 9, "located": 7, "extra": 1}
REPORT = {"total": TALLY, "fields": {"total": TALLY}}


def report_with(measure: str, count: int) -> dict:
    report = copy.deepcopy(REPORT)
    report["total"][measure] = report["fields"]["total"][measure] = count
    return report


def test_equal_or_better_report_has_no_regressions():
    assert regressions(REPORT, REPORT, 0) == []
    assert regressions(REPORT, report_with("exact", 10), 0) == [] == regressions(REPORT, report_with("extra", 0), 0)


@pytest.mark.parametrize(
    ("measure", "count", "found"), [("exact", 7, 2), ("normalised", 8, 2), ("located", 6, 2), ("extra", 2, 1)]
)
def test_worse_measure_is_a_regression_beyond_the_tolerance(measure, count, found):
    worse = report_with(measure, count)
    assert len(regressions(REPORT, worse, 0)) == found
    assert regressions(REPORT, worse, 0.1) == []


def test_missing_field_is_a_regression():
    assert len(regressions(REPORT, {"total": TALLY, "fields": {}}, 1)) == 1


@pytest.mark.parametrize("baseline", [{}, {"total": 1, "fields": {}}, {"total": {"gold": "x"}, "fields": {}}])
def test_malformed_baseline_is_invalid(baseline):
    with pytest.raises(Invalid):
        regressions(baseline, REPORT, 0)
