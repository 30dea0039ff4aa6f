"""The options that every command has: service, user, organisation and output format."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import structlog
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from fieldmark.cli.process import CANNOT_WORK, exit_with
from fieldmark.cli.terminal import be_quiet
from fieldmark.settings import read_settings

log = structlog.get_logger()

NO_SERVICE: Final = "The server's response is not from a compatible Fieldmark."


@dataclass(frozen=True, slots=True)
class Target:
    """The service, user and output format of a command. `server` None: the service in this process."""

    server: str | None = None
    key: str | None = None
    org: UUID | None = None
    user: UUID | None = None
    as_json: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the service is remote."""
        return (self.server or read_settings().server) is not None


_OUTPUT = {
    "as_json": (bool, typer.Option("--json", help="Print JSON; lists as one object per line."), False),
    "quiet": (bool, typer.Option("--quiet", "-q", help="Print only results, questions and errors."), False),
}
_HERE = {
    **_OUTPUT,
    "org": (
        UUID | None,
        typer.Option("--org", help="The organisation. Default: the personal one, or the key's."),
        None,
    ),
    "user": (UUID | None, typer.Option("--user", help="The user id. Default: the local user."), None),
}
_ELSEWHERE = {
    "server": (
        str | None,
        typer.Option("--server", metavar="URL", help="Use this service instead of one in this process."),
        None,
    ),
    "key": (
        str | None,
        typer.Option("--key", help="API key or token. Prefer FIELDMARK_KEY: other users can see command lines."),
        None,
    ),
}


class HelpedCommand(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))


class HelpedGroup(TyperGroup):
    """A group of commands whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))


def _without_flag_types(parameters: Sequence[object]) -> list[Any]:
    for one in parameters:
        if isinstance(one, TyperOption) and one.is_bool_flag:
            one.metavar = ""
    return list(parameters)


def command(
    *, here_only: bool = False, without_user: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add these options to a command, whose first parameter is the Target. `here_only`: a local command without
    --server. `without_user`: a command that needs no service, and so no user."""
    given = _OUTPUT if without_user else _HERE if here_only else {**_HERE, **_ELSEWHERE}

    def with_options(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
            for name, (kind, option, default) in given.items()
        ]

        @functools.wraps(function)
        def wrapped(**arguments: Any) -> None:
            chosen = {name: arguments.pop(name) for name in given}
            be_quiet(chosen.pop("quiet"))
            target = Target(**chosen)
            try:
                function(target, **arguments)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                if not target.is_elsewhere:
                    raise
                at = traceback.extract_tb(error.__traceback__)[-1]
                log.debug("the command failed", exc_info=error)
                exit_with(
                    f"The command failed ({type(error).__name__} at {Path(at.filename).name}:{at.lineno}): it has a "
                    "fault, or the service is another version of Fieldmark. FIELDMARK_LOG_LEVEL=debug shows more.",
                    CANNOT_WORK,
                )

        wrapped.__doc__ = " ".join((function.__doc__ or "").split())  # the list of commands would keep the line ends
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        wrapped.__signature__ = inspect.Signature([*named, *options])  # pyright: ignore[reportAttributeAccessIssue]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *options]}
        return wrapped

    return with_options
