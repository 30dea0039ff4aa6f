"""Shared by the rules of the offline model: replaying a conversation, and parsing what a person asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.offline_model.messages import Block, Body, call, objects_in, strip_prefix, text
from fieldmark.services.labelled_fields import fields_named, normalise_label, parse_amount, parse_date

NOTE = "This is Fieldmark's offline model: fixed rules, no language model."
CHANGES_HELP = 'I understand "set vendor.name to Acme", "the total is 12.50" and "remove X".'
# The last line of a tool's answer, for programs.
_OUTCOME = re.compile(r'(?:^|\n)(\{"code":.*\})(?:</\w+>)?\s*$')
# A delimiter line around untrusted text (tools/documents.Boundary). The first one holds the run's word.
_BOUNDARY = re.compile(r"^\[([0-9a-f]{24}) [\w ]+ begins\]$", re.MULTILINE)
_DECIDED = re.compile(r"^- (\w+) (\{.*\}) \((\w+)\): (.*)$", re.MULTILINE)
# The CLI's result of a call whose worker was killed. The rules make the call again.
_INTERRUPTED = "[Tool call interrupted"
_CHANGE = re.compile(
    r"(?:please )?(?:(?:remove|delete) (?:the )?(?P<removed>.+)"
    r"|(?:set |change )?(?:the )?(?P<field>.{1,80}?)"
    r"(?: is (?!wrong|missing|not )| should be | to |: | ?= ?)(?P<value>.+))",
    re.IGNORECASE,
)
_NEXT_CHANGE = re.compile(
    r'(?:[.;!\n]|,? and|,) *(?=(?:set|change|remove|delete|the) )(?=(?:[^"]*"[^"]*")*[^"]*$)', re.IGNORECASE
)

Calls: TypeAlias = list[tuple[str, JsonObject]]
"""Tools and their arguments."""


class FinishedCall(NamedTuple):
    """A finished call: its result as text, and its code and data."""

    tool: str
    answer: str
    failed: bool
    code: str
    data: JsonObject


class NeedsCalls(Exception):
    """Raised by a rule that needs the results of further calls."""

    def __init__(self, calls: Calls, why: str) -> None:
        self.calls = calls
        self.why = why


@dataclass(slots=True)
class RuleTurn:
    """A task: its text, the person's message if any, its untrusted texts by kind, and the calls so far. Each message of
    the model replays the rule from the start."""

    task: str
    message: str | None
    texts: dict[str, str]
    done: list[FinishedCall]

    def call(self, tool: str, arguments: JsonObject | None = None, why: str = "") -> FinishedCall:
        """Return the result of the rule's next call. Raise NeedsCalls if it was not made yet."""
        return self.calls([(tool, arguments or {})], why)[0]

    def calls(self, wanted: Calls, why: str = "") -> list[FinishedCall]:
        """Return the results of the rule's next calls, up to the first that failed. The model makes all of them in one
        message."""
        found: list[FinishedCall] = []
        for number, (tool, _) in enumerate(wanted):
            at = next((at for at, one in enumerate(self.done) if one.tool == tool), None)
            if at is None:
                raise NeedsCalls(wanted[number:], why)
            found.append(self.done[at])
            self.done = self.done[at + 1 :]
            if found[-1].failed:
                break
        return found


def next_message(body: Body, tools: set[str], rules: Callable[[RuleTurn], str]) -> list[Block] | None:
    """Return the model's next message: calls, or the final text of the rules. Return None if the request does not
    offer the agent's tools."""
    if not tools <= {strip_prefix(str(tool.get("name"))) for tool in objects_in(body, "tools")}:
        return None
    task, done = _conversation(body)
    texts, own = _foreign(task)
    decided = [FinishedCall(tool, said, status != "done", "ok", {}) for tool, _, status, said in _DECIDED.findall(own)]
    try:
        return [text(f"{rules(RuleTurn(own, text_in_tag(own, 'message'), texts, [*decided, *done]))} {NOTE}")]
    except NeedsCalls as step:
        # A person is asked for one call at a time.
        is_alone = bool(as_object(body.get("tool_choice")).get("disable_parallel_tool_use"))
        calls = step.calls[:1] if is_alone else step.calls
        return [*([text(step.why)] if step.why else []), *(call(*one) for one in calls)]


def _conversation(body: Body) -> tuple[str, list[FinishedCall]]:
    """Return the task (the first user message, or the last one written by a person) and the calls made since."""
    task, done, calls = "", list[FinishedCall](), dict[str, str]()
    for message in objects_in(body, "messages"):
        blocks = objects_in(message, "content") or [{"text": message.get("content")}]
        words = _message_text(blocks)
        if message.get("role") == "user" and words and (not task or _begins_turn(words, task)):
            task, done = words, []
        for block in blocks:
            calls |= (
                {str(block.get("id")): strip_prefix(str(block.get("name")))} if block.get("type") == "tool_use" else {}
            )
            if block.get("type") == "tool_result" and (tool := calls.get(str(block.get("tool_use_id")))):
                said = _message_text(objects_in(block, "content")) or str(block.get("content"))
                if said.startswith(_INTERRUPTED):
                    continue
                found = _OUTCOME.search(said)
                outcome = json_object(found[1]) if found else {}
                said = said[: found.start()] if found and outcome else said
                code, data = str(outcome.get("code", "ok")), as_object(outcome.get("data"))
                done.append(FinishedCall(tool, said, bool(block.get("is_error")), code, data))
    return task, done


def _begins_turn(words: str, task: str) -> bool:
    """Return whether a user message starts a turn. Text after the person's message continues an interrupted turn."""
    said = text_in_tag(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != text_in_tag(task, "message"))


def json_object(written: JsonValue) -> JsonObject:
    """Parse a JSON object. Return an empty object for anything else."""
    try:
        return as_object(json.loads(str(written)))
    except ValueError:
        return {}


def _message_text(blocks: list[JsonObject]) -> str:
    said = [words for block in blocks if isinstance(words := block.get("text"), str)]
    return "\n".join(words for words in said if not words.startswith("<system-reminder>"))


def text_in_tag(task: str, tag: str) -> str | None:
    """Return the text between the first opening and the last closing tag, or None."""
    start, end = task.find(f"<{tag}>"), task.rfind(f"</{tag}>")
    return task[start + len(tag) + 2 : end] if 0 <= start < end else None


def _foreign(task: str) -> tuple[dict[str, str], str]:
    """Return the untrusted texts of a task by kind, and the task without them."""
    boundary = _BOUNDARY.search(task)
    if boundary is None:
        return {}, task
    word = boundary[1]
    part = re.compile(rf"(?ms)^\[{word} ([\w ]+) begins\]\n(.*?)^\[{word} \1 ends\]$")
    page = re.compile(rf"^\[{word} (page \d+ of \d+(?:, embedded XML)?)\]$", re.MULTILINE)
    return {kind: page.sub(r"--- \1 ---", said) for kind, said in part.findall(task)}, part.sub("", task)


def values_by_path(value: JsonValue, keys: paths.Path = ()) -> dict[paths.Path, JsonValue]:
    """Return every path in a value, with the value at that path."""
    inner: Iterable[tuple[str | int, JsonValue]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return {
        at: one
        for key, item in inner
        for at, one in [((*keys, key), item), *values_by_path(item, (*keys, key)).items()]
    }


def leaf_paths(places: dict[paths.Path, JsonValue]) -> list[paths.Path]:
    """Return the paths of single values: neither objects nor lists."""
    return [keys for keys, value in places.items() if not isinstance(value, dict | list)]


def changes(words: str, places: dict[paths.Path, JsonValue]) -> tuple[Calls, list[str]]:
    """Return the calls that a correction asks for, and a sentence for each unclear part of it."""
    updates, removed, unclear = Calls(), set[paths.Path](), list[str]()
    for clause in _NEXT_CHANGE.split(re.sub("[“”]", '"', words[:4000]).strip(" ;.!\n")):
        said = _CHANGE.fullmatch(" ".join(clause.split()))
        if said is None:
            unclear.append(f'I did not understand "{clause[:100]}". {CHANGES_HELP}')
            continue
        gone, field, value = said.groups("")
        found = (
            match_paths(gone, [*places])
            if gone
            else match_paths(field, leaf_paths(places)) or [*fields_named(field)][:1]
        )
        typed = _convert_value(value, places.get(found[0]), found[0]) if value and found else None
        if len(found) != 1:
            options = ", ".join(paths.name(one) for one in found[:5])
            could = f"It could be {options}." if options else "No field has this name."
            unclear.append(f'I do not know which field "{gone or field}" is. {could}')
        elif gone:
            removed.add(found[0])
        elif typed is None:
            unclear.append(f'"{value}" is not a valid value for {paths.name(found[0])}.')
        else:
            updates.append(("update_field", {"path": paths.name(found[0]), "value": typed, "confidence": 1.0}))
    # Removals come last and from the end, so that no index moves.
    removals: Calls = [("remove_field", {"path": paths.name(keys)}) for keys in reversed(places) if keys in removed]
    return updates + removals, unclear


def match_paths(named: str, among: list[paths.Path]) -> list[paths.Path]:
    """Return the paths that a name matches: as the path itself, by its words or last word, or as a synonym."""
    words, known = normalise_label(named), fields_named(named).keys()
    ways = (
        [keys for keys in among if paths.name(keys) == named],
        [keys for keys in among if words and words in map(normalise_label, (paths.name(keys), str(keys[-1])))],
        [keys for keys in among if keys in known or known & fields_named(paths.name(keys)).keys()],
    )
    return next(filter(None, ways), ways[0])


def _convert_value(said: str, old: JsonValue, keys: paths.Path) -> JsonValue:
    """Convert a value from a message to the type of the old value, or of the field's name, or return None."""
    if re.fullmatch(r'".*"', said):
        return said[1:-1]
    kinds = set(fields_named(paths.name(keys)).values()) if old is None else set[str]()
    if isinstance(old, int | float) or kinds & {"money", "tax"}:
        return json.loads(said) if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})(?:\.\d+)?", said) else parse_amount(said)
    dated = parse_date(said) if "date" in kinds or re.fullmatch(r"\d{4}-\d\d-\d\d", str(old)) else None
    return dated[0] if dated and dated[1] == said else said


def split_xml_pages(read: FinishedCall) -> tuple[str, str]:
    """Return the text of the printed pages, and that of the embedded e-invoice (XML). The XML pages contain paths,
    which would be mistaken for labels."""
    first = read.data.get("xml_pages_from")
    found = re.search(rf"^--- page {first} of ", read.answer, re.MULTILINE) if isinstance(first, int) else None
    return (read.answer, "") if found is None else (read.answer[: found.start()], read.answer[found.start() :])
