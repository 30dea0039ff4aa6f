"""What an agent is: a name, a prompt, a toolset and its tasks. Nothing above this folder names one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from fieldmark.db.pool import Connection
from fieldmark.domain.answers import FallbackCode
from fieldmark.domain.statuses import Approval, Effort
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import Block, Body
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.stores.tool_calls import CallRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import ToolOutcome
from fieldmark.tools.toolset import Answer, RunTools, Toolset

Request = TypeVar("Request", bound=BaseModel)
TaskInput = TypeVar("TaskInput", bound=BaseModel)

Prompt: TypeAlias = str | tuple[str, str]
"""A message to the agent. In two parts it begins with what is the same for many runs, which the model's service can
then keep with all that stands before it; the second part is the run's own."""

MAX_MESSAGE = 20_000
Message = Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE)]
"""What a person says to an agent."""

MORE_TURNS = 3
"""Beyond its rounds of calls: in one the model is told to come to an end, in one it does, and one is for the last
question."""

_BRIEFS = Path(__file__).parent / "briefs"
_MAX_DECIDED_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class RunStart(Generic[TaskInput]):
    """What a request comes to: what the run is about, what is kept as its input, and the model that is asked where the
    request names none."""

    subject: Subject
    input: TaskInput
    model: str | None = None


CallTool: TypeAlias = Callable[[str, dict[str, JsonValue]], Awaitable[ToolOutcome]]
"""Runs a tool of the agent's for a run, recorded and told like a call of the model's."""


@dataclass(frozen=True, slots=True)
class LastQuestion(Generic[TaskInput]):
    """What the model is asked once more where its run came to no answer: one message in a conversation of its own, to
    be answered with one call of `tool`. `prepare` runs what calls it needs and makes the message; None where there is
    nothing to ask. It has `seconds`, which the run keeps back from its own."""

    tool: str
    seconds: int
    prepare: Callable[[RunContext, TaskInput, CallTool], Awaitable[Prompt | None]]


@dataclass(frozen=True, slots=True)
class Task(Generic[Request, TaskInput]):
    """One thing that an agent can be asked for. Its name is unique among all agents: `POST /api/agent/<name>` starts
    it.

    A caller gives a `request`; `check` refuses a bad one before any transaction, `begin` answers in one what the run is
    about and what is kept as its `input`. `briefing` makes the run's first message from that. `message` gives the
    person's own words, where the task lets the agent speak for the person: a correction. `max_turns` and `seconds` hold
    where they are less than the service allows; the seconds are those of the run and of all that it has started, except
    where it waits for a person. After so many messages with calls as `rounds` says, the model is told to answer in
    words. `needs` are the subject columns that a run of it has. `approval` holds in the place of the agent's. With
    `when_read` it is begun for each document that asks for it, when that is read.
    """

    name: str
    description: str
    request: type[Request]
    input: type[TaskInput]
    begin: Callable[[Connection, Scope, Request], Awaitable[RunStart[TaskInput]]]
    briefing: Callable[[Connection, RunContext, TaskInput], Awaitable[Prompt]]
    needs: Sequence[Literal["document_id", "extraction_id", "thread_id"]]
    check: Callable[[Request], Awaitable[None]] | None = None
    message: Callable[[TaskInput], str] | None = None
    # Makes the answer of a run whose agent came to none, of the code that says why. No model is asked for it. A task
    # that has it counts as answered only where a call has ended the run. Before it comes the last question, if there
    # is one.
    fallback: Callable[[RunContext, TaskInput, FallbackCode], Awaitable[Answer]] | None = None
    last_question: LastQuestion[TaskInput] | None = None
    # Records in the run's thread that it failed or was cancelled, given the code of why.
    on_failure: Callable[[Connection, RunContext, str], Awaitable[None]] | None = None
    # Returns whether the caller wants what the task falls back on, without asking the agent.
    without_agent: Callable[[TaskInput], bool] | None = None
    max_turns: int | None = None
    seconds: int | None = None
    rounds: int | None = None
    approval: Approval | None = None
    when_read: bool = False

    def parse(self, run: RunRow) -> TaskInput:
        """The run's input. Raises Invalid for one that a front end has put there and that is none."""
        try:
            return self.input.model_validate(run.input)
        except ValidationError as error:
            raise Invalid(f"The run's input cannot be used: {faults_of(error)}.") from None


def faults_of(error: ValidationError) -> str:
    """What a model of pydantic's does not take, in words."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent. `briefs` is the folder of its texts: prompt.md, and whatever its tasks' briefings read.

    The prompt and the tools are the same bytes in every run, so that the provider's cache is hit; all that is
    particular to one run stands in its messages. `create_tools` makes the tools of one run, which close over whose it
    is and what it is about. `approval` holds where neither the request nor the task says who approves writes, `effort`
    where no setting does."""

    name: str
    briefs: Path
    toolset: Toolset
    tasks: Mapping[str, Task[Any, Any]]
    create_tools: Callable[[RunContext], RunTools]
    approval: Approval = Approval.AUTO
    effort: Effort = Effort.HIGH
    # Answers for the model where there is none, by fixed rules; None for a request that is not this agent's.
    offline: Callable[[Body], Sequence[Block] | None] | None = field(default=None, compare=False)

    @property
    def prompt(self) -> str:
        return self.text("prompt")

    @property
    def resumed(self) -> str:
        """What the agent is told when its task was begun before and broken off."""
        return self.text("resumed").strip()

    def text(self, name: str, **particulars: str | int | None) -> str:
        """One of the agent's texts, filled in. Raises KeyError for a particular that it needs and did not get."""
        return _filled(self.briefs / f"{name}.md", particulars)


def check_words(what: str, words: str | None) -> None:
    """Raise Invalid for words of a person that the database cannot keep."""
    if words is not None and (problem := value_problem(words)):
        raise Invalid(f"The {what} cannot be used. {problem}")


def decided_text(calls: Sequence[CallRow]) -> str:
    """What the agent is told of calls that a person decided while its conversation was away."""
    return _filled(_BRIEFS / "decided.md", {"calls": "\n".join(map(_decided_line, calls))}).strip()


def _decided_line(call: CallRow) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    said = call.result or call.reason or "A person refused it."
    return f"- {call.tool} {arguments[:_MAX_DECIDED_CHARACTERS]} ({call.status}): {said[:_MAX_DECIDED_CHARACTERS]}"


def _filled(file: Path, particulars: Mapping[str, str | int | None]) -> str:
    text = file.read_text(encoding="utf-8")
    return Template(text).substitute(particulars) if particulars else text
