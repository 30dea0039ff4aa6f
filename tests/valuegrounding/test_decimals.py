from __future__ import annotations

from typing import Any

import pytest

from valuegrounding.decimals import canonical_decimal


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (1250, "1250"),
        ("01250.50", "1250.5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
        (1e-7, "0.0000001"),
        (10**39 + 1, "1" + "0" * 38 + "1"),
        (1e300, None),
        (float("nan"), None),
        ("12,50", None),
    ],
)
def test_number_has_one_canonical_text(value: Any, canonical: str | None) -> None:
    assert canonical_decimal(value) == canonical
