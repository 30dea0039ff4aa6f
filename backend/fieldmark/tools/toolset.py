"""Tools as declared to the model (the same in every run), and their actions in one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MethodType
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast

from pydantic import AliasChoices, AliasGenerator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.changes import Preview
from fieldmark.domain.events import ActionType, EventBase
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.partial_json import WrittenLeaf
from fieldmark.domain.statuses import Approval
from fieldmark.domain.values import canonical, rounded_number_problem, value_problem
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.errors import ModelRetry

MAX_RESULT_BYTES = 40_000
"""The CLI spills a larger result into a file, which the agent has no tool to open."""

Confidence = Annotated[
    float,
    Field(strict=True, ge=0, le=1, allow_inf_nan=False, description="0 to 1."),
]


_OTHER_NAMES: Mapping[str, str] = {
    "document_id": "doc_id",
    "document_ids": "doc_ids",
    "citation": "citation_number",
    "number": "citation_number",
    "quote": "cited_text",
}
"""Other names of arguments that models use. They are accepted, but the schema has only the first name."""


class ToolInput(BaseModel):
    """Base class of tool arguments. Undeclared arguments are refused."""

    model_config = ConfigDict(
        extra="forbid",
        defer_build=True,  # built when first used: only a worker calls tools
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, _OTHER_NAMES[name]) if name in _OTHER_NAMES else name
        ),
    )


class ToolEffect(StrEnum):
    """What a call changes. This decides how it is run (see tools/ledger.py).

    READ   nothing: one transaction, no ledger entry, no approval
    NOTE   the run's own record, such as what it has read: like WRITE, but without approval
    WRITE  the database: one transaction together with its ledger entry
    """

    READ = "read"
    NOTE = "note"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ShownResult:
    """How a finished call is shown to people, instead of the tool's summary and the text for the model."""

    message: str
    details: JsonObject
    output: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result. `code` and `data` are for programs, `text` for the model. `events` are published in the call's
    transaction. `needs_attention`: the call did not do what was asked, so the model must see the result before it ends
    the run."""

    text: str
    code: str = "ok"
    data: JsonValue = None
    events: Sequence[EventBase] = ()
    needs_attention: bool = False
    shown: ShownResult | None = None


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The final answer of a run: its text, and `result` for programs if the task has typed answers. `fallback_code` is
    set if the agent found no answer: the task's fallback then makes one."""

    text: str
    result: JsonObject | None = None
    fallback_code: FallbackCode | None = None
    # Whether an event of the run already has the text.
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class ChildRun:
    """Returned by a tool that needs another agent: the run to start. The call waits for all runs that it starts; then
    the tool's `collect` makes the result. Approval and model are those of the parent unless given here, and a child of
    a background run runs in the background too."""

    text: str
    task: str
    input: Mapping[str, JsonValue]
    subject: Subject
    approval: Approval | None = None
    model: str | None = None
    background: bool = False


def model_text(text: str, code: str, data: JsonValue) -> str:
    """Return a result as text for the model. Codes other than "ok" and data are added as a last line of JSON.

    >>> model_text("Stored.", "stored", {"version": 3})
    'Stored.\\n{"code":"stored","data":{"version":3}}'
    """
    if code == "ok" and data is None:
        return text
    line: dict[str, JsonValue] = {"code": code} if data is None else {"code": code, "data": data}
    return f"{text}\n{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}"


ACTION_TYPES: Mapping[str, ActionType] = {
    **dict[str, ActionType].fromkeys(("search", "list"), "searching"),
    **dict[str, ActionType].fromkeys(("get", "read", "help"), "reading"),
    "record": "planning",
    "open": "opening",
    "submit": "summarising",
}
"""The kind of step shown to people, by the verb in the tool's name."""

Input = TypeVar("Input", bound=ToolInput)

PartialWrite: TypeAlias = Callable[[Sequence[WrittenLeaf]], Sequence[tuple[str, JsonValue]]]


@dataclass(frozen=True, slots=True)
class OptionalEnd:
    """The optional argument with which a call also ends the run, as the tool `tool` does. The call then needs approval
    for both tools. If it may not end the run now, it is carried out without the argument."""

    argument: str
    tool: str


@dataclass(frozen=True, slots=True)
class Tool(Generic[Input]):
    """A tool as declared to the model. The docstring of its input class is the tool's description.

    `partial_write(leaves)` returns the fields, by path name, that a call will write. It is used while the model is
    still streaming the call, with the argument values received so far.
    """

    name: str
    input: type[Input]
    summary: Callable[[Input], str]
    act: Callable[[Any], Action]
    """Returns what the tool does in one run, given the run's object of the class that declares the tool."""
    effect: ToolEffect = ToolEffect.READ
    partial_write: PartialWrite | None = None
    # Ends the run after a successful call: makes the run's answer from the arguments and the result's `data`. If it
    # returns None, the run goes on.
    answer: Callable[[Input, JsonValue], RunAnswer | None] | None = None
    optional_end: OptionalEnd | None = None
    # When a call is refused, later calls of the same message are refused too, unless one of the two is independent.
    is_independent: bool = False

    @property
    def description(self) -> str:
        return " ".join((self.input.__doc__ or "").split())

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the input, without keywords that do not help the model: each word costs tokens."""
        return _input_schema(self.input)

    @property
    def action_type(self) -> ActionType:
        """The kind of step that people see for a call."""
        by_effect: ActionType = "writing" if self.effect is ToolEffect.WRITE else "analysing"
        return ACTION_TYPES.get(self.name.partition("_")[0], by_effect)

    @property
    def is_gated(self) -> bool:
        """Whether calls are recorded in the ledger: all except reads."""
        return self.effect is not ToolEffect.READ

    @property
    def asks(self) -> bool:
        """Whether calls can need a person's approval: only writes."""
        return self.effect is ToolEffect.WRITE


@dataclass(frozen=True, slots=True)
class Action:
    """What a tool does in one run. Its functions close over the run's organisation, documents and conversation.

    `run(connection, value)` does the work in the call's transaction: `value` is what `prepare` returned, else the
    arguments. `check(args)` refuses invalid arguments without a connection, before a person is asked and
    before the call runs. `prepare(args)` works without a connection too, before any row is locked. `preview` returns
    what a write would change, for the person who is asked. `is_covered` returns whether the call needs no approval of
    its own, because it only follows from what a person approved in this run. A tool with `collect` starts child runs:
    its `run` returns them.
    """

    run: Callable[[Connection, Any], Awaitable[ToolResult | ChildRun | Sequence[ChildRun]]]
    check: Callable[[Any], Awaitable[None]] | None = None
    prepare: Callable[[Any], Awaitable[Any]] | None = None
    preview: Callable[[Connection, Any], Awaitable[Preview]] | None = None
    is_covered: Callable[[Connection, Any], Awaitable[bool]] | None = None
    collect: Callable[[Connection, Any, Sequence[RunRow]], Awaitable[ToolResult]] | None = None


Run = TypeVar("Run", bound=Callable[..., Awaitable[ToolResult | ChildRun | Sequence[ChildRun]]])


def tool(
    input_class: type[Input],
    summary: Callable[[Input], str],
    effect: ToolEffect = ToolEffect.READ,
    *,
    partial_write: PartialWrite | None = None,
    answer: Callable[[Input, JsonValue], RunAnswer | None] | None = None,
    optional_end: OptionalEnd | None = None,
    is_independent: bool = False,
    **steps: Callable[..., Any],
) -> Callable[[Run], Run]:
    """Declare a method as the tool of its name: the method is the `run` of its `Action`, and `steps` are the methods
    for the rest of it, such as `preview`."""

    def declare(run: Run) -> Run:
        def act(tools: object) -> Action:
            return Action(MethodType(run, tools), **{name: MethodType(step, tools) for name, step in steps.items()})

        declared = Tool(
            run.__name__, input_class, summary, act, effect, partial_write, answer, optional_end, is_independent
        )
        setattr(run, "declared_tool", declared)  # noqa: B010 - a function has no such attribute for a type checker
        return run

    return declare


def declared_tools(tools: type[Any]) -> list[Tool[Any]]:
    """Return the tools that a class declares, in order: those of its `item_tools`, if any, and of its methods."""
    of_methods = (getattr(one, "declared_tool", None) for one in vars(tools).values())
    return [*getattr(tools, "item_tools", ()), *(one for one in of_methods if one is not None)]


class Toolset:
    """The declared tools of an agent: the same names, descriptions and schemas in every run."""

    def __init__(self, *classes: type[Any]) -> None:
        self.tools: Mapping[str, Tool[Any]] = {one.name: one for each in classes for one in declared_tools(each)}

    def bind(self, *tools: object, service_tools: object | None = None) -> RunTools:
        """Return the tools of one run. `tools` are its objects of the classes that declare them. The model is not
        offered `service_tools`, which only the service calls."""
        actions = {one.name: one.act(each) for each in tools for one in declared_tools(type(each))}
        assert actions.keys() == self.tools.keys(), actions.keys() ^ self.tools.keys()
        declared = dict(self.tools)
        for one in [] if service_tools is None else declared_tools(type(service_tools)):
            declared[one.name], actions[one.name] = one, one.act(service_tools)
        return RunTools(declared, actions)

    def check(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolInput:
        """Return the validated arguments. Raise ModelRetry that lists up to 10 faults for the model to fix."""
        tool = self.tools.get(name)
        if tool is None:
            raise ModelRetry(f"There is no tool {name[:80]!r}. There are: {', '.join(self.tools)}.", "unknown_tool")
        problem = value_problem(dict(arguments)) or rounded_number_problem(dict(arguments))
        if problem:
            raise ModelRetry(problem)
        try:
            return tool.input.model_validate(dict(arguments))
        except ValidationError as error:
            faults = error.errors()[:10]
            sentences = [_fault_text(fault) for fault in faults]
            if any(fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1 for fault in faults):
                names = [field.alias or name for name, field in tool.input.model_fields.items()]
                sentences.append(f"The arguments are: {', '.join(names) or 'none'}.")
            raise ModelRetry(" ".join(sentences), details={"errors": list(map(_fault_details, faults))}) from None

    def answer(self, name: str, arguments: Mapping[str, JsonValue], data: JsonValue) -> RunAnswer | None:
        """Return the run's answer if this finished call ends the run, else None. Empty text never ends it."""
        tool = self.tools[name]
        answer = None if tool.answer is None else tool.answer(self.check(name, arguments), data)
        return answer if answer is not None and answer.text.strip() else None

    @property
    def ending(self) -> list[str]:
        """Names of the tools that can end a run."""
        return [tool.name for tool in self.tools.values() if tool.answer is not None]

    def summary(self, name: str, arguments: Mapping[str, JsonValue]) -> str:
        """Return what a call does, in words for people."""
        try:
            return self.tools[name].summary(self.check(name, arguments))
        except (ModelRetry, KeyError):
            return f"Calling {name[:80]}"


class RunTools(Toolset):
    """An agent's tools with their actions in one run."""

    def __init__(self, declared: Mapping[str, Tool[Any]], actions: Mapping[str, Action]) -> None:
        super().__init__()
        self.tools = declared
        self.actions = actions


_NOT_FOR_THE_MODEL = frozenset(
    {"title", "additionalProperties", "minLength", "maxLength", "minimum", "maximum", "minProperties"}
)
"""Keywords left out of a tool's schema, since they do not help the model. Calls are still checked against them."""

_ANY_VALUE: JsonObject = {"type": ["string", "number", "boolean", "object", "array", "null"]}
"""Any JSON value. Without a type, the CLI would convert a string that looks like a number."""


@cache  # each start of a CLI declares all tools again
def _input_schema(input_class: type[ToolInput]) -> JsonObject:
    schema = input_class.model_json_schema()
    lean = _lean(schema, schema.get("$defs", {}))
    return {key: value for key, value in lean.items() if key not in ("description", "$defs")}


def _lean(schema: Any, definitions: JsonObject) -> Any:
    """Return a schema without titles, bounds, null defaults and references. Optional arguments lose their null type."""
    if isinstance(schema, list):
        return [_lean(item, definitions) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    pairs = dict(cast(JsonObject, schema))
    if "$ref" in pairs:
        pairs |= cast(JsonObject, definitions[str(pairs.pop("$ref")).rpartition("/")[2]]) or _ANY_VALUE
    match pairs.get("anyOf"):
        case [dict() as only, {"type": "null"}]:
            del pairs["anyOf"]
            pairs = {**only, **pairs}
        case _:
            pass
    return {
        key: {name: _lean(item, definitions) for name, item in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _lean(value, definitions)
        for key, value in pairs.items()
        if not (key in _NOT_FOR_THE_MODEL and not isinstance(value, dict)) and not (key == "default" and value is None)
    }


def hash_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Return the SHA-256 of the canonical arguments. The call that runs must have the hash that was approved."""
    return hashlib.sha256(canonical(dict(arguments))).hexdigest()


def _fault_details(fault: Mapping[str, Any]) -> dict[str, Any]:
    params = {name: value for name, value in fault.get("ctx", {}).items() if isinstance(value, str | int | float)}
    return {"path": paths.name(fault["loc"]), "code": fault["type"], "message": fault["msg"], "params": params}


def _fault_text(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in fault["loc"]) or "arguments"
    if fault["type"] == "extra_forbidden":
        return f"{where}: there is no such argument."
    got = "" if fault["type"] == "missing" else f", got {str(fault['input'])[:80]}"
    return f"{where}: {fault['msg']}{got}."
