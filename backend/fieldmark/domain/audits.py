"""What people's looks at values prove about the values that no one looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Final

from pydantic import Field

from fieldmark.domain.proportions import lower_bound, upper_bound

NEVER: Final = 2.0
"""The confidence from which the values of a field are accepted that people often correct. No value has it."""

_LOWER: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Confidences from which values are accepted once audits prove the goal for them, in the order of the tests."""

_FEWEST_LOOKS: Final = 20
"""Looks at a field from which its own record counts."""


@dataclass(frozen=True, slots=True)
class AuditCount:
    """Drawn values with the same confidence. `is_accepted`: nothing but the draw asks a person to look at them.
    `is_covered`: enough drawn values of their layout were looked at. What is known of other layouts says nothing about
    it."""

    confidence: float
    is_accepted: bool
    is_covered: bool
    right: int
    wrong: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Claim:
    """How many values that no one looked at are wrong at most."""

    values: Annotated[int, Field(description="Values that were accepted without a look.")]
    uncovered_values: Annotated[
        int,
        Field(description="Of those, the values in layouts without enough audits: `at_most` says nothing about them."),
    ]
    uncovered_layouts: Annotated[
        int, Field(description="Their layouts. All documents that look like no other count as one.")
    ]
    audited: Annotated[int, Field(description="Values drawn at random from all covered ones that a person looked at.")]
    wrong: Annotated[int, Field(description="Of those, the values that the person replaced or removed.")]
    waiting: Annotated[int, Field(description="Drawn values that no one has looked at yet.")]
    of_new_layouts: Annotated[int, Field(description="Of the waiting ones, those in layouts that are not covered.")]
    at_most: Annotated[
        float | None,
        Field(
            description="The share of wrong values is not higher, with a confidence of 95 % (Clopper-Pearson). null: "
            "no drawn value was looked at."
        ),
    ]
    max_error: Annotated[float, Field(description="The goal: the share of wrong values that is accepted. 1: any.")]
    needed: Annotated[
        int | None,
        Field(description="Audits that prove the goal, if no more than these are wrong. null: there is no goal."),
    ]

    @classmethod
    def of(
        cls, values: int, audits: Sequence[AuditCount], max_error: float, uncovered: tuple[int, int] = (0, 0)
    ) -> Claim:
        """`uncovered`: how many of the values no bound covers, and in how many layouts."""
        accepted = [one for one in audits if one.is_accepted]
        covered = [one for one in accepted if one.is_covered]
        wrong = sum(one.wrong for one in covered)
        audited = wrong + sum(one.right for one in covered)
        waiting = sum(one.waiting for one in accepted)
        new = waiting - sum(one.waiting for one in covered)
        at_most = upper_bound(wrong, audited) if audited else None
        needed = None if max_error >= 1 else audits_needed(wrong, max_error)
        return cls(values, *uncovered, audited, wrong, waiting, new, at_most, max_error, needed)

    @property
    def is_proven(self) -> bool:
        """Whether the goal is reached."""
        return self.at_most is not None and self.at_most <= self.max_error


@dataclass(frozen=True, slots=True)
class ClaimWeek:
    """What the audits until the end of a week prove."""

    monday: date
    audited: int
    wrong: int
    at_most: Annotated[float | None, Field(description="As in the claim.")]


def claim_weeks(weeks: Sequence[tuple[date, int, int]]) -> list[ClaimWeek]:
    """Return the claim at the end of each week. `weeks` has the right and wrong audits of each, oldest first."""
    found: list[ClaimWeek] = []
    audited = wrong = 0
    for monday, right_now, wrong_now in weeks:
        audited, wrong = audited + right_now + wrong_now, wrong + wrong_now
        found.append(ClaimWeek(monday, audited, wrong, upper_bound(wrong, audited)))
    return found


def audits_needed(wrong: int, max_error: float) -> int:
    """Return how many audits bound the share of wrong values at `max_error` if `wrong` of them are."""
    low, high = wrong, wrong + 1
    while not _is_bounded(wrong, high, max_error):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if _is_bounded(wrong, middle, max_error):
            high = middle
        else:
            low = middle
    return high


def min_confidence(audits: Sequence[AuditCount], max_error: float, start: float) -> float:
    """Return the confidence from which values are accepted without a look: the lowest that the audits prove.

    The confidences are tested in a fixed order, from `start` downwards, each on the audits from it upwards, until one
    is not proven. So the last one is right with a confidence of 95 %, though all are tested on the same audits (learn
    then test)."""
    proven = start
    for confidence in (start, *(one for one in _LOWER if one < start)):
        tested = [one for one in audits if one.confidence >= confidence]
        wrong = sum(one.wrong + (0 if one.is_covered else one.waiting) for one in tested)
        if not _is_bounded(wrong, wrong + sum(one.right for one in tested), max_error):
            break
        proven = confidence
    return proven


def often_corrected(looks: Mapping[str, tuple[int, int]], max_error: float) -> list[str]:
    """Return the fields whose values people correct more often than the goal allows, with a confidence of 95 %. `looks`
    are the numbers of checked and of corrected values by field."""
    return [
        field
        for field, (checked, corrected) in looks.items()
        if checked >= _FEWEST_LOOKS and (lower_bound(corrected, checked) or 0) > max_error
    ]


def _is_bounded(wrong: int, audited: int, max_error: float) -> bool:
    bound = upper_bound(wrong, audited)
    return bound is not None and bound <= max_error
