"""The offline model's rules for a conversation about a document: create a schema, extract, set a field, tag, answer
from a field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.offline_rules import (
    CHANGES_HELP,
    FinishedCall,
    RuleTurn,
    changes,
    json_object,
    leaf_paths,
    match_paths,
    next_message,
    split_xml_pages,
    values_by_path,
)
from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.names import name_problem
from fieldmark.offline_model.messages import Block, Body
from fieldmark.services.labelled_fields import Field, document_type, read_fields

HELP: Final = (
    'I understand "make a schema of this document", "extract", "what is the due date?", "tag it paid" and changes. '
    + CHANGES_HELP
)
_MOST_LINES: Final = 40
_UNKNOWN_KIND: Final = "document"
_HEAD: Final = 1000
_HEADING: Final = re.compile(r"[^\W\d_]{3,30}(?: [^\W\d_]{2,30}){0,3}")
_MAX_NUMBER: Final = 20
_CONTENT: Final = "Read the fields of the schema as they are printed."


def answer(body: Body) -> list[Block] | None:
    """Return the model's next message, or None for a request of another agent."""
    return next_message(body, {"create_schema", "run_extraction"}, _answer_by_rules)


def _answer_by_rules(turn: RuleTurn) -> str:
    if turn.message is None:
        return _propose(turn)
    said = " ".join(turn.message[:2000].split()).strip(" .!")
    for pattern, rule in _RULES:
        if found := pattern.fullmatch(said):
            return rule(turn, found["what"])
    return HELP


def _make_schema(turn: RuleTurn, _: str) -> str:
    text = _document(turn)
    fields = read_fields(text)
    if not fields:
        return "I found no labelled values in this document, so I know no schema for it."
    why = "I propose a schema of the labelled values that I found."
    made = _create(turn, "create_schema", _name_for(text), {"schema": _infer_schema(fields)}, why)
    if made.failed:
        return _not_done("The schema was not made", made)
    return f'The schema "{made.data.get("name")}" is made. Say "extract" to read the document with it.'


def _extract(turn: RuleTurn, _: str = "") -> str:
    read = turn.call("run_extraction", why="I have the document extracted." if turn.message else "")
    if read.failed:
        return _not_done("The document was not extracted", read)
    if read.code == "not_completed":
        return _not_done("The extraction was not completed", read)
    places, pages = values_by_path(read.data.get("fields")), as_object(read.data.get("pages"))
    lines = [
        f"- {(name := paths.name(keys))}: {_to_json(places[keys])}"
        + (f" (page {pages[name]})" if name in pages else "")
        for keys in leaf_paths(places)[:_MOST_LINES]
    ]
    return "\n".join(["The document is extracted:", *lines, ""])


def _tag(turn: RuleTurn, name: str) -> str:
    name, add = name.strip("\"' "), "update_document"
    changed = turn.call(add, {"add_tags": [name]}, "I put the tag on the document.")
    if changed.code == "no_such_tag":
        made = turn.call("create_tag", {"name": name}, "There is no such tag yet, so I make it first.")
        if made.failed:
            return _not_done("The tag was not made", made)
        changed = turn.call(add, {"add_tags": [name]}, "Now I put the tag on the document.")
    return _not_done("The document was not tagged", changed) if changed.failed else f"The document is tagged {name!r}."


def _answer(turn: RuleTurn, named: str) -> str:
    """Answer with the extracted value of a field, or else with the value printed beside a label."""
    read = turn.call("get_extraction_result")
    places = {} if read.failed else values_by_path(read.data.get("fields"))
    if found := match_paths(named, leaf_paths(places)):
        return " ".join(f"{paths.name(keys)} is {_to_json(places[keys])}." for keys in found[:5])
    fields: dict[paths.Path, Field] = {one.keys: one for one in read_fields(_document(turn))}
    if found := match_paths(named, [*fields]):
        return " ".join(
            f'{paths.name(keys)} is {_to_json(fields[keys].value)}: "{fields[keys].quote}".' for keys in found
        )
    return f'I find no "{named}" in the document. {HELP}'


def _change(turn: RuleTurn, words: str) -> str:
    read = turn.call("get_extraction_result")
    if read.failed:
        return _not_done("Nothing was changed", read)
    wanted, sentences = changes(words, values_by_path(read.data.get("fields")))
    for tool, arguments in wanted:
        path, value = str(arguments["path"]), arguments.get("value")
        if tool != "update_field":
            sentences.append(f"I cannot remove {path} here: correct the extraction instead.")
            continue
        why = f"I set {path} to {_to_json(value)}."
        changed = turn.call("update_extraction_field", {"path": path, "value": value}, why)
        kept = changed.failed or changed.code == "not_stored"  # a value that a person set stays
        sentences.append(
            _not_done(f"{path} could not be changed", changed) if kept else f"{path} is {_to_json(value)} now."
        )
    return " ".join(sentences)


def _propose(turn: RuleTurn) -> str:
    """Propose a schema, a prompt and an extraction. A document that matches an earlier one is only extracted."""
    if json_object(turn.texts.get("working state", "{}")).get("schema_revid") is None:
        text = _document(turn)
        fields = read_fields(text)
        if not fields:
            return "I found no labelled values in this document, so I propose nothing."
        name = _name_for(text)
        made = _create(turn, "create_schema", name, {"schema": _infer_schema(fields)}, "")
        if not made.failed:
            made = _create(turn, "create_prompt", name, {"content": _CONTENT}, "")
        if made.failed:
            return _not_done("Nothing could be proposed", made)
    return _extract(turn)


def _create(turn: RuleTurn, tool: str, name: str, arguments: JsonObject, why: str) -> FinishedCall:
    """Create something under a name. If the name is taken, try numbered names."""
    made = turn.call(tool, {"name": name, **arguments}, why)
    for ending in range(2, _MAX_NUMBER):
        if made.code != "name_taken":
            break
        made = turn.call(tool, {"name": f"{name} {ending}", **arguments}, why)
    return made


def _document(turn: RuleTurn) -> str:
    """Return the document's text, as far as one read returns it."""
    shown = turn.texts.get("excerpt", "")
    if shown.strip() and "the document goes on" not in turn.task:
        return shown
    read = turn.call("get_ocr_text")
    return shown if read.failed else split_xml_pages(read)[0]


def _not_done(what: str, refused: FinishedCall) -> str:
    return f"{what}. {' '.join(refused.answer.split())[:300]}"


def _to_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _name_for(text: str) -> str:
    """Return the kind of a document, or else the first of its lines that reads as a heading."""
    kind = document_type(text)[0]
    lines = [" ".join(line.split()) for line in text[:_HEAD].splitlines()]
    heading = next((one for one in lines if _HEADING.fullmatch(one)), None) if kind == _UNKNOWN_KIND else None
    name = (heading or kind.replace("_", " ")).capitalize()
    return name if name_problem(name) is None else "Document"


def _infer_schema(fields: Iterable[Field]) -> JsonObject:
    root: JsonObject = {"type": "object", "properties": {}}
    for one in fields:
        inside = root
        for key in one.keys[:-1]:
            inside = as_object(as_object(inside["properties"]).setdefault(key, {"type": "object", "properties": {}}))
            if "properties" not in inside:  # a value and an object of one name: the value was first
                break
        else:
            as_object(inside["properties"]).setdefault(one.keys[-1], _infer_type(one.value))
    return root


def _infer_type(value: JsonValue) -> JsonObject:
    if isinstance(value, str):
        is_day = re.fullmatch(r"\d{4}-\d\d-\d\d", value)
        return {"type": "string", "format": "date"} if is_day else {"type": "string"}
    return {"type": "boolean" if isinstance(value, bool) else "number"}


_RULES: Final[list[tuple[re.Pattern[str], Callable[[RuleTurn, str], str]]]] = [
    (re.compile(pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (
            r"(?:please )?(?P<what>make|create|propose)(?: me)?(?: an?| the)?(?: new)?(?: json)? schema\b.*",
            _make_schema,
        ),
        (r"(?:please )?(?:re-?)?(?P<what>extract)\b.*", _extract),
        (r"(?:please )?tag (?:it |(?:this |the )?document )?(?:as |with )?(?P<what>.+)", _tag),
        (r"(?:what|which|who|when|how much) (?:is|are|was|were) (?:the |its )?(?P<what>[^?]{1,80})\??", _answer),
        (r"(?P<what>(?!help|hello).*(?:\bset\b|\bchange\b|\bis\b|\bto\b|\bremove\b|=|:).*)", _change),
    )
]
