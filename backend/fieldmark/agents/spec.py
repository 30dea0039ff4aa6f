"""The definition of an agent: a name, a prompt, a toolset and tasks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, Field, JsonValue, ValidationError

from fieldmark.db.pool import Connection
from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import Approval, Effort
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import Block, Body
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.stores.tool_calls import CallRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import ToolOutcome
from fieldmark.tools.toolset import RunAnswer, RunTools, Toolset

Request = TypeVar("Request", bound=BaseModel)
TaskInput = TypeVar("TaskInput", bound=BaseModel)

Briefing: TypeAlias = str | tuple[str, str]
"""A message to the agent. A pair is a part that many runs share, which the provider can cache, and a part of this
run only."""

MAX_MESSAGE = 20_000


def _check_words(words: str) -> str:
    if problem := value_problem(words):
        raise ValueError(problem)
    return words


Message = Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE), AfterValidator(_check_words)]
"""A person's message to an agent, which the database can store."""

ItemName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_words)]
"""The name of a stored schema or prompt. Case does not matter."""

Instructions = Annotated[str, Field(max_length=MAX_MESSAGE), AfterValidator(_check_words)]

MORE_TURNS = 3
"""Turns on top of the rounds of calls: one asks the model to finish, one is its answer, one is the last question."""

_BRIEFS = Path(__file__).parent / "briefs"
_MAX_DECIDED_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class RunStart(Generic[TaskInput]):
    """What a new run is created with: its subject, its stored input, and the model to use if the request names none."""

    subject: Subject
    input: TaskInput
    model: str | None = None


CallTool: TypeAlias = Callable[[str, dict[str, JsonValue]], Awaitable[ToolOutcome]]
"""Run one of the agent's tools. The call is recorded and shown like a call of the model."""


@dataclass(frozen=True, slots=True)
class LastQuestion(Generic[TaskInput]):
    """A last question to the model after its run ended without an answer: one message in a new conversation, answered
    with one call of `tool`. `prepare` makes the calls it needs and returns the message, or None to ask nothing.
    `seconds` of the run's time are reserved for it."""

    tool: str
    seconds: int
    prepare: Callable[[RunContext, TaskInput, CallTool], Awaitable[Briefing | None]]


@dataclass(frozen=True, slots=True)
class Task(Generic[Request, TaskInput]):
    """A task that an agent can do. Its name is unique among all agents: `POST /api/agent/<name>` starts a run of it.

    `check` refuses an invalid request before the transaction in which `begin` returns the run's subject and `input`.
    `briefing` makes the run's first message from the input. `message` returns the person's own words, in tasks that act
    on the person's behalf, such as a correction. `max_turns` and `seconds` lower the limits of the service. `seconds`
    covers the run and its child runs, but not the time spent waiting for a person. `max_refusals` limits the refused
    calls of an attempt. After `rounds` messages with calls the model is asked to answer in words. `needs` are the
    subject columns that a run must have. `approval` overrides the agent's. A task with `when_read` starts for each
    document that asks for it, once the document is read.
    """

    name: str
    description: str
    request: type[Request]
    input: type[TaskInput]
    begin: Callable[[Connection, Scope, Request], Awaitable[RunStart[TaskInput]]]
    briefing: Callable[[Connection, RunContext, TaskInput], Awaitable[Briefing]]
    needs: Sequence[Literal["document_id", "extraction_id", "thread_id", "stack_id"]]
    check: Callable[[Request], Awaitable[None]] | None = None
    # Returns the scopes that a key needs for a request besides those of runs, each with the part that needs it.
    scopes: Callable[[Request], Mapping[Permission, str]] | None = None
    message: Callable[[TaskInput], str] | None = None
    # Returns the run's result if the agent's last text can be its answer, although the task requires a call.
    reply: Callable[[RunContext, TaskInput, str], Awaitable[JsonObject | None]] | None = None
    # Makes the answer of a run whose agent found none, without a model. The code says why. With a fallback, only a
    # call that ends the run counts as an answer, or a `reply`. The last question comes first, if there is one.
    fallback: Callable[[RunContext, TaskInput, FallbackCode], Awaitable[RunAnswer]] | None = None
    last_question: LastQuestion[TaskInput] | None = None
    # Records in the run's thread that the run failed or was cancelled, with the code of the reason.
    on_failure: Callable[[Connection, RunContext, str], Awaitable[None]] | None = None
    # Returns whether the caller wants the fallback right away, without the agent.
    without_agent: Callable[[TaskInput], bool] | None = None
    max_turns: int | None = None
    max_refusals: int | None = None
    seconds: int | None = None
    rounds: int | None = None
    approval: Approval | None = None
    when_read: bool = False
    # Returns the call that the service makes after the agent has completed the task: a tool's name and its arguments.
    # The run ends after that call. The last argument is the agent's answer.
    last_call: Callable[[RunContext, TaskInput, str], Awaitable[tuple[str, JsonObject] | None]] | None = None
    # Only other runs start it.
    is_internal: bool = False

    def parse(self, run: RunRow) -> TaskInput:
        """Return the run's input. Raise Invalid if it is malformed, since front ends can insert runs."""
        try:
            return self.input.model_validate(run.input)
        except ValidationError as error:
            raise Invalid(f"The run's input cannot be used: {validation_errors_text(error)}.") from None


def validation_errors_text(error: ValidationError) -> str:
    """Return the first five validation errors as one sentence."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])


@dataclass(frozen=True, slots=True, eq=False)
class AgentSpec:
    """An agent. `briefs` is the folder of its texts: prompt.md, and the texts of its tasks.

    The prompt and the tools are the same bytes in every run, so the provider can cache them. Everything specific to
    a run is in its messages. `create_tools` makes the tools of one run, bound to its organisation and subject.
    `approval` and `effort` are defaults, for runs whose request, task or settings name none."""

    name: str
    briefs: Path
    toolset: Toolset
    tasks: Mapping[str, Task[Any, Any]]
    create_tools: Callable[[RunContext], RunTools]
    approval: Approval = Approval.AUTO
    effort: Effort = Effort.HIGH
    # Its runs use the service's second model, by default that of FIELDMARK_SECOND_MODEL.
    uses_second_model: bool = False
    # Answers in place of a model, by fixed rules. Returns None for another agent's request.
    offline: Callable[[Body], Sequence[Block] | None] | None = field(default=None, compare=False)

    @property
    def prompt(self) -> str:
        return self.text("prompt")

    @property
    def resumed(self) -> str:
        """The message that continues an interrupted task."""
        return self.text("resumed").strip()

    def text(self, name: str, **particulars: str | int | None) -> str:
        """Return one of the agent's texts with its placeholders filled in. Raise KeyError if a value is missing."""
        return _fill_template(self.briefs / f"{name}.md", particulars)


def decided_text(calls: Sequence[CallRow]) -> str:
    """Return the message that reports a person's decisions on calls to an agent that did not wait for them."""
    return _fill_template(_BRIEFS / "decided.md", {"calls": "\n".join(map(_decided_line, calls))}).strip()


def _decided_line(call: CallRow) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    said = call.result or call.reason or "A person refused it."
    return f"- {call.tool} {arguments[:_MAX_DECIDED_CHARACTERS]} ({call.status}): {said[:_MAX_DECIDED_CHARACTERS]}"


def _fill_template(file: Path, particulars: Mapping[str, str | int | None]) -> str:
    text = file.read_text(encoding="utf-8")
    return Template(text).substitute(particulars) if particulars else text
