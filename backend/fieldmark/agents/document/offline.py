"""The offline model's rules for a talk about a document. They are no language model, and say so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.offline_rules import (
    CHANGES_HELP,
    NOTE,
    Done,
    changes,
    conversation,
    foreign,
    leaves_of,
    meant_at,
    places_of,
    printed,
    tagged,
)
from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.names import problem_with_name
from fieldmark.grounding.labelled_fields import Field, document_type, read_fields
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text

HELP: Final = (
    'I understand "make a schema of this document", "make a prompt", "extract", "what is the due date?", '
    f'"tag it paid", "rename it to bill.pdf", "list schemas" and changes. {CHANGES_HELP}'
)
_MOST_CHARACTERS = 2000
_MOST_LINES = 40
_MOST_NAMES = 5
_CONTENT = "Read the fields of the schema as they are printed."
_DECIDED = re.compile(r"^- (\w+) (\{.*\}) \((\w+)\): (.*)$", re.MULTILINE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def answer(body: Body) -> list[Block] | None:
    """The next turn: a call, with a word on what it is for, or the closing words; None for a request of another
    agent's."""
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    if not {"create_schema", "run_extraction"} <= offered:
        return None
    task, done = conversation(body, _begins)
    given, own = foreign(task)
    words = tagged(own, "message")
    turn = _Turn(words or "", given, "the document goes on" in own, [*_decided(own), *done])
    try:
        return [text(f"{_propose(turn) if words is None else _follow(turn)} {NOTE}")]
    except _Next as step:
        return [*([text(step.why)] if step.why else []), call(step.tool, step.arguments)]


def _begins(words: str, task: str) -> bool:
    """Whether words of ours begin a turn. What is said behind a message goes on with a turn that was broken off."""
    said = tagged(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != tagged(task, "message"))


def _decided(task: str) -> list[Done]:
    """The calls of which a conversation that begins anew is told: a person has decided them."""
    return [
        Done(tool, _json(arguments), said, status != "done", "ok", {})
        for tool, arguments, status, said in _DECIDED.findall(task.rpartition("</message>")[2])
    ]


def _json(written: str) -> JsonObject:
    try:
        return as_object(json.loads(written))
    except ValueError:  # it was shortened
        return {}


class _Next(Exception):
    """The call that a rule goes on with."""

    def __init__(self, tool: str, arguments: JsonObject, why: str) -> None:
        self.tool = tool
        self.arguments = arguments
        self.why = why


@dataclass(slots=True)
class _Turn:
    """What a person has said, and what was done about it. A rule is followed from its beginning each time: `call`
    answers what was called already, and breaks off with what was not."""

    words: str
    given: dict[str, str]
    is_cut: bool
    done: list[Done] = field(default_factory=list[Done])

    def call(self, tool: str, arguments: JsonObject | None = None, why: str = "") -> Done:
        """What the rule's next call has answered. Raises _Next where it was not made yet."""
        for at, one in enumerate(self.done):
            if one.tool == tool:
                self.done = self.done[at + 1 :]
                return one
        raise _Next(tool, arguments or {}, why)

    def named(self, tool: str, name: str, arguments: JsonObject, why: str) -> Done:
        """The same for what is made under a name: another name where there is one like it."""
        made = self.call(tool, {"name": name, **arguments}, why)
        for number in range(2, _MOST_NAMES + 1):
            if made.code != "name_taken":
                break
            made = self.call(tool, {"name": f"{name} {number}", **arguments}, why)
        return made

    def document(self) -> str:
        """The document's text, as far as it is shown at once."""
        shown = self.given.get("excerpt", "")
        if shown.strip() and not self.is_cut:
            return shown
        read = self.call("get_ocr_text")
        return shown if read.failed else printed(read)


# What the rules understand --------------------------------------------------------------------------------------------


def _follow(turn: _Turn) -> str:
    """The closing words of a turn. Raises _Next where it goes on with a call."""
    said = " ".join(re.sub("[“”„]", '"', turn.words[:_MOST_CHARACTERS]).split()).strip(" .!")
    for pattern, rule in _RULES:
        if found := pattern.fullmatch(said):
            return rule(turn, found)
    return HELP


def _make_schema(turn: _Turn, said: re.Match[str]) -> str:
    fields = read_fields(turn.document())
    if not fields:
        return "I found no labelled values in this document, so I know no schema for it."
    made = turn.named(
        "create_schema",
        _name(said["name"]) or _name_for(turn.document(), fields),
        {"schema": _schema_of(fields)},
        "I propose a schema of the labelled values that I found.",
    )
    if made.failed:
        return _not_done("The schema was not made", made)
    return f'The schema "{made.data.get("name")}" is made. Say "extract" to read the document with it.'


def _make_prompt(turn: _Turn, said: re.Match[str]) -> str:
    wanted = _name(said["name"]) or _name_for(turn.document(), read_fields(turn.document()))
    made = turn.named("create_prompt", wanted, {"content": _CONTENT}, "I propose a prompt for the schema.")
    if made.failed:
        return _not_done("The prompt was not made", made)
    return f'The prompt "{made.data.get("name")}" is made. Say "extract" to read the document with it.'


def _extract(turn: _Turn, said: re.Match[str]) -> str:
    read = turn.call("run_extraction", why="I have the document extracted.")
    if read.failed:
        return _not_done("The document was not extracted", read)
    return f"The document is extracted:\n{_lines(read)}"


def _tag(turn: _Turn, said: re.Match[str]) -> str:
    name = _unquoted(said["tag"])
    changed = turn.call("update_document", {"add_tags": [name]}, "I put the tag on the document.")
    if changed.code == "no_such_tag":
        made = turn.call("create_tag", {"name": name}, "There is no such tag yet, so I make it first.")
        if made.failed:
            return _not_done("The tag was not made", made)
        changed = turn.call("update_document", {"add_tags": [name]}, "Now I put the tag on the document.")
    return _not_done("The document was not tagged", changed) if changed.failed else f"The document is tagged {name!r}."


def _untag(turn: _Turn, said: re.Match[str]) -> str:
    name = _unquoted(said["tag"])
    changed = turn.call("update_document", {"remove_tags": [name]}, "I take the tag off the document.")
    return _not_done("The tag is where it was", changed) if changed.failed else f"The tag {name!r} is off the document."


def _rename(turn: _Turn, said: re.Match[str]) -> str:
    name = _unquoted(said["name"])
    changed = turn.call("update_document", {"name": name}, "I give the document another name.")
    return _not_done("The document keeps its name", changed) if changed.failed else f"The document is named {name!r}."


def _show_result(turn: _Turn, said: re.Match[str]) -> str:
    read = turn.call("get_extraction_result")
    return _not_done("There is nothing to show", read) if read.failed else f"What is extracted:\n{_lines(read)}"


def _show_list(turn: _Turn, said: re.Match[str]) -> str:
    kind = f"{said['kind'].casefold()}s"
    read = turn.call(f"list_{kind}")
    names = [str(as_object(one).get("name")) for one in as_list(read.data.get(kind))]
    if read.failed:
        return _not_done("There is nothing to show", read)
    return (
        "\n".join([f"The {kind}, the newest first:", *(f"- {name}" for name in names), ""]) if names else f"No {kind}."
    )


def _answer(turn: _Turn, said: re.Match[str]) -> str:
    """From what was extracted, else from the labels, else from the lines that hold the words."""
    named = said["field"]
    read = turn.call("get_extraction_result")
    places = {} if read.failed else places_of(as_object(read.data.get("fields")), ())
    if found := meant_at(named, leaves_of(places)):
        told = [f"{paths.name(keys)} is {_shown(places[keys])}." for keys in found[:_MOST_NAMES]]
        return " ".join([*told, "So it stands in the extraction."])
    document = turn.document()
    fields: dict[paths.Path, Field] = {one.keys: one for one in read_fields(document)}
    if found := meant_at(named, [*fields]):
        seen = [fields[keys] for keys in found]
        return " ".join(f'{paths.name(one.keys)} is {_shown(one.value)}: "{one.quote}".' for one in seen)
    lines = [" ".join(line.split()) for line in document.splitlines() if named.casefold() in line.casefold()]
    return f'The document says: "{lines[0][:300]}".' if lines else f'I find no "{named}" in the document. {HELP}'


def _change(turn: _Turn, said: re.Match[str]) -> str:
    read = turn.call("get_extraction_result")
    if read.failed:
        return _not_done("Nothing was changed", read)
    wanted, told = changes(turn.words, places_of(as_object(read.data.get("fields")), ()))
    for tool, arguments in wanted:
        path, value = str(arguments["path"]), arguments.get("value")
        if tool != "update_field":
            told.append(f"I cannot remove {path} here: correct the extraction instead.")
            continue
        why = f"I set {path} to {_shown(value)}."
        changed = turn.call("update_extraction_field", {"path": path, "value": value}, why)
        if changed.failed or changed.code == "not_stored":  # a value that another person set stays
            told.append(_not_done(f"{path} could not be changed", changed))
        else:
            told.append(f"{path} is {_shown(value)} now.")
    return " ".join(told) or HELP


def _propose(turn: _Turn) -> str:
    """What nobody has asked for in words: a schema, a prompt and an extraction; for a document that is like an earlier
    one only that."""
    lent = _json(turn.given.get("working state", "{}")).get("schema_revid") is not None
    if not lent:
        fields = read_fields(turn.document())
        if not fields:
            return "I found no labelled values in this document, so I propose nothing."
        name = _name_for(turn.document(), fields)
        made = turn.named("create_schema", name, {"schema": _schema_of(fields)}, "")
        if made.failed and made.code != "schema_exists":
            return _not_done("No schema could be made", made)
        if not made.failed:
            made = turn.named("create_prompt", name, {"content": _CONTENT}, "")
            if made.failed:
                return _not_done("No prompt could be made", made)
    read = turn.call("run_extraction")
    if read.failed:
        return _not_done("The document was not extracted", read)
    return f"I propose what I found by the labels of the document:\n{_lines(read)}"


# In words -------------------------------------------------------------------------------------------------------------


def _not_done(what: str, refused: Done) -> str:
    return f"{what}. {' '.join(refused.answer.split())[:300]}"


def _shown(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(read: Done) -> str:
    """The fields of an extraction, one a line."""
    places = places_of(as_object(read.data.get("fields")), ())
    leaves = leaves_of(places)
    pages = as_object(read.data.get("pages"))
    lines = [
        f"- {(name := paths.name(keys))}: {_shown(places[keys])}" + (f" (page {pages[name]})" if name in pages else "")
        for keys in leaves[:_MOST_LINES]
    ]
    lines += [f"- and {len(leaves) - _MOST_LINES} more"] if len(leaves) > _MOST_LINES else []
    return "\n".join([*(lines or ["- nothing that can be shown at once"]), ""])


def _unquoted(said: str) -> str:
    return said.strip().strip("\"'").strip()


def _name(said: str | None) -> str | None:
    name = _unquoted(said or "")[:100].strip()
    return name if problem_with_name(name) is None else None


def _name_for(document: str, fields: Iterable[Field]) -> str:
    """A name by the kind of the document and who it is from."""
    kind = document_type(document)[0].replace("_", " ").capitalize()
    vendor = next((one.value for one in fields if one.keys[0] in ("vendor", "vendor_name", "seller")), None)
    return (_name(f"{kind} of {vendor}") if isinstance(vendor, str) else None) or kind


def _schema_of(fields: Iterable[Field]) -> JsonObject:
    """A schema of the values that were found, each with the type it has here."""
    root: JsonObject = {"type": "object", "properties": {}}
    for one in fields:
        inside = root
        for key in one.keys[:-1]:
            inside = as_object(as_object(inside["properties"]).setdefault(key, {"type": "object", "properties": {}}))
            if "properties" not in inside:  # a value and an object of one name: the value was first
                break
        else:
            as_object(inside["properties"]).setdefault(one.keys[-1], _shape_of(one.value))
    return root


def _shape_of(value: JsonValue) -> JsonObject:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        return {"type": "number"}
    is_day = isinstance(value, str) and _DAY.fullmatch(value)
    return {"type": "string", "format": "date"} if is_day else {"type": "string"}


_PLEASE = r"(?:please,? |could you |can you |would you |now |then |and )*"
_IT = r"(?:it|this|that|(?:this |the )?(?:document|file|invoice|receipt))"
_MAKE = rf"{_PLEASE}(?:make|create|build|propose|draft|write|suggest)(?: me)?(?: an?| the| another)?(?: new)?"
_CALLED = r"(?:(?: .{0,200})? (?:called|named) (?P<name>.+)| .*)?"
_ASKED = r"(?:what|which|who|when|where|how (?:much|many|long))(?:'s| is| are| was| were)?"
_RULES: Final[list[tuple[re.Pattern[str], Callable[[_Turn, re.Match[str]], str]]]] = [
    (re.compile(pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (rf"{_MAKE}(?: json)? schema{_CALLED}", _make_schema),
        (rf"{_MAKE} prompt{_CALLED}", _make_prompt),
        (
            rf"{_PLEASE}(?:re-?)?(?:extract|run (?:the |an )?extraction|read (?:{_IT}|the (?:fields|values)))"
            r"(?: (?:it|this|the|all|every|again|now|with|by|everything)\b.*)?",
            _extract,
        ),
        (rf"{_PLEASE}tag (?:{_IT} )?(?:as |with )?(?P<tag>.+)", _tag),
        (rf"{_PLEASE}(?:put|add) (?:the |a )?tag (?P<tag>.+?)(?: (?:on|to) {_IT})?", _tag),
        (
            rf"{_PLEASE}(?:untag (?:{_IT} )?|(?:remove|drop|take off) the tag )(?P<tag>.+?)(?: (?:from|of) {_IT})?",
            _untag,
        ),
        (rf"{_PLEASE}(?:rename|name|call) {_IT}(?: to| as| into)? (?P<name>.+)", _rename),
        (
            r"(?:what (?:was|is|has been|did you) (?:extracted|found|extract|find|read)"
            rf"|{_PLEASE}show (?:me )?(?:the |what )?(?:extraction|results?|fields|values|(?:is|was) extracted))\??",
            _show_result,
        ),
        (
            rf"{_PLEASE}(?:list|show|which|what)(?: me| are)?(?: there)?(?: all)?(?: the| our| my)? "
            r"(?P<kind>schema|prompt|tag|document)s(?: .*)?\??",
            _show_list,
        ),
        (rf"{_ASKED} (?:it )?(?:the |its |our )?(?P<field>[^?]{{1,80}})\??", _answer),
        (r"(?!(?:help|hello|hi)\b).*(?:\bset\b|\bchange\b|\bis\b|\bto\b|\bremove\b|=|:).*", _change),
    )
]
