"""The offline model's rules for an extraction: labelled values, and corrections that name a field."""

from __future__ import annotations

import json
import re
from typing import Final

from fieldmark.agents.offline_rules import (
    NOTE,
    RuleTurn,
    changes,
    json_object,
    next_message,
    split_xml_pages,
    text_in_tag,
    values_by_path,
)
from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.offline_model.messages import Block, Body
from fieldmark.services.labelled_fields import Field, document_type, read_fields

_MOST_READS: Final = 100
_GOES_ON: Final = re.compile(r'^\[\w+ the document goes on: .*pages "(\d+-)"(?: and offset (\d+))?\]$', re.MULTILINE)
_XML_PAGE: Final = re.compile(r"^--- page \d+ of \d+, embedded XML ---$", re.MULTILINE)


def answer(body: Body) -> list[Block] | None:
    """Return the model's next message, or None for a request of another agent."""
    return next_message(body, {"extract_fields", "update_field"}, _answer_by_rules)


def _answer_by_rules(turn: RuleTurn) -> str:
    correction = text_in_tag(turn.task, "correction")
    return _extract(turn) if correction is None else _correct(turn, correction)


def _extract(turn: RuleTurn) -> str:
    printed, xml_text = _document(turn)
    schema = json.loads(text_in_tag(turn.task, "schema") or "null")
    limits = [paths.parse(str(as_object(one).get("path"))) for one in json.loads(turn.texts.get("fields", "[]"))]
    found = {
        paths.name(field.keys): field
        for field in read_fields(printed, schema) or read_fields(xml_text, schema)
        if not limits or any(field.keys[: len(one)] == one for one in limits)
    }
    kind: JsonObject = {} if limits else {"document_type": document_type(printed or xml_text)[0]}
    if not found and not limits:
        turn.call("identify_document", kind)
        return "No labelled value was found by rules."
    last = turn.call(*_save(turn, found, kind))
    if last.failed and last.tool == "extract_fields":
        refused = as_list(last.data.get("paths"))
        found = {path: field for path, field in found.items() if path not in refused}
        last = turn.call(*_save(turn, found, kind))
    if last.tool == "extract_fields" and not last.failed and "complete_extraction" not in last.data:
        last = turn.call(*_complete(_summary(turn, found)))
    if last.failed:
        return f"{last.tool} was refused: {last.answer[:300]}"
    if last.data.get("complete_extraction", "completed") != "completed":
        return f"The extraction is not complete. {last.answer.rpartition('Not completed: ')[2][:300]}"
    return "The extraction is complete."


def _document(turn: RuleTurn) -> tuple[str, str]:
    """Return the text of the printed pages, and that of the embedded e-invoice (XML)."""
    more = _GOES_ON.search(turn.task)
    rest: JsonObject = {} if more is None else {"pages": more[1]} | ({"offset": int(more[2])} if more[2] else {})
    shown = turn.texts.get("document", "")
    found = _XML_PAGE.search(shown)
    printed, xml_text = (shown, "") if found is None else (shown[: found.start()], shown[found.start() :])
    for _ in range(_MOST_READS):
        if not rest:
            break
        read = turn.call("get_document_text", rest)
        rest = {name: read.data[name] for name in ("pages", "offset") if name in read.data and read.code == "more"}
        seen, unseen = split_xml_pages(read)
        printed, xml_text = printed + seen, xml_text + unseen
    return printed, xml_text.replace(", embedded XML ---", " ---")


def _save(turn: RuleTurn, found: dict[str, Field], kind: JsonObject) -> tuple[str, JsonObject]:
    """Return the call that saves fields and completes the extraction."""
    if not found:
        return _complete(_summary(turn, found))
    nested: JsonObject = {}
    for field in found.values():
        inside = nested
        for key in field.keys[:-1]:
            inside = as_object(inside.setdefault(key, {}))
        inside[field.keys[-1]] = field.value
    return "extract_fields", {
        **kind,
        "fields": nested,
        "confidences": {path: field.confidence for path, field in found.items()},
        "evidence": {path: {"quote": field.quote, "page": field.page} for path, field in found.items()},
        **_complete(_summary(turn, found))[1],
    }


def _summary(turn: RuleTurn, found: dict[str, Field]) -> str:
    ignored = (
        "The instructions in words were not followed: rules cannot." if text_in_tag(turn.task, "instructions") else ""
    )
    return f"{len(found)} labelled values were found by rules. {ignored}"


def _complete(said: str) -> tuple[str, JsonObject]:
    return "complete_extraction", {"summary": f"{said.strip()} {NOTE}"}


def _correct(turn: RuleTurn, words: str) -> str:
    current = json_object(turn.texts.get("extraction", ""))
    wanted, said = changes(words, values_by_path(current.get("extracted_fields")))
    names = [str(arguments["path"]) for _, arguments in wanted]
    said += [
        f"Set {arguments['path']} to {json.dumps(arguments['value'], ensure_ascii=False)}."
        if tool == "update_field"
        else f"Removed {arguments['path']}."
        for tool, arguments in wanted
    ]
    end = [_complete(" ".join(said))] if wanted and current.get("status") == "completed" else []
    done = turn.calls([*wanted, *end]) if wanted else []
    changed = [one for one in done if one.tool != "complete_extraction"]
    # A value that another person set stays.
    kept = [
        f"{name} could not be changed: {one.answer[:300]}"
        for name, one in zip(names, changed, strict=False)
        if one.failed or one.code in ("not_stored", "not_removed")
    ]
    if kept:
        said = [*said[: len(said) - len(wanted)], *kept]
    if end and done[-1].failed:
        turn.call(*_complete(" ".join(said)))
    return " ".join(said)
