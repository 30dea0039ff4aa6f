"""Reports of evaluations: what counts as worse."""

from __future__ import annotations

import copy

import pytest

from fieldmark.errors import Invalid
from fieldmark.evaluation.evaluate import regressions

TALLY = {"gold": 10, "exact": 8, "normalised": 9, "located": 7, "extra": 1}
REPORT = {"total": TALLY, "fields": {"total": TALLY}}


def changed(measure: str, count: int) -> dict:
    report = copy.deepcopy(REPORT)
    report["total"][measure] = report["fields"]["total"][measure] = count
    return report


def test_the_same_is_not_worse_nor_is_better():
    assert regressions(REPORT, REPORT, 0) == []
    assert regressions(REPORT, changed("exact", 10), 0) == [] == regressions(REPORT, changed("extra", 0), 0)


@pytest.mark.parametrize(("measure", "count"), [("exact", 7), ("normalised", 8), ("located", 6), ("extra", 2)])
def test_each_measure_that_falls_is_told_beyond_the_tolerance(measure, count):
    worse = changed(measure, count)
    assert any("in all" in sentence for sentence in regressions(REPORT, worse, 0))
    assert regressions(REPORT, worse, 0.1) == []


def test_a_field_that_was_not_looked_for_is_told():
    assert regressions(REPORT, {"total": TALLY, "fields": {}}, 1) == ["total: no value of this field was looked for"]


@pytest.mark.parametrize("baseline", [{}, {"total": 1, "fields": {}}, {"total": {"gold": "x"}, "fields": {}}])
def test_what_is_no_report_is_refused(baseline):
    with pytest.raises(Invalid, match="no report"):
        regressions(baseline, REPORT, 0)
