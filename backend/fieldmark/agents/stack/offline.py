"""The offline model's rules for a table: columns from labelled values, rows by other runs, and simple changes."""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.offline_rules import RuleTurn, json_object, next_message
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.offline_model.messages import Block, Body
from fieldmark.services.labelled_fields import fields_named, parse_amount, read_fields
from fieldmark.services.suggested_columns import SAMPLES, suggest_columns
from valuegrounding.folding import fold_alphanumeric

HELP: Final = 'I understand "drop the column X", "add the column X" and "set X of FILE to VALUE".'
_MAX_COLUMNS: Final = 20
_MAX_CALLS: Final = 200
_DROP: Final = re.compile(r"(?:please )?(?:drop|remove|delete) (?:the )?(?:column )?(?P<name>.+?)(?: column)?", re.I)
_ADD: Final = re.compile(
    r"(?:please )?add (?:the |an? )?(?:column )?(?P<name>.+?)(?: column)?(?: (?:of type|as an?) (?P<type>\w+))?", re.I
)
_SET: Final = re.compile(r"(?:please )?set (?:the )?(?P<name>.{1,200}?) of (?P<file>.{1,300}?) to (?P<value>.+)", re.I)
_KINDS: Final = {"amount": "number", "date": "date", "sign": "currency"}


def answer(body: Body) -> list[Block] | None:
    """Return the model's next message, or None for a request of another agent."""
    return next_message(body, {"define_columns", "extract_row"}, _answer_by_rules)


def _answer_by_rules(turn: RuleTurn) -> str:
    table = json_object(turn.texts.get("table", ""))
    return _fill(turn, table) if turn.message is None else _correct(turn, table, turn.message)


def _fill(turn: RuleTurn, table: JsonObject) -> str:
    if not as_list(table.get("columns")):
        columns = _propose(turn, as_list(table.get("documents")))
        if not columns:
            return "No labelled value was found in the first documents, so I know no columns."
        defined = turn.call("define_columns", {"columns": columns}, "These labels occur in the first documents.")
        if defined.failed:
            return f"The columns were not set: {defined.answer[:300]}"
    return _read_all(turn, "The table is filled.")


def _read_all(turn: RuleTurn, done: str) -> str:
    for _ in range(_MAX_CALLS):
        read = turn.call("extract_row")
        if read.failed:
            return f"The documents were not read: {read.answer[:300]}"
        if read.code == "nothing_to_read" or not read.data.get("left"):
            break
    ended = turn.call("complete_table", {"summary": done})
    return f"The table is not complete: {ended.answer[:300]}" if ended.failed else done


def _propose(turn: RuleTurn, documents: list[JsonValue]) -> list[JsonValue]:
    """Return columns for the labelled values of the first documents: those that at least two have, if any."""
    readable = [one for one in map(as_object, documents) if one.get("state") not in ("failed", "duplicate")]
    texts = [
        read.answer
        for one in readable[:SAMPLES]
        if not (read := turn.call("get_document_text", {"document_id": str(one.get("document_id"))})).failed
    ]
    columns = suggest_columns([read_fields(text) for text in texts], "document", _MAX_COLUMNS)
    return [{"name": one.name, "type": one.type} for one in columns]


def _correct(turn: RuleTurn, table: JsonObject, words: str) -> str:
    said = " ".join(words[:2000].split()).strip(" .!")
    columns = [as_object(one) for one in as_list(table.get("columns"))]
    if change := _SET.fullmatch(said):
        return _set(turn, columns, change)
    if drop := _DROP.fullmatch(said):
        kept = [one for one in columns if one != _column(columns, drop["name"])]
        if len(kept) == len(columns) or not kept:
            return f"I find no column {drop['name']!r} to drop. {HELP}"
        return _redefine(turn, kept, f"The column {drop['name']} is dropped.")
    if add := _ADD.fullmatch(said):
        kinds = [*fields_named(add["name"]).values()]
        kind = (add["type"] or "").lower() or (_KINDS.get(kinds[0], "text") if kinds else "text")
        name = "_".join(re.findall(r"\w+", add["name"].lower()))
        return _redefine(turn, [*columns, {"name": name, "type": kind}], f"The column {name} is added.")
    return HELP


def _redefine(turn: RuleTurn, columns: list[JsonObject], done: str) -> str:
    defined = turn.call("define_columns", {"columns": [*columns]})
    return f"The columns were not changed: {defined.answer[:300]}" if defined.failed else _read_all(turn, done)


def _set(turn: RuleTurn, columns: list[JsonObject], change: re.Match[str]) -> str:
    column = _column(columns, change["name"])
    if column is None:
        return f"I find no column {change['name']!r} in the table. {HELP}"
    name = change["file"].strip("\"' ")
    rows = _documents_named(turn, name)
    if len(rows) != 1:
        return f"{len(rows) or 'No'} documents of the table are named {name!r}, so nothing was changed. {HELP}"
    (row,) = rows
    value: JsonValue = change["value"].strip("\"' ")
    if column.get("type") == "number" and (number := parse_amount(str(value))) is not None:
        value = number
    arguments: JsonObject = {"document_id": row["document_id"], "column": column["name"], "value": value}
    done = turn.call("update_cell", arguments)
    if done.failed or done.code == "not_stored":
        return f"The value was not set: {done.answer[:300]}"
    return f"{column['name']} of {row['filename']} is {value}."


def _documents_named(turn: RuleTurn, name: str) -> list[JsonObject]:
    """Return the documents with this filename. A copy, which has no row, is left out if its original has this name."""
    found: list[JsonObject] = []
    offset: JsonValue = 0
    for _ in range(_MAX_CALLS):
        listed = turn.call("list_documents", {"name_search": name, "offset": offset})
        documents = [as_object(one) for one in as_list(listed.data.get("documents"))]
        found += [one for one in documents if str(one.get("filename")).casefold() == name.casefold()]
        if listed.code != "more":
            break
        offset = listed.data.get("offset")
    return [one for one in found if one.get("state") != "duplicate"] or found


def _column(columns: list[JsonObject], name: str) -> JsonObject | None:
    return next((one for one in columns if fold_alphanumeric(str(one.get("name"))) == fold_alphanumeric(name)), None)
