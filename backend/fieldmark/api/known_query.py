"""A query parameter that a route does not know is refused: a misspelt filter would otherwise filter nothing."""

from __future__ import annotations

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from fieldmark.errors import Invalid


def _names(dependant: Dependant) -> list[str]:
    names = [field.alias for field in dependant.query_params]
    return names + [name for below in dependant.dependencies for name in _names(below)]


async def only_known(request: Request) -> None:
    """Raise Invalid for query parameters that the route does not declare, with those that it does."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = set(_names(route.dependant))
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in known]:
        there = f"There are: {', '.join(sorted(known))}." if known else "It takes none."
        raise Invalid(f"There is no query parameter {unknown[0][:100]!r} here. {there}")


KnownQuery = Depends(only_known)
