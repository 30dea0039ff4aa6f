"""What the rules of every agent share, by which the offline model plays it: reading the conversation so far, and what
a person's words want changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.grounding.labelled_fields import YES_NO, amount, day, meant, plain
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text

NOTE = "This is Fieldmark's offline model: fixed rules, no language model."
CHANGES_HELP = 'I understand "set vendor.name to Acme", "the total is 12.50" and "remove X".'
# What a tool says for programs: the last line of its answer.
_OUTCOME = re.compile(r'(?:^|\n)(\{"code":.*\})(?:</\w+>)?\s*$')
# A line of ours around foreign text (tools/documents.Boundary): the first such word is the run's.
_BOUNDARY = re.compile(r"^\[([0-9a-f]{24}) [\w ]+ begins\]$", re.MULTILINE)
_DECIDED = re.compile(r"^- (\w+) (\{.*\}) \((\w+)\): (.*)$", re.MULTILINE)
_SET, _REMOVE = r"(?:please )?(?:set|change|update|correct) ", r"(?:please )?(?:remove|delete) "
_IS = r"(?: (?:is (?!wrong|incorrect|missing|not )|should be |to )|: | ?= )"
_CLAUSE = re.compile(
    rf"{_REMOVE}(?:the )?(.+)|(?:{_SET})?(?:the )?(.{{1,80}}?)(?: from .{{1,80}}?)?{_IS}(.+)", re.IGNORECASE
)
# How another clause begins, outside of quotes.
_BREAK = re.compile(
    rf'(?:[.;!]|,? and|,) (?={_SET}|{_REMOVE}|the [\w.\[\] ]{{1,40}}?{_IS})(?=(?:[^"]*"[^"]*")*[^"]*$)', re.IGNORECASE
)

Calls: TypeAlias = list[tuple[str, JsonObject]]
"""Tools and their arguments."""


class Done(NamedTuple):
    """A call that was made: what it answered in words, and for programs."""

    tool: str
    arguments: JsonObject
    answer: str
    failed: bool
    code: str
    data: JsonObject


class NeedsCall(Exception):
    """The call that a rule goes on with."""

    def __init__(self, tool: str, arguments: JsonObject, why: str) -> None:
        self.tool = tool
        self.arguments = arguments
        self.why = why


@dataclass(slots=True)
class RuleTurn:
    """What a person has said, and the calls made since. A rule is followed from its beginning each time: `call` returns
    what was called already, and raises NeedsCall for what was not."""

    message: str | None
    texts: dict[str, str]
    is_cut: bool
    done: list[Done]

    def call(self, tool: str, arguments: JsonObject | None = None, why: str = "") -> Done:
        """Return what the rule's next call has answered."""
        for at, one in enumerate(self.done):
            if one.tool == tool:
                self.done = self.done[at + 1 :]
                return one
        raise NeedsCall(tool, arguments or {}, why)


def follow(body: Body, tools: set[str], rules: Callable[[RuleTurn], str]) -> list[Block] | None:
    """Return the next turn of an agent that a person talks with: a call, or the words that its rules end with. None for
    a request that does not offer the agent's tools."""
    if not tools <= {bare(str(tool.get("name"))) for tool in items(body, "tools")}:
        return None
    task, done = conversation(body, _begins_turn)
    texts, own = foreign(task)
    decided = [
        Done(tool, json_object(arguments), said, status != "done", "ok", {})
        for tool, arguments, status, said in _DECIDED.findall(own.rpartition("</message>")[2])
    ]
    message = tagged(own, "message")
    try:
        return [text(f"{rules(RuleTurn(message, texts, 'the document goes on' in own, [*decided, *done]))} {NOTE}")]
    except NeedsCall as step:
        return [*([text(step.why)] if step.why else []), call(step.tool, step.arguments)]


def _begins_turn(words: str, task: str) -> bool:
    """Whether words of ours begin a turn. What is said behind a message goes on with a turn that was broken off."""
    said = tagged(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != tagged(task, "message"))


def json_object(written: JsonValue) -> JsonObject:
    """Return the object that a text is the JSON of; an empty one if the text was shortened."""
    try:
        return as_object(json.loads(str(written)))
    except ValueError:
        return {}


def conversation(body: Body, begins: Callable[[str, str], bool]) -> tuple[str, list[Done]]:
    """The task (the first words of the user, or the last that begin one, by what they and the task before are) and the
    calls made since, in order."""
    task, done, calls = "", list[Done](), dict[str, JsonObject]()
    for message in items(body, "messages"):
        blocks = items(message, "content") or [{"text": message.get("content")}]
        words = _words(blocks)
        if message.get("role") == "user" and words and (not task or begins(words, task)):
            task, done = words, []
        for block in blocks:
            calls |= {str(block.get("id")): block} if block.get("type") == "tool_use" else {}
            if block.get("type") == "tool_result" and (made := calls.get(str(block.get("tool_use_id")))):
                said = _words(items(block, "content")) or str(block.get("content"))
                tool, arguments = bare(str(made.get("name"))), as_object(made.get("input"))
                done.append(Done(tool, arguments, *_outcome(said, bool(block.get("is_error")))))
    return task, done


def _outcome(said: str, failed: bool) -> tuple[str, bool, str, JsonObject]:
    """An answer taken apart: its words, whether it failed, its code and its data."""
    found = _OUTCOME.search(said)
    told = json_object(found[1]) if found else {}
    return (
        said[: found.start()] if found and told else said,
        failed,
        str(told.get("code", "ok")),
        as_object(told.get("data")),
    )


def _words(blocks: list[JsonObject]) -> str:
    said = [words for block in blocks if isinstance(words := block.get("text"), str)]
    return "\n".join(words for words in said if not words.startswith("<system-reminder>"))


def tagged(task: str, tag: str) -> str | None:
    """What stands between the first and the last tag of a name; None where none does."""
    start, end = task.find(f"<{tag}>"), task.rfind(f"</{tag}>")
    return task[start + len(tag) + 2 : end] if 0 <= start < end else None


def is_open(done: list[Done], tool: str, arguments: JsonObject | None = None) -> bool:
    """Whether a call may be made: it was not, or failed once."""
    # Nothing that succeeded is called again, and nothing three times: so a conversation always ends.
    tries = [one.failed for one in done if one.tool == tool and arguments in (None, one.arguments)]
    return len(tries) < 2 and all(tries)


def foreign(task: str) -> tuple[dict[str, str], str]:
    """The foreign texts in a task, by what they are, and the task without them. Under `rest` stands how the document
    goes on, as JSON."""
    begun = _BOUNDARY.search(task)
    if begun is None:
        return {}, task
    word = re.escape(begun[1])
    texts = dict(re.findall(rf"(?ms)^\[{word} ([\w ]+) begins\]\n(.*?)^\[{word} \1 ends\]$", task))
    rest = re.search(
        rf"^\[{word} the document goes on: .*pages \"(\d+-)\"(?: and offset (\d+))?\]$", task, re.MULTILINE
    )
    if rest:
        texts["rest"] = json.dumps({"pages": rest[1]} | ({"offset": int(rest[2])} if rest[2] else {}))
    document = texts.get("document", "")
    begins = re.search(rf"^\[{word} page \d+ of \d+, for machines\]$", document, re.MULTILINE)
    texts["printed"] = document[: begins.start()] if begins else document
    page = re.compile(rf"^\[{word} (page \d+ of \d+).*\]$", re.MULTILINE)
    texts = {
        kind: page.sub(r"--- \1 ---", text).replace(f"[{begun[1]} warning: ", "[warning: ")
        for kind, text in texts.items()
    }
    return texts, re.sub(rf"(?ms)^\[{word} ([\w ]+) begins\]\n.*?^\[{word} \1 ends\]$", "", task)


def places_of(value: JsonValue, keys: paths.Path) -> dict[paths.Path, JsonValue]:
    """Every path of a value, with what stands there."""
    inner: Iterable[tuple[str | int, JsonValue]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return {
        at: one for key, item in inner for at, one in [((*keys, key), item), *places_of(item, (*keys, key)).items()]
    }


def changes(words: str, places: dict[paths.Path, JsonValue]) -> tuple[Calls, list[str]]:
    """The calls that a correction asks for, and a sentence for each thing in it that is not clear."""
    updates, removed, unclear = Calls(), set[paths.Path](), list[str]()
    leaves = leaves_of(places)
    flat = " ".join(re.sub("[“”]", '"', words[:4000]).replace("\n", " ; ").split()).strip(" ;.!")
    for clause in _BREAK.split(flat):
        said = _CLAUSE.fullmatch(clause)
        gone, field, value = said.groups("") if said else ("", "", "")
        several = gone and not meant_at(gone, list(places))
        for named in re.split(r"(?:, and|,| and) (?:the )?", gone) if several else [gone or field] if said else []:
            found = meant_at(named, list(places)) if gone else meant_at(named, leaves) or list(meant(named))[:1]
            typed = _typed(value, places.get(found[0]), found[0]) if value and found else None
            if len(found) != 1:
                options = ", ".join(paths.name(one) for one in found[:5])
                unclear.append(f'I do not know which field "{named}" is. It could be {options or "none"}.')
            elif gone:
                removed.add(found[0])
            elif typed is None:
                unclear.append(f'"{value}" is no value for {paths.name(found[0])}.')
            else:
                updates.append(("update_field", {"path": paths.name(found[0]), "value": typed, "confidence": 1.0}))
        unclear += [] if said else [f'I did not understand "{clause[:100]}". {CHANGES_HELP}']
    # Removals come last and from the end, so that no index moves.
    removals: Calls = [("remove_field", {"path": paths.name(keys)}) for keys in reversed(places) if keys in removed]
    return updates + removals, unclear


def leaves_of(places: dict[paths.Path, JsonValue]) -> list[paths.Path]:
    """Those of the places at which one value stands."""
    return [keys for keys, value in places.items() if not isinstance(value, dict | list)]


def meant_at(named: str, among: list[paths.Path]) -> list[paths.Path]:
    """The places that the words can mean: as a path, as its words, as its last word, as another word for the same."""
    words, known = plain(named), meant(named).keys()
    ways = (
        [keys for keys in among if paths.name(keys) == named],
        [keys for keys in among if words and words in (plain(paths.name(keys)), plain(str(keys[-1])))],
        [keys for keys in among if keys in known or known & meant(paths.name(keys)).keys()],
    )
    return next(filter(None, ways), ways[0])


def _typed(said: str, old: JsonValue, keys: paths.Path) -> JsonValue:
    """The value that was said, typed as what it replaces or what its name means; None if it cannot be."""
    kinds = set(meant(paths.name(keys)).values()) if old is None else set[str]()
    if re.fullmatch(r'".*"', said):
        return said[1:-1]
    if isinstance(old, bool):
        return YES_NO.get(said.casefold())
    if isinstance(old, int | float) or kinds & {"money", "tax"}:
        return json.loads(said) if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})(?:\.\d+)?", said) else amount(said)
    dated = day(said) if "date" in kinds or re.fullmatch(r"\d{4}-\d\d-\d\d", str(old)) else None
    return dated[0] if dated and dated[1] == said else said


def printed(read: Done) -> str:
    """What was read of the pages that a person sees: those for machines hold paths, which would pass for labels."""
    first = read.data.get("for_machines_from")
    found = re.search(rf"^--- page {first} of ", read.answer, re.MULTILINE) if isinstance(first, int) else None
    return read.answer[: found.start()] if found else read.answer
