"""The earlier turns of a conversation, as a message shows them: the last ones shortened, older ones in a line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.db.pool import Connection
from fieldmark.domain.formatting import cut_text
from fieldmark.domain.statuses import CallStatus, RunStatus
from fieldmark.stores import runs, threads, tool_calls
from fieldmark.stores.threads import TurnRow
from fieldmark.stores.tool_calls import PastCall

RECENT_TURNS: Final = 10
"""Turns that are shown with their changes: 20 messages."""
RECENT_CHARACTERS: Final = 16_000
OLDER_TURNS: Final = 30
OLDER_CHARACTERS: Final = 6_000
_WORDS: Final = 3_000
_WORDS_BEFORE: Final = 1_000
_MENTIONS: Final = 800
_CALLS: Final = 8
_CALL: Final = 400
_ASKED: Final = 120
_ANSWERED: Final = 120


async def history(conn: Connection, about: Conversation) -> str:
    """Return the turns before this run as JSON lines, oldest first. Empty without a thread and in its first turn."""
    if about.thread_id is None:
        return ""
    page = await threads.turns(conn, about.thread_id, limit=1 + RECENT_TURNS + OLDER_TURNS)
    before = [*dropwhile(lambda row: row.id != about.context.run_id, page.items)][1:]
    ids = [row.id for row in before]
    calls = await tool_calls.past_calls(conn, ids, _CALL)
    texts = await runs.texts_by_run(conn, [row.id for row in before[:RECENT_TURNS]])
    lines: list[str] = []
    room = RECENT_CHARACTERS
    for row in before[:RECENT_TURNS]:
        line = _json(_recent(row, texts.get(row.id, []), calls.get(row.id, [])))
        room -= len(line)
        if lines and room < 0:
            break
        lines.append(line)
    older = before[len(lines) :]
    room, shown = OLDER_CHARACTERS, 0
    for row in older:
        line = _json(_older(row, calls.get(row.id, [])))
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
        shown += 1
    if shown < len(older) or page.next is not None:
        lines.append(_json({"earlier": "Turns before these are not shown."}))
    return "\n".join(reversed(lines))


def _recent(row: TurnRow, texts: Sequence[str], calls: Sequence[PastCall]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"person": cut_text(_message(row), _WORDS)}
    if mentions := row.input.get("mentions"):
        entry["mentions"] = cut_text(_json(mentions), _MENTIONS)
    if calls:
        entry["calls"] = [f"{call.tool} {call.arguments} ({call.status}): {call.result}" for call in calls[-_CALLS:]]
    if row.answer is None:
        return entry | {"you": cut_text("\n".join(texts), _WORDS), **_ending(row)}
    if before := [text for text in texts if text.strip() != row.answer.strip()]:
        entry["said_while_working"] = cut_text("\n".join(before), _WORDS_BEFORE)
    return entry | {"you": cut_text(row.answer, _WORDS), **_ending(row)}


def _older(row: TurnRow, calls: Sequence[PastCall]) -> dict[str, JsonValue]:
    done: list[JsonValue] = [
        f"{call.tool} {cut_text(call.arguments, 60)}" for call in calls if call.status is CallStatus.DONE
    ]
    entry: dict[str, JsonValue] = {
        "asked": cut_text(_message(row), _ASKED),
        "answered": cut_text(row.answer or "", _ANSWERED),
    }
    if done:
        entry["changed"] = done[-_CALLS:]
    return entry | _ending(row)


def _ending(row: TurnRow) -> dict[str, JsonValue]:
    return (
        {} if row.status is RunStatus.COMPLETED else {"ended": f"{row.status}: {cut_text(row.error or '', _ANSWERED)}"}
    )


def _message(row: TurnRow) -> str:
    message = row.input.get("message")
    return message if isinstance(message, str) else ""


def _json(entry: JsonValue) -> str:
    return json.dumps(entry, ensure_ascii=False)
