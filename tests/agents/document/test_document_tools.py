"""Tools that list, rename, tag and delete documents."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.conversation import start_chat
from extraction_case import INVOICE, document_with_pages
from fieldmark.tools.errors import ToolFailed

pytestmark = pytest.mark.anyio


async def test_conversation_document_can_be_renamed_and_tagged(chat):
    context = await chat.turn()
    await chat.call(context, "create_tag", name="paid")
    await chat.call(context, "create_tag", name="late")
    await chat.call(context, "update_document", add_tags=["late"])
    preview = await chat.preview(context, "update_document", name="May.pdf", add_tags=["paid"], remove_tags=["late"])
    assert [(one.path, one.old, one.new) for one in preview.changes] == [
        ("name", "invoice.txt", "May.pdf"),
        ("tags", ["late"], ["paid"]),
    ]
    answer = await chat.call(context, "update_document", name="May.pdf", add_tags=["paid"], remove_tags=["late"])
    assert (answer.code, answer.data["name"], answer.data["tags"]) == ("document_updated", "May.pdf", ["paid"])
    listed = (await chat.call(context, "list_documents", tag="paid", name_search="may")).data["documents"]
    assert [(one["document_id"], one["of_this_conversation"]) for one in listed] == [(str(chat.case.document_id), True)]
    assert (await chat.call(context, "list_documents", tag="late")).data == {"documents": []}


async def test_only_documents_named_by_the_user_are_changed(chat, database, clone):
    async with document_with_pages(database, clone.owner_url, chat.scope, [INVOICE]) as other:
        other_id = str(other.document_id)
        context = await chat.turn()
        for name, more in (("update_document", {"name": "x"}), ("delete_document", {})):
            refused = await chat.call(context, name, document_id=other_id, **more)
            assert (refused.is_error, refused.code) == (True, "not_given")
            with pytest.raises(ToolFailed):
                await chat.preview(context, name, document_id=other_id, **more)
        await chat.end(context)
        context = await chat.turn(mentions=[{"type": "extraction", "id": other_id}])  # not a document mention
        assert (await chat.call(context, "update_document", document_id=other_id, name="x")).code == "not_given"
        await chat.end(context)
        # A mention is valid for the whole conversation, but not for others.
        await chat.end(await chat.turn(mentions=[{"type": "document", "id": other_id}]))
        context = await chat.turn()
        assert (await chat.call(context, "update_document", document_id=other_id, name="x")).code == "document_updated"
        other_chat = await start_chat(chat.case)
        refused = await other_chat.call(await other_chat.turn(), "update_document", document_id=other_id, name="y")
        assert refused.code == "not_given"
        async with document_with_pages(database, clone.owner_url, chat.scope, [INVOICE]) as inside:
            moved = "update public.documents set parent_document_id = %s, number_in_parent = %s where id = %s"
            chat.case.sql(moved, other.document_id, 1, inside.document_id)
            previewed = (await chat.preview(context, "delete_document", document_id=other_id)).changes
            chat.case.sql(moved, None, None, inside.document_id)
        assert [(one.path, one.old, one.removed) for one in previewed] == [
            ("name", "x", True),
            ("documents_inside", 1, True),
        ]
        assert (await chat.call(context, "delete_document", document_id=other_id)).code == "document_deleted"
        assert chat.case.sql("select id from public.documents where id = %s", other.document_id) == []
        again = await chat.call(context, "delete_document", document_id=other_id)
        assert (again.is_error, again.code) == (True, "not_found")


async def test_conversation_document_cannot_be_deleted(chat, database, clone):
    context = await chat.turn()
    refused = await chat.call(context, "delete_document", document_id=str(chat.case.document_id))
    assert (refused.is_error, refused.code) == (True, "own_document")
    async with document_with_pages(database, clone.owner_url, chat.scope, [INVOICE]) as mail:
        chat.case.sql(
            "update public.documents set parent_document_id = %s, number_in_parent = 1 where id = %s",
            mail.document_id,
            chat.case.document_id,
        )
        await chat.end(context)
        context = await chat.turn(mentions=[{"type": "document", "id": str(mail.document_id)}])
        refused = await chat.call(context, "delete_document", document_id=str(mail.document_id))
        assert (refused.is_error, refused.code) == (True, "own_document")
    assert len(chat.case.sql("select id from public.documents")) == 2


async def test_mentioned_document_of_another_organisation_is_not_found(chat, stranger_chat):
    theirs = str(stranger_chat.case.document_id)
    # The API refuses such a mention; a front end can insert it.
    context = await chat.turn(mentions=[{"type": "document", "id": theirs}])
    for name, more in (("update_document", {"name": "x"}), ("delete_document", {})):
        for document_id in (theirs, str(uuid4())):
            assert (await chat.call(context, name, document_id=document_id, **more)).code in (
                "not_found",
                "not_given",
            )
    assert theirs not in (await chat.call(context, "list_documents")).text
