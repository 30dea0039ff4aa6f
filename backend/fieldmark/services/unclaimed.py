"""What a document prints and no field claims, so that a person sees what was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fieldmark.db.pool import Database
from fieldmark.grounding import Unclaimed
from fieldmark.identity.scope import Scope
from fieldmark.services import evidence
from fieldmark.stores.rows import ExtractionRow

MOST_TOLD: Final = 1000


@dataclass(frozen=True, slots=True)
class UnclaimedPart:
    """Whole pages of what no field claims, at most MOST_TOLD `items`; of a page that alone has more, its first ones.
    `counts` has every page that has any: (page, how many). `next` is the page from which on others follow, None at the
    end."""

    items: Sequence[Unclaimed]
    counts: Sequence[tuple[int, int]]
    next: int | None


async def unclaimed(database: Database, scope: Scope, row: ExtractionRow, since_page: int) -> UnclaimedPart:
    """The numbers, dates and names of an extraction's document that no field claims, from a page on. Opens a
    transaction of its own."""
    found = await evidence.unclaimed(database, scope, row.document_id, dict(row.extracted_fields), row.evidence)
    counts = Counter(one.page for one in found)  # in the order of the pages
    told: set[int] = set()
    left, following = MOST_TOLD, None
    for page, count in counts.items():
        if page < since_page:
            continue
        if told and count > left:
            following = page
            break
        told.add(page)
        left -= count
    items = [one for one in found if one.page in told][:MOST_TOLD]
    return UnclaimedPart(items, list(counts.items()), following)
