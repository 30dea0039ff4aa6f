"""Who acts: a user within an organisation. Made once from the token; never from a body, a path or the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Scope:
    """The user and the organisation that every query of a request or a run is bound to. `expires_at`: when the
    request's token or key expires, for what goes on longer than its first query."""

    user_id: UUID
    org_id: UUID
    expires_at: datetime | None = field(default=None, compare=False)
