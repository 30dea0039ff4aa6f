"""The offline model by rules: from the conversation so far to its next turn. It is no language model, and says so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.grounding.labelled_fields import YES_NO, amount, day, document_type, meant, plain, read_fields
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text, thinking

NOTE = "This is Fieldmark's offline model: fixed rules, no language model."
_HELP = 'I understand "set vendor.name to Acme", "the total is 12.50", "change the total to 9" and "remove X".'
# What a tool says for programs: the last line of its answer.
_OUTCOME = re.compile(r'(?:^|\n)(\{"code":.*\})(?:</\w+>)?\s*$')
_PAGES = re.compile(r"\d{1,6}-\d{0,6}")
# A line of ours around foreign text (tools/documents.Boundary): the first such word is the run's.
_BOUNDARY = re.compile(r"^\[([0-9a-f]{24}) \w+ begins\]$", re.MULTILINE)
_SET, _REMOVE = (
    r"(?:please |also )*(?:set|add|change|update|correct|fix) ",
    r"(?:please |also )*(?:remove|delete|drop) ",
)
_IS = r"(?: (?:is (?!wrong|incorrect|missing|not )|should be |must be |to )|: | ?= )"
_THE, _FROM = "(?:the |our |its )?", "(?: from .{1,80}?)?"
_CLAUSE = re.compile(rf"{_REMOVE}{_THE}(.+)|(?:{_SET})?{_THE}(.{{1,80}}?){_FROM}{_IS}(.+)", re.IGNORECASE)
_NEXT = rf"{_SET}|{_REMOVE}|the [\w.\[\] ]{{1,40}}?{_IS}"  # how another clause begins; and not within quotes
_BREAK = re.compile(rf'(?:[.;!]|,? and|,? then|,) (?={_NEXT})(?=(?:[^"]*"[^"]*")*[^"]*$)', re.IGNORECASE)


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


def answer(body: Body) -> list[Block]:
    """The next turn: thinking, calls, or the closing words. It makes one call at most where the task's message holds no
    document, or where it is asked to."""
    task, done = _conversation(body)
    given, task = _foreign(task)
    several = bool(given) and not as_object(body.get("tool_choice")).get("disable_parallel_tool_use")
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    words = _tagged(task, "correction")
    if words is not None and {"get_current_extraction", "update_field", "remove_field"} <= offered:
        return _correct(words, done, given.get("extraction"), offered, several)
    if words is None and {"get_document_text", "extract_fields"} <= offered:
        return _extract(task, done, offered, given, several)
    return [text(f"{NOTE} It can extract labelled fields and follow simple corrections, and nothing else.")]


def _conversation(body: Body) -> tuple[str, list[Done]]:
    """The task (the first words of the user, or the last correction) and the calls made since, in order."""
    task, done, calls = "", list[Done](), dict[str, JsonObject]()
    for message in items(body, "messages"):
        blocks = items(message, "content") or [{"text": message.get("content")}]
        words = _words(blocks)
        if message.get("role") == "user" and words and (not task or "<correction>" in words):
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
    try:
        told: JsonObject = json.loads(found[1]) if found else {}
    except ValueError:
        found, told = None, {}
    words = said[: found.start()] if found else said
    return words, failed, str(told.get("code", "ok")), as_object(told.get("data"))


def _words(blocks: list[JsonObject]) -> str:
    said = [words for block in blocks if isinstance(words := block.get("text"), str)]
    return "\n".join(words for words in said if not words.startswith("<system-reminder>"))


def _tagged(task: str, tag: str) -> str | None:
    start, end = task.find(f"<{tag}>"), task.rfind(f"</{tag}>")
    return task[start + len(tag) + 2 : end] if 0 <= start < end else None


def _open(done: list[Done], tool: str, arguments: JsonObject | None = None) -> bool:
    # Nothing that succeeded is called again, and nothing three times: so a conversation always ends.
    tries = [one.failed for one in done if one.tool == tool and arguments in (None, one.arguments)]
    return len(tries) < 2 and all(tries)


def _foreign(task: str) -> tuple[dict[str, str], str]:
    """The foreign texts in a task, by what they are, and the task without them. Under `rest` stands how the document
    goes on, as JSON."""
    begun = _BOUNDARY.search(task)
    if begun is None:
        return {}, task
    word = re.escape(begun[1])
    texts = dict(re.findall(rf"(?ms)^\[{word} (\w+) begins\]\n(.*?)^\[{word} \1 ends\]$", task))
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
    return texts, re.sub(rf"(?ms)^\[{word} (\w+) begins\]\n.*?^\[{word} \1 ends\]$", "", task)


def _extract(task: str, done: list[Done], offered: set[str], given: dict[str, str], several: bool) -> list[Block]:
    read = [one for one in done if one.tool == "get_document_text" and not one.failed]
    reads = [text for text in (given.get("document", ""), *(one.answer for one in read)) if text.strip()]
    printed = [text for text in (given.get("printed", ""), *map(_printed, read)) if text.strip()]
    ask = _rest(read[-1]) if read else json.loads(given.get("rest", "{}"))
    thought = [] if done else [thinking("I look for lines that name a value.")]
    if (ask or not reads) and _open(done, "get_document_text", ask):
        return [*thought, call("get_document_text", ask)]
    made = {one.tool for one in done if not one.failed}
    refused = {one.tool: f"{one.tool} was refused: {one.answer[:300]}" for one in done if one.tool not in made}
    if not reads:
        return [text(f"{NOTE} The document's text could not be read: {' '.join(refused.values())}")]
    steps: list[Block] = []
    left = [paths.parse(str(one.get("path"))) for one in items({"left": json.loads(given.get("left", "[]"))}, "left")]
    if "identify_document" in offered and not left and _open(done, "identify_document"):
        name, sure = document_type("\n".join(printed) or "\n".join(reads))
        steps.append(
            call("identify_document", {"document_type": name, "confidence": sure, "reason": "by its key words"})
        )
    schema = json.loads(_tagged(task, "schema") or "null")
    fields = read_fields("\n".join(printed), schema) or read_fields("\n".join(reads), schema)
    # The second try leaves out what the refusal names.
    refusals = [one.data.get("paths") for one in done if one.tool == "extract_fields" and one.failed]
    named = {path for listed in refusals for path in as_list(listed) if isinstance(path, str)}
    found = {path: field for field in fields if (path := paths.name(field.keys)) not in named}
    if left:  # the rest is settled
        found = {path: field for path, field in found.items() if any(field.keys[: len(one)] == one for one in left)}
    if found and _open(done, "extract_fields"):
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
    ignored = ["The instructions in words were not followed: rules cannot."] if _tagged(task, "instructions") else []
    if "complete_extraction" in offered and _open(done, "complete_extraction"):
        steps.append(call("complete_extraction", {"summary": " ".join([NOTE, said, *ignored])}))
    if steps:
        return [*thought, *(steps if several else steps[:1])]
    return [text(" ".join([NOTE, said, *ignored, *refused.values()]))]


def _printed(read: Done) -> str:
    """What was read of the pages that a person sees: those for machines hold paths, which would pass for labels."""
    first = read.data.get("for_machines_from")
    found = re.search(rf"^--- page {first} of ", read.answer, re.MULTILINE) if isinstance(first, int) else None
    return read.answer[: found.start()] if found else read.answer


def _rest(read: Done) -> JsonObject:
    """The arguments that read on where a reading was cut; none where it was not."""
    pages, offset = read.data.get("pages"), read.data.get("offset")
    if read.code != "more" or not isinstance(pages, str) or not _PAGES.fullmatch(pages):
        return {}
    begun = isinstance(offset, int) and 0 < offset < 10**9
    return {"pages": pages, "offset": offset} if begun else {"pages": pages}


def _correct(words: str, done: list[Done], given: str | None, offered: set[str], several: bool) -> list[Block]:
    if given is None and _open(done, "get_current_extraction"):
        return [thinking("I look at what stands there now."), call("get_current_extraction")]
    current = [one.answer for one in done if one.tool == "get_current_extraction" and not one.failed]
    current = current if given is None else [given]
    try:
        standing = json.loads(current[0])
        places = _places(standing["extracted_fields"], ())
    except (IndexError, ValueError, KeyError, TypeError):
        return [text(f"{NOTE} The extraction could not be read, so nothing was changed. {done[-1].answer[:300]}")]
    wanted, said = _changes(words, places)
    steps: list[Block] = []
    for tool, arguments in wanted:
        path, value = arguments["path"], json.dumps(arguments.get("value"), ensure_ascii=False)
        made = [one for one in done if (one.tool, one.arguments) == (tool, arguments)]
        changed = f"Set {path} to {value}." if tool == "update_field" else f"Removed {path}."
        if _open(made, tool):
            steps.append(call(tool, arguments))
            said.append(changed)
            continue
        kept = made[-1].failed or made[-1].code in (
            "not_stored",
            "not_removed",
        )  # a value that another person set stays
        said.append(f"{path} could not be changed: {made[-1].answer[:300]}" if kept else changed)
    if steps and not several:
        return steps[:1]
    was_whole = any(one.data.get("reopened") for one in done) or (given and standing.get("status") == "completed")
    if wanted and was_whole and "complete_extraction" in offered and _open(done, "complete_extraction"):
        steps.append(call("complete_extraction", {"summary": " ".join([*said, NOTE])}))
    if steps:
        return steps
    return [text(" ".join([*said, NOTE]))]


def _places(value: JsonValue, keys: paths.Path) -> dict[paths.Path, JsonValue]:
    inner: Iterable[tuple[str | int, JsonValue]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return {at: one for key, item in inner for at, one in [((*keys, key), item), *_places(item, (*keys, key)).items()]}


def _changes(words: str, places: dict[paths.Path, JsonValue]) -> tuple[Calls, list[str]]:
    """The calls that a correction asks for, and a sentence for each thing in it that is not clear."""
    updates, removed, unclear = Calls(), set[paths.Path](), list[str]()
    leaves = [keys for keys, value in places.items() if not isinstance(value, dict | list)]
    flat = " ".join(re.sub("[“”]", '"', words[:4000]).replace("\n", " ; ").split()).strip(" ;.!")
    for clause in _BREAK.split(flat):
        said = _CLAUSE.fullmatch(clause)
        gone, field, value = said.groups("") if said else ("", "", "")
        several = gone and not _meant(gone, list(places))
        for named in re.split(r"(?:, and|,| and) (?:the )?", gone) if several else [gone or field] if said else []:
            found = _meant(named, list(places)) if gone else _meant(named, leaves) or list(meant(named))[:1]
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
        unclear += [] if said else [f'I did not understand "{clause[:100]}". {_HELP}']
    # Removals come last and from the end, so that no index moves.
    removals: Calls = [("remove_field", {"path": paths.name(keys)}) for keys in reversed(places) if keys in removed]
    return updates + removals, unclear


def _meant(named: str, among: list[paths.Path]) -> list[paths.Path]:
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
