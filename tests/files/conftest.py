from __future__ import annotations

import pytest

from object_server import KEY_ID, SECRET


@pytest.fixture
def storage_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of an object storage in the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
