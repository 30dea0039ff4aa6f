"""The document agent: its tasks, what they are given, and its spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from fieldmark.agents.document import mentions
from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.limits import REFINEMENTS, limit_action
from fieldmark.agents.document.mentions import Mention
from fieldmark.agents.document.message import message_context
from fieldmark.agents.document.offline import answer
from fieldmark.agents.document.tools.documents import DocumentTools
from fieldmark.agents.document.tools.extraction import ChatExtractionTools
from fieldmark.agents.document.tools.library import PromptTools, SchemaTools, TagTools
from fieldmark.agents.spec import AgentSpec, Briefing, Message, RunStart, Task
from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import Approval, DocumentStatus
from fieldmark.errors import DocumentFailed, Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services import auto_creations
from fieldmark.stores import documents, threads
from fieldmark.stores.rows import DocumentRow
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import RunTools, Toolset

MAX_ROUNDS = 10
AUTO_CREATE_SECONDS = 120

Mentions = Annotated[
    list[Mention],
    Field(
        max_length=mentions.MAX_MENTIONS,
        description="What the message is about: the agent is shown all of it. Of a schema or a prompt the id means its "
        "latest version, or names a version.",
    ),
]


class ChatInput(BaseModel):
    """The stored part of a message."""

    model_config = ConfigDict(extra="forbid")

    message: Message = Field(examples=["make a schema for invoices like this"])
    mentions: Mentions = []


class ChatRequest(ChatInput):
    """Send a message to the agent about a document."""

    # One of the two must be given.
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"type": "string"}}} for name in ("document_id", "thread_id")
            ]
        },
    )

    document_id: UUID | None = Field(None, description="Required unless `thread_id` is given.")
    thread_id: UUID | None = Field(None, description="The conversation to continue. Default: a new one.")


class AutoCreateRequest(BaseModel):
    """Propose a schema, a prompt and an extraction for a document."""

    model_config = ConfigDict(extra="forbid")

    document_id: UUID


class AutoCreateInput(BaseModel):
    """Empty: the request is always the same."""

    model_config = ConfigDict(extra="forbid")


async def _begin_chat(conn: Connection, scope: Scope, request: ChatRequest) -> RunStart[ChatInput]:
    document_id = request.document_id
    if document_id is None:
        if request.thread_id is None:
            raise Invalid("A document_id is missing. Give it, or the thread_id of a conversation about the document.")
        document_id = (await threads.get(conn, request.thread_id)).document_id
    if document_id is not None:
        await _find_readable_document(conn, document_id)
    thread = await threads.for_message(
        conn, scope, request.thread_id, request.message, agent=DOCUMENT.name, document_id=document_id
    )
    mentioned = list(dict.fromkeys(request.mentions))
    await mentions.check(conn, mentioned)
    return RunStart(Subject(document_id, None, thread.id), ChatInput(message=request.message, mentions=mentioned))


async def _begin_auto_create(conn: Connection, scope: Scope, request: AutoCreateRequest) -> RunStart[AutoCreateInput]:
    await _find_readable_document(conn, request.document_id)
    return RunStart(Subject(request.document_id), AutoCreateInput())


async def _find_readable_document(conn: Connection, document_id: UUID) -> DocumentRow:
    document = await documents.find(conn, document_id)
    if document is None:
        raise NotFound("There is no such document.")
    if document.status is DocumentStatus.FAILED:
        raise DocumentFailed(document.error or "The document could not be read.")
    return document


async def _brief_chat(conn: Connection, context: RunContext, given: ChatInput) -> Briefing:
    shown = await message_context(conn, Conversation.of(context), given.mentions, given.message)
    return DOCUMENT.text("chat", boundary=shown.boundary, context=shown.text, message=given.message.strip())


async def _brief_auto_create(conn: Connection, context: RunContext, given: AutoCreateInput) -> Briefing:
    proposal = await auto_creations.match_earlier_document(conn, context.scope, context.run_id, context.document_id)
    # (Read after `match_earlier_document`, which puts a matching document's schema and prompt into the working state.)
    shown = await message_context(conn, Conversation.of(context))
    asked = DOCUMENT.text("propose", kind=proposal.kind, refinements=REFINEMENTS)
    if proposal.matched is not None:
        asked = DOCUMENT.text("propose_again", why=str(proposal.matched["why"]))
    return DOCUMENT.text("auto_create", boundary=shown.boundary, context=shown.text, asked=asked.strip())


CHAT = Task(
    name="chat",
    description="Talk with the agent about a document.",
    request=ChatRequest,
    input=ChatInput,
    begin=_begin_chat,
    briefing=_brief_chat,
    needs=("document_id", "thread_id"),
    message=lambda given: given.message,
    max_turns=MAX_ROUNDS + 2,  # one to ask the model to finish, and one for its answer
    rounds=MAX_ROUNDS,
)
AUTO_CREATE = Task(
    name="auto_create",
    description="Propose a schema, a prompt and an extraction for the document.",
    request=AutoCreateRequest,
    input=AutoCreateInput,
    begin=_begin_auto_create,
    briefing=_brief_auto_create,
    needs=("document_id",),
    max_turns=MAX_ROUNDS + 1,
    seconds=AUTO_CREATE_SECONDS,
    approval=Approval.AUTO,
    when_read=True,
)

_TOOLS = (SchemaTools, PromptTools, TagTools, DocumentTools, ChatExtractionTools)
_TOOLSET = Toolset(*_TOOLS)


def create_document_tools(
    context: RunContext, *, user_id: UUID, org_id: UUID, document_id: UUID, thread_id: UUID | None
) -> RunTools:
    """Return the tools of one run. They close over these ids. An argument may name another document of the
    organisation; it can be changed only if the person mentioned it in this conversation."""
    about = Conversation(context.acting_as(user_id, org_id), document_id, thread_id)
    tools = _TOOLSET.bind(*(each(about) for each in _TOOLS))
    if about.thread_id is not None:
        return tools
    limited = {
        name: limit_action(about, name, action) if tools.tools[name].is_gated else action
        for name, action in tools.actions.items()
    }
    return RunTools(tools.tools, limited)


DOCUMENT = AgentSpec(
    name="document",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=lambda context: create_document_tools(
        context,
        user_id=context.user_id,
        org_id=context.org_id,
        document_id=context.document_id,
        thread_id=context.run.thread_id,
    ),
    tasks={task.name: task for task in (CHAT, AUTO_CREATE)},
    approval=Approval.ASK,
    offline=answer,
)
