"""What audits prove: the numbers that are needed, and the confidence from which values are accepted."""

from __future__ import annotations

import pytest

from fieldmark.domain.audits import AuditCount, Claim, audits_needed, min_confidence, often_corrected


@pytest.mark.parametrize(
    ("max_error", "needed"), [(0.005, [598, 947, 1258, 1549]), (0.01, [299, 473, 628, 773])]
)  # From tables.
def test_audits_needed_for_so_many_wrong(max_error: float, needed: list[int]) -> None:
    assert [audits_needed(wrong, max_error) for wrong in range(4)] == needed


def test_claim_counts_looked_at_audits_of_accepted_values_only() -> None:
    audits = [
        AuditCount(1, True, True, 400, 1, 30),
        AuditCount(0.97, True, True, 11, 0, 0),
        AuditCount(0.8, False, True, 5, 5, 5),
    ]
    claim = Claim.of(14_210, audits, 0.01)
    assert (claim.values, claim.audited, claim.wrong, claim.waiting, claim.needed) == (14_210, 412, 1, 30, 473)
    assert claim.at_most == pytest.approx(0.0115, abs=5e-5) and not claim.is_proven
    assert Claim.of(14_210, [AuditCount(1, True, True, 299, 0, 0)], 0.01).is_proven
    nothing = Claim.of(0, [], 1)
    assert (nothing.at_most, nothing.needed, nothing.is_proven) == (None, None, False)


def test_claim_covers_no_layout_without_enough_audits() -> None:
    audits = [AuditCount(1, True, True, 411, 1, 30), AuditCount(1, True, False, 1, 2, 7)]
    claim = Claim.of(14_210, audits, 0.01, (312, 2))
    assert (claim.audited, claim.wrong, claim.waiting, claim.of_new_layouts) == (412, 1, 37, 7)
    assert (claim.values, claim.uncovered_values, claim.uncovered_layouts) == (14_210, 312, 2)
    assert Claim.of(312, audits[1:], 0.01, (312, 2)).at_most is None


def test_lower_confidence_is_accepted_only_if_each_above_is_proven() -> None:
    audits = {0.95: AuditCount(0.95, True, True, 299, 0, 0), 0.9: AuditCount(0.92, False, True, 20, 1, 0)}
    assert min_confidence([], 0.01, 0.95) == 0.95
    assert min_confidence([audits[0.95]], 0.01, 0.95) == 0.5
    # 1 of 320 does not prove 1 %, so that nothing below is tested: not even where more audits would prove it.
    many = AuditCount(0.85, False, True, 1000, 0, 0)
    assert min_confidence([audits[0.95], audits[0.9], many], 0.01, 0.95) == 0.95
    # Nor if audits of a layout wait about which nothing is known.
    assert min_confidence([audits[0.95], AuditCount(0.96, True, False, 0, 0, 1)], 0.01, 0.95) == 0.95


def test_field_is_often_corrected_if_surely_more_often_than_the_goal() -> None:
    looks = {"total": (20, 2), "vendor": (20, 1), "new": (19, 19), "better": (400, 2), "worse": (400, 9)}
    assert often_corrected(looks, 0.01) == ["total", "worse"]
