"""Refuses unknown query parameters: a misspelled filter would otherwise be ignored."""

from __future__ import annotations

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from fieldmark.errors import Invalid


def _names(dependant: Dependant) -> list[str]:
    names = [field.alias for field in dependant.query_params]
    return names + [name for below in dependant.dependencies for name in _names(below)]


async def check_parameters(request: Request) -> None:
    """Raise Invalid if the request has a query parameter that the route does not declare."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = set(_names(route.dependant))
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in known]:
        accepted = f"accepts: {', '.join(sorted(known))}" if known else "accepts no query parameters"
        raise Invalid(f"Unknown query parameter {unknown[0][:100]!r}. This route {accepted}.")


KnownParameters = Depends(check_parameters)
