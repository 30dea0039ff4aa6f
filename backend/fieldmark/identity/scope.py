"""Who acts: a user within an organisation. Made once from the token; never from a body, a path or the model."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Scope:
    """The user and the organisation that every query of a request or a run is bound to."""

    user_id: UUID
    org_id: UUID
