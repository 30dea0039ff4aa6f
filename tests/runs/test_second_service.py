"""The service of the second model: an extraction waits for it, so it is retried less often than the first."""

from __future__ import annotations

import pytest

from fieldmark.runs.engine.options import RETRIES, ModelService
from fieldmark.settings import Settings
from fieldmark.worker.jobs import second_service


@pytest.mark.parametrize("own", [{}, {"second_base_url": "https://model.example", "second_api_key": "other"}])
def test_second_service_is_retried_for_seconds_only(own: dict[str, str]) -> None:
    settings = Settings.model_validate({"anthropic_api_key": "key", "second_model": "other", **own})
    second = second_service(settings, ModelService(None, "key", None))
    assert second is not None and (second.base_url is None) == (not own)
    assert sum(0.5 * 2**retry for retry in range(second.retries)) < 5 and second.retries < RETRIES
