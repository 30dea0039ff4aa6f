"""The offline model's rules for an extraction: labelled values, and corrections that name a field."""

from __future__ import annotations

import json
import re

from fieldmark.agents.offline_rules import (
    NOTE,
    Done,
    changes,
    conversation,
    foreign,
    is_open,
    places_of,
    printed,
    tagged,
)
from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.grounding.labelled_fields import document_type, read_fields
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text, thinking

_OWN = {"get_document_text", "extract_fields", "get_current_extraction", "update_field", "remove_field"}
_PAGES = re.compile(r"\d{1,6}-\d{0,6}")


def answer(body: Body) -> list[Block] | None:
    """Return the next turn, or None for a request of another agent's. It makes one call at most if the task's message
    holds no document, or if it is asked to."""
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    if offered and not offered & _OWN:
        return None
    task, done = conversation(body, lambda words, _: "<correction>" in words)
    given, task = foreign(task)
    several = bool(given) and not as_object(body.get("tool_choice")).get("disable_parallel_tool_use")
    words = tagged(task, "correction")
    if words is not None and {"get_current_extraction", "update_field", "remove_field"} <= offered:
        return _correct(words, done, given.get("extraction"), offered, several)
    if words is None and {"get_document_text", "extract_fields"} <= offered:
        return _extract(task, done, offered, given, several)
    return [text(f"{NOTE} It can extract labelled fields and follow simple corrections, and nothing else.")]


def _extract(task: str, done: list[Done], offered: set[str], given: dict[str, str], several: bool) -> list[Block]:
    read = [one for one in done if one.tool == "get_document_text" and not one.failed]
    reads = [text for text in (given.get("document", ""), *(one.answer for one in read)) if text.strip()]
    seen = [text for text in (given.get("printed", ""), *map(printed, read)) if text.strip()]
    ask = _rest(read[-1]) if read else json.loads(given.get("rest", "{}"))
    thought = [] if done else [thinking("I look for lines that name a value.")]
    if (ask or not reads) and is_open(done, "get_document_text", ask):
        return [*thought, call("get_document_text", ask)]
    made = {one.tool for one in done if not one.failed}
    refused = {one.tool: f"{one.tool} was refused: {one.answer[:300]}" for one in done if one.tool not in made}
    if not reads:
        return [text(f"{NOTE} The document's text could not be read: {' '.join(refused.values())}")]
    steps: list[Block] = []
    only = [paths.parse(str(as_object(one).get("path"))) for one in json.loads(given.get("fields", "[]"))]
    if "identify_document" in offered and not only and is_open(done, "identify_document"):
        name, sure = document_type("\n".join(seen) or "\n".join(reads))
        steps.append(
            call("identify_document", {"document_type": name, "confidence": sure, "reason": "by its key words"})
        )
    schema = json.loads(tagged(task, "schema") or "null")
    fields = read_fields("\n".join(seen), schema) or read_fields("\n".join(reads), schema)
    # The second try leaves out what the refusal names.
    refusals = [one.data.get("paths") for one in done if one.tool == "extract_fields" and one.failed]
    named = {path for listed in refusals for path in as_list(listed) if isinstance(path, str)}
    found = {path: field for field in fields if (path := paths.name(field.keys)) not in named}
    if only:
        found = {path: field for path, field in found.items() if any(field.keys[: len(one)] == one for one in only)}
    if found and is_open(done, "extract_fields"):
        nested: JsonObject = {}
        for field in found.values():
            inside = nested
            for key in field.keys[:-1]:
                inside = as_object(inside.setdefault(key, {}))
            inside[field.keys[-1]] = field.value
        sure = {path: field.confidence for path, field in found.items()}
        quotes = {path: {"quote": field.quote, "page": field.page} for path, field in found.items()}
        steps.append(call("extract_fields", {"fields": nested, "confidences": sure, "evidence": quotes}))
        count = len(sure)
    else:
        saved = [one.arguments for one in done if one.tool == "extract_fields" and not one.failed]
        count = sum(len(as_object(one.get("confidences"))) for one in saved)
    said = f"{count} labelled values were found by rules."
    ignored = ["The instructions in words were not followed: rules cannot."] if tagged(task, "instructions") else []
    if "complete_extraction" in offered and is_open(done, "complete_extraction"):
        steps.append(call("complete_extraction", {"summary": " ".join([NOTE, said, *ignored])}))
    if steps:
        return [*thought, *(steps if several else steps[:1])]
    return [text(" ".join([NOTE, said, *ignored, *refused.values()]))]


def _rest(read: Done) -> JsonObject:
    """The arguments that read on where a reading was cut; none where it was not."""
    pages, offset = read.data.get("pages"), read.data.get("offset")
    if read.code != "more" or not isinstance(pages, str) or not _PAGES.fullmatch(pages):
        return {}
    begun = isinstance(offset, int) and 0 < offset < 10**9
    return {"pages": pages, "offset": offset} if begun else {"pages": pages}


def _correct(words: str, done: list[Done], given: str | None, offered: set[str], several: bool) -> list[Block]:
    if given is None and is_open(done, "get_current_extraction"):
        return [thinking("I look at what stands there now."), call("get_current_extraction")]
    current = [one.answer for one in done if one.tool == "get_current_extraction" and not one.failed]
    current = current if given is None else [given]
    try:
        standing = json.loads(current[0])
        places = places_of(standing["extracted_fields"], ())
    except (IndexError, ValueError, KeyError, TypeError):
        return [text(f"{NOTE} The extraction could not be read, so nothing was changed. {done[-1].answer[:300]}")]
    wanted, said = changes(words, places)
    steps: list[Block] = []
    for tool, arguments in wanted:
        path, value = arguments["path"], json.dumps(arguments.get("value"), ensure_ascii=False)
        made = [one for one in done if (one.tool, one.arguments) == (tool, arguments)]
        changed = f"Set {path} to {value}." if tool == "update_field" else f"Removed {path}."
        if is_open(made, tool):
            steps.append(call(tool, arguments))
            said.append(changed)
            continue
        # A value that another person set stays.
        kept = made[-1].failed or made[-1].code in ("not_stored", "not_removed")
        said.append(f"{path} could not be changed: {made[-1].answer[:300]}" if kept else changed)
    if steps and not several:
        return steps[:1]
    was_whole = any(one.data.get("reopened") for one in done) or (given and standing.get("status") == "completed")
    if wanted and was_whole and "complete_extraction" in offered and is_open(done, "complete_extraction"):
        steps.append(call("complete_extraction", {"summary": " ".join([*said, NOTE])}))
    if steps:
        return steps
    return [text(" ".join([*said, NOTE]))]
