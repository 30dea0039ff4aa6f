"""The offline model by rules: from the conversation so far to its next turn. It is no language model, and says so.

The document's text is only ever searched for labels and values, never read as something to do. Every call is tried at
most twice, so a conversation always ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from fieldmark.domain import paths
from fieldmark.errors import InvalidPath
from fieldmark.offline_model.fields import Field, read_fields
from fieldmark.offline_model.labels import Habits, document_type, plain, vocabulary
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text, thinking

NOTE = "This is Fieldmark's offline model: fixed rules, no language model."
_FORMS = (
    'I understand "set vendor.name to Acme", "the total is 12.50", "change the due date to 2024-05-01" and "remove X".'
)

Keys = paths.Path


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made, with its answer."""

    tool: str
    arguments: dict[str, Any]
    answer: str
    failed: bool


def answer(body: Body) -> list[Block]:
    """The next turn: thinking, one tool call at most, or the closing words."""
    task, done = _conversation(body)
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    words = _tagged(task, "correction")
    if words is not None and {"get_current_extraction", "update_field", "remove_field"} <= offered:
        return _correct(words, done)
    if words is None and {"get_document_text", "extract_fields"} <= offered:
        return _extract(task, done, offered)
    return [
        text(f"{NOTE} It can extract a document's labelled fields and follow simple corrections, and nothing else.")
    ]


def _conversation(body: Body) -> tuple[str, list[Done]]:
    """The task (the first words of the user, or the last correction) and the calls made since, in order."""
    task, done, calls = "", list[Done](), dict[str, dict[str, Any]]()
    for message in items(body, "messages"):
        blocks = items(message, "content") or [{"type": "text", "text": message.get("content")}]
        words = "\n".join(_words(block) for block in blocks if block.get("type") == "text")
        if message.get("role") == "user" and words and (not task or "<correction>" in words):
            task, done = words, []
        calls |= {str(block.get("id")): block for block in blocks if block.get("type") == "tool_use"}
        for block in blocks:
            if block.get("type") == "tool_result" and (made := calls.get(str(block.get("tool_use_id")))):
                arguments = made.get("input")
                said = "\n".join(_words(part) for part in items(block, "content")) or str(block.get("content"))
                done.append(Done(bare(str(made.get("name"))), dict(arguments or {}), said, bool(block.get("is_error"))))
    return task, done


def _words(block: dict[str, Any]) -> str:
    words = block.get("text")
    return words if isinstance(words, str) and not words.startswith("<system-reminder>") else ""


def _tagged(task: str, tag: str) -> str | None:
    start, end = task.find(f"<{tag}>"), task.rfind(f"</{tag}>")
    return task[start + len(tag) + 2 : end] if 0 <= start < end else None


def _open(done: list[Done], tool: str, arguments: dict[str, Any] | None = None) -> bool:
    tries = [one for one in done if one.tool == tool and arguments in (None, one.arguments)]
    return len(tries) < 2 and all(one.failed for one in tries)


def _extract(task: str, done: list[Done], offered: set[str]) -> list[Block]:
    reads = [one for one in done if one.tool == "get_document_text" and not one.failed]
    more = _more(reads)
    if more is not None and _open(done, "get_document_text", more):
        opening = thinking("I read the document's text, then look for lines that name a value.") if not done else None
        return [*([opening] if opening else []), call("get_document_text", more)]
    if not reads:
        return [text(f"{NOTE} The document's text could not be read: {_why(done)}")]
    document = "\n".join(read.answer for read in reads)
    if "identify_document" in offered and _open(done, "identify_document"):
        name, sure = document_type(document)
        return [call("identify_document", {"document_type": name, "confidence": sure, "reason": "by its key words"})]
    if _open(done, "extract_fields"):
        objection = next((one.answer for one in done if one.tool == "extract_fields"), None)
        found = read_fields(document, _schema(task))
        if objection is not None:
            found = [field for field in found if paths.name(field.keys) not in objection]
        if found:
            return [call("extract_fields", _found(found, evidence=objection is None))]
    saved = next((one.arguments for one in done if one.tool == "extract_fields" and not one.failed), dict[str, Any]())
    count = f"{len(saved.get('confidences', {}))} labelled values were found by rules."
    if "complete_extraction" in offered and _open(done, "complete_extraction"):
        return [call("complete_extraction", {"summary": count})]
    closing = [NOTE, count]
    if _tagged(task, "instructions"):
        closing.append("The instructions in words were not followed: rules cannot.")
    refused = {one.tool: one.answer for one in done if one.failed}
    never = refused.keys() - {one.tool for one in done if not one.failed}
    closing += [f"{tool} was refused: {why[:300]}" for tool, why in refused.items() if tool in never]
    return [text(" ".join(closing))]


def _why(done: list[Done]) -> str:
    return done[-1].answer[:300] if done else ""


def _more(reads: list[Done]) -> dict[str, Any] | None:
    """What to ask `get_document_text` for next: nothing after the last page, and never what was read before."""
    if not reads:
        return {}
    last = reads[-1].answer.rstrip().rpartition("\n")[2]
    said = re.search(r'\[more: .{0,60}pages "(\d{1,6})-(\d{0,6})"(?: and offset (\d{1,9}))?\]$', last[-200:])
    asked = reads[-1].arguments
    before = re.match(r"\d+", str(asked.get("pages") or 1))
    place = (int(before[0]) if before else 1, int(asked.get("offset") or 0))
    if not said or (int(said[1]), int(said[3] or 0)) <= place:
        return None
    return {"pages": f"{said[1]}-{said[2]}"} | ({"offset": int(said[3])} if said[3] else {})


def _schema(task: str) -> dict[str, Any] | None:
    try:
        schema = json.loads(_tagged(task, "schema") or "null")
    except ValueError:
        return None
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else None


def _found(found: list[Field], *, evidence: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in found:
        inside = fields
        for key in field.keys[:-1]:
            inside = inside.setdefault(key, {})
        inside[field.keys[-1]] = field.value
    arguments: dict[str, Any] = {"fields": fields, "confidences": {paths.name(f.keys): f.confidence for f in found}}
    quotes = {paths.name(field.keys): {"quote": field.quote, "page": field.page} for field in found}
    return arguments | ({"evidence": quotes} if evidence else {})


# Corrections


@dataclass(frozen=True, slots=True)
class Change:
    tool: str
    arguments: dict[str, Any]


_VERB = r"(?:set|add|change|update|correct|fix|make|remove|delete|drop|clear)\b"
_IS = r"(?: (?:is|should be|should read|must be|to)|:| =) "
_BREAK = re.compile(
    rf"(?:[.;!]|,? and|,? then|,) (?=(?:please |also )?{_VERB}|the [\w.\[\] ]{{1,40}}?{_IS})", re.IGNORECASE
)
_REMOVE = re.compile(r"(?:please |also )*(?:remove|delete|drop|clear) (.+)", re.IGNORECASE)
_SET = re.compile(
    r"(?:please |also )*(set|add|change|update|correct|fix|make) (.{1,80}?)(?: from .{1,80}?)?"
    r"(?: to| into| as|:| ?=) (.+)",
    re.IGNORECASE,
)
_STATE = re.compile(rf"()(.{{1,60}}?){_IS}(?!wrong|incorrect|missing|not )(.+)", re.IGNORECASE)
_ABBREVIATED = re.compile(r"(?:\b(?:ltd|inc|co|corp|llc|bros|no|st|dr|mr|ms)|\.\w{1,3})\.$", re.IGNORECASE)


def _correct(words: str, done: list[Done]) -> list[Block]:
    if _open(done, "get_current_extraction"):
        return [
            thinking("I look at what stands there now, then change what was named."),
            call("get_current_extraction"),
        ]
    current = next((one for one in done if one.tool == "get_current_extraction" and not one.failed), None)
    try:
        extraction = json.loads(current.answer)["extracted_fields"] if current else None
    except (ValueError, KeyError, TypeError):
        extraction = None
    if not isinstance(extraction, dict):
        return [text(f"{NOTE} The extraction could not be read, so nothing was changed. {_why(done)}")]
    changes, said = _changes(words, cast("dict[str, Any]", extraction))
    made = iter([one for one in done if one.tool in ("update_field", "remove_field")])
    for change in changes:
        outcome = next(made, None)
        if outcome and outcome.failed:
            outcome = next(made, None)  # the second try
        if outcome is None:
            return [call(change.tool, change.arguments)]
        path, value = change.arguments["path"], json.dumps(change.arguments.get("value"), ensure_ascii=False)
        if outcome.failed:
            said.append(f"{path} could not be changed: {outcome.answer[:300]}")
        else:
            said.append(f"Set {path} to {value}." if change.tool == "update_field" else f"Removed {path}.")
    return [text(" ".join([*said, NOTE]))]


def _changes(words: str, extraction: dict[str, Any]) -> tuple[list[Change], list[str]]:
    """The changes asked for, removals last and from the end so that no index moves; and what is not clear."""
    quoted: list[str] = []

    def hide(found: re.Match[str]) -> str:
        quoted.append(found[1] if found[2] is None else found[2])
        return f"\ue000{len(quoted) - 1}\ue001"

    places = list(_places(extraction, ()))
    updates, removals, unclear = list[Change](), dict[Keys, Change](), list[str]()
    words = re.sub("[\ue000\ue001]", "", words[:4000])  # what stands for a quoted text from here on
    flat = " ".join(re.sub(r'"([^"]*)"|“([^”]*)”', hide, words).replace("\n", " ; ").split()).strip(" ;")
    for clause in _BREAK.split(flat):
        removal, setting = _REMOVE.fullmatch(clause), _SET.fullmatch(clause) or _STATE.fullmatch(clause)
        targets = [removal[1].rstrip(".!")] if removal else [setting[2]] if setting else []
        if removal and not _resolve(_shown(targets[0], quoted), places, leaves=False):
            targets = re.split(r", and |, | and ", targets[0])
        for target in targets:
            named = _shown(target, quoted)
            keys = _resolve(named, places, leaves=not removal)
            if not keys and setting:
                keys = _new(named, create=setting[1].lower() in ("set", "add"))
            if len(keys) != 1:
                options = f" It could be {', '.join(paths.name(one) for one in keys[:5])}." if keys else ""
                unclear.append(f'I do not know which field "{named}" is.{options}')
            elif setting:
                old = next((value for place, value in places if place == keys[0]), None)
                value = _typed(setting[3], quoted, old, _spaced(_bare_name(named)))
                if value is None:
                    unclear.append(f'"{_shown(setting[3], quoted)}" is no number, as {paths.name(keys[0])} is.')
                else:
                    updates.append(
                        Change("update_field", {"path": paths.name(keys[0]), "value": value, "confidence": 1.0})
                    )
            else:
                removals[keys[0]] = Change(
                    "remove_field", {"path": paths.name(keys[0]), "reason": "the user asked for it"}
                )
        if not targets:
            unclear.append(f'I did not understand "{_shown(clause, quoted)[:100]}". {_FORMS}')
    order = sorted(
        removals, key=lambda keys: [f"{key:09}" if isinstance(key, int) else key for key in keys], reverse=True
    )
    return updates + [removals[keys] for keys in order], unclear


def _shown(words: str, quoted: list[str]) -> str:
    # A key in brackets keeps its quotes, as a path is written; other quotes only held the words together.
    return re.sub(
        r"(\[?)\ue000(\d+)\ue001", lambda at: f'["{quoted[int(at[2])]}"' if at[1] else quoted[int(at[2])], words
    )


def _places(value: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[str | int, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    for key, item in inner:
        yield (*keys, key), item
        yield from _places(item, (*keys, key))


def _resolve(named: str, places: list[tuple[Keys, Any]], *, leaves: bool) -> list[Keys]:
    """The places that the words can mean: as a path, as its words, as its last word, as another word for the same."""
    named = _bare_name(named)
    among = [keys for keys, value in places if not (leaves and isinstance(value, dict | list))]
    words = _spaced(named)
    meant = {target.keys for target in vocabulary().get(words, ())}
    for fits in (
        [keys for keys in among if paths.name(keys) == named],
        [keys for keys in among if _spaced(paths.name(keys)) == words],
        [keys for keys in among if _spaced(str(keys[-1])) == words],
        [keys for keys in among if keys in meant],
        [keys for keys in among if meant & {target.keys for target in vocabulary().get(_spaced(paths.name(keys)), ())}],
    ):
        if fits and words:
            return fits
    return []


def _bare_name(named: str) -> str:
    return re.sub(r"^(?:the|our|its) | (?:field|value)$", "", named.strip(" '`"), flags=re.IGNORECASE)


def _new(named: str, *, create: bool) -> list[Keys]:
    """The place of a field that is not there yet: a known one, or any if it is to be set."""
    named = _bare_name(named)
    known = vocabulary().get(_spaced(named))
    if known:
        return [known[0].keys]
    if not create or not plain(named):
        return []
    try:
        return [paths.parse(named if " " not in named or named.startswith("[") else "_".join(plain(named).split()))]
    except InvalidPath:
        return []


def _spaced(name: str) -> str:
    return plain(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " "))


def _typed(said: str, quoted: list[str], old: Any, named: str) -> Any:
    """The value that was said, typed as what it replaces or what its name means; None if it cannot be."""
    if re.fullmatch(r"\ue000\d+\ue001[.!]?", said):
        return _shown(said.rstrip(".!"), quoted)
    said = _shown(said if _ABBREVIATED.search(said) else said.rstrip(".!"), quoted)
    kinds = {target.kind for target in vocabulary().get(named, ())} if old is None else set[str]()
    habits = Habits(".", month_first=False)
    if isinstance(old, bool):
        return {"true": True, "yes": True, "false": False, "no": False}.get(said.casefold(), said)
    if (
        isinstance(old, int | float)
        or kinds & {"money", "tax"}
        or (old is None and re.fullmatch(r"-?\d{1,15}(\.\d+)?", said))
    ):
        amount = habits.amount(said)
        return amount and (
            int(amount[0]) if amount[0].is_integer() and "." not in said and not isinstance(old, float) else amount[0]
        )
    day = habits.day(said)
    dated = "date" in kinds or re.fullmatch(r"\d{4}-\d\d-\d\d", str(old))
    return day[0] if dated and day and day[1] == said else said
