"""What nobody sees is refused from an agent, in values and keys; a document that prints it is read."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def test_no_tool_stores_what_nobody_sees(desk):
    context = await desk.context()
    for tool, arguments, code in (
        ("update_field", {"path": "name", "value": "Ac\u200bme"}, "invisible_character"),
        ("update_field", {"path": "name", "value": {"a\u202e": 1}}, "invisible_character"),
        ("update_field", {"path": "na\u2060me", "value": "Acme"}, "invalid_path"),
    ):
        answer = await desk.call(context, tool, **arguments, confidence=1.0)
        assert (answer.is_error, answer.code) == (True, code)
    answer = await desk.call(context, "save_extraction_data", fields={"a": ["x\U000e0041"]}, confidence=1.0)
    assert answer.is_error
    assert desk.extraction()["extracted_fields"] == {}
    answer = await desk.call(context, "update_field", path="name", value="Acme", confidence=1.0)
    assert not answer.is_error
