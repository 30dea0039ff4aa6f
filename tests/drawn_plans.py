"""Draws examples of a Hypothesis strategy as an iterator, always the same ones for a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
from hypothesis import strategies as st


def draw_plans(strategy: st.SearchStrategy[Any], number: int, seed: int) -> Iterator[Any]:
    """Yield `number` examples, drawn a hundred at a time."""
    for part in range(-(-number // 100)):
        plans: list[Any] = []

        @hypothesis.seed(seed * 1_000_003 + part)
        @hypothesis.settings(
            max_examples=min(100, number - 100 * part),
            database=None,
            derandomize=False,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(strategy)
        def generate(plan: Any) -> None:
            plans.append(plan)  # noqa: B023  called before the next round

        generate()
        yield from plans
