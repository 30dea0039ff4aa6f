"""Tools that reckon: the calculator, and exact questions to the extracted fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fieldmark.agents.library.deps import Context
from fieldmark.db.pool import Connection
from fieldmark.domain.calculator import MAX_CHARACTERS, calculate
from fieldmark.errors import InvalidExpression
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import Tool, ToolEffect, ToolInput, ToolResult


class Calculator(ToolInput):
    """Reckon with decimals, exactly: + - * / % ^, parentheses, sum, min, max, avg, round. Numbers are written as 1234.5,
    without separators."""

    expression: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


async def _calculate(conn: Connection, context: Context, args: Calculator) -> ToolResult:
    try:
        found = calculate(args.expression)
    except InvalidExpression as error:
        raise ModelRetry(str(error), error.code) from None
    about = " (rounded)" if found.is_rounded else ""
    return ToolResult(
        f"{found.expression} = {found.text}{about}",
        "calculated",
        {"expression": found.expression, "results": [found.text], "is_rounded": found.is_rounded},
    )


CALCULATOR = Tool(
    "calculator",
    Calculator,
    _calculate,
    summary=lambda args: f"Reckoning {args.expression[:100]}",
    effect=ToolEffect.NOTE,
    stands_alone=True,
)
