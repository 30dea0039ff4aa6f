"""The user and organisation of a request, taken from its token and never from a body, a path or the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Scope:
    """The user and organisation that all queries of a request or run are limited to. `deadline` is when
    the token or API key expires, by `time.monotonic()`: long-lived requests such as event streams check it."""

    user_id: UUID
    org_id: UUID
    deadline: float | None = field(default=None, compare=False)
