"""The tools that list, name, tag and delete documents, and read the conversation's own."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.talking import talk_at
from extraction_case import INVOICE, document_with_pages
from fieldmark.tools.errors import ToolFailed

pytestmark = pytest.mark.anyio


async def test_conversation_document_can_be_renamed_and_tagged(talk):
    context = await talk.turn()
    await talk.call(context, "create_tag", name="paid")
    await talk.call(context, "create_tag", name="late")
    await talk.call(context, "update_document", add_tags=["late"])
    preview = await talk.preview(context, "update_document", name="May.pdf", add_tags=["paid"], remove_tags=["late"])
    assert [(one.path, one.old, one.new) for one in preview.changes] == [
        ("name", "invoice.txt", "May.pdf"),
        ("tags", ["late"], ["paid"]),
    ]
    answer = await talk.call(context, "update_document", name="May.pdf", add_tags=["paid"], remove_tags=["late"])
    assert (answer.code, answer.data["name"], answer.data["tags"]) == ("document_updated", "May.pdf", ["paid"])
    listed = (await talk.call(context, "list_documents", tag="paid", name_search="may")).data["documents"]
    assert [(one["document_id"], one["of_this_conversation"]) for one in listed] == [(str(talk.case.document_id), True)]
    assert (await talk.call(context, "list_documents", tag="late")).data == {"documents": []}


async def test_only_documents_named_by_the_user_are_changed(talk, database, clone):
    async with document_with_pages(database, clone.owner_url, talk.scope, [INVOICE]) as other:
        other_id = str(other.document_id)
        context = await talk.turn()
        for name, more in (("update_document", {"name": "x"}), ("delete_document", {})):
            refused = await talk.call(context, name, document_id=other_id, **more)
            assert (refused.is_error, refused.code) == (True, "not_given")
            with pytest.raises(ToolFailed):
                await talk.preview(context, name, document_id=other_id, **more)
        await talk.end(context)
        context = await talk.turn(mentions=[{"type": "extraction", "id": other_id}])  # no document is named by that
        assert (await talk.call(context, "update_document", document_id=other_id, name="x")).code == "not_given"
        await talk.end(context)
        # Mentioned in a turn, it is named in the whole conversation, and in no other.
        await talk.end(await talk.turn(mentions=[{"type": "document", "id": other_id}]))
        context = await talk.turn()
        assert (await talk.call(context, "update_document", document_id=other_id, name="x")).code == "document_updated"
        beside = await talk_at(talk.case)
        refused = await beside.call(await beside.turn(), "update_document", document_id=other_id, name="y")
        assert refused.code == "not_given"
        assert (await talk.preview(context, "delete_document", document_id=other_id)).changes[0].old == "x"
        assert (await talk.call(context, "delete_document", document_id=other_id)).code == "document_deleted"
        assert talk.case.sql("select id from public.documents where id = %s", other.document_id) == []
        again = await talk.call(context, "delete_document", document_id=other_id)
        assert (again.is_error, again.code) == (True, "not_found")


async def test_conversation_document_cannot_be_deleted(talk, database, clone):
    context = await talk.turn()
    refused = await talk.call(context, "delete_document", document_id=str(talk.case.document_id))
    assert (refused.is_error, refused.code) == (True, "own_document")
    async with document_with_pages(database, clone.owner_url, talk.scope, [INVOICE]) as mail:
        talk.case.sql(
            "update public.documents set parent_document_id = %s, number_in_parent = 1 where id = %s",
            mail.document_id,
            talk.case.document_id,
        )
        await talk.end(context)
        context = await talk.turn(mentions=[{"type": "document", "id": str(mail.document_id)}])
        refused = await talk.call(context, "delete_document", document_id=str(mail.document_id))
        assert (refused.is_error, refused.code) == (True, "own_document")
    assert len(talk.case.sql("select id from public.documents")) == 2


async def test_mentioned_document_of_another_organisation_is_not_found(talk, stranger_talk):
    theirs = str(stranger_talk.case.document_id)
    # (The request would have been refused: here a front end has put it into the run.)
    context = await talk.turn(mentions=[{"type": "document", "id": theirs}])
    for name, more in (("update_document", {"name": "x"}), ("delete_document", {})):
        for wanted in (theirs, str(uuid4())):
            assert (await talk.call(context, name, document_id=wanted, **more)).code in ("not_found", "not_given")
    assert theirs not in (await talk.call(context, "list_documents")).text
