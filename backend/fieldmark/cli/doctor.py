"""`fieldmark doctor`: what keeps a service from working here, and how to mend it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import httpx
import typer

from fieldmark.cli.client import Client, Refused, asked, said
from fieldmark.cli.files import print_json
from fieldmark.cli.process import CANNOT_WORK, read_settings, run
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import out, plain
from fieldmark.errors import FieldmarkError, Misconfigured
from fieldmark.settings import Settings, WrongSettings
from fieldmark.settings import read_settings as of_environment

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from fieldmark.runtime import Runtime

_MODEL_SERVICE: Final = "https://api.anthropic.com"
_NOWHERE: Final = f"{UUID(int=0)}/{UUID(int=0)}/nothing"


class State(StrEnum):
    """What a check has found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and what to do where that is not well."""

    name: str
    state: State
    found: str
    mend: str | None = None


@command()
def doctor(target: Target) -> None:
    """Look at settings, database, model, disk, sandbox, tokens and files, and say what is wrong and how to mend it."""
    try:
        of_environment()
    except WrongSettings as error:
        checks = [Check("settings", State.FAILED, "\n".join(error.faults), "Correct the environment, or `.env`.")]
    else:
        settings = read_settings("error")
        checks = asked(target, _look_elsewhere) if target.is_elsewhere else run(_look_here(settings))
    well = all(check.state is not State.FAILED for check in checks)
    if not print_json(target, {"ok": well, "checks": [asdict(check) for check in checks]}):
        _show(checks)
    if not well:
        raise typer.Exit(CANNOT_WORK)


def _show(checks: list[Check]) -> None:
    marks = {State.OK: "[green]✓[/green]", State.WARNING: "[yellow]![/yellow]", State.FAILED: "[red]✗[/red]"}
    for check in checks:
        out.print(f"{marks[check.state]} [bold]{check.name}[/bold]: {plain(check.found)}", soft_wrap=True)
        if check.mend is not None:
            out.print(f"    {plain(check.mend)}", soft_wrap=True)


async def _look_elsewhere(client: Client) -> list[Check]:
    checks = [Check("settings", State.OK, "A service elsewhere is asked.")]
    for name, path in (("service", "/readyz"), ("key", "/api/me")):
        try:
            answer = await client.get(path)
        except Refused as refused:
            mend = "Make another key, or name another." if name == "key" else "Run `fieldmark doctor` where it runs."
            checks.append(Check(name, State.FAILED, said(refused), mend))
        except FieldmarkError as error:
            checks.append(Check(name, State.FAILED, str(error), "Check the address, and that the service runs."))
            break
        else:
            checks.append(Check(name, State.OK, _told(name, answer)))
    return checks


def _told(name: str, answer: dict[str, Any]) -> str:
    if name == "service":
        return f"It is ready; model: {answer['model']}."
    key = answer["key"]
    if key is None:
        return f"It is a token of {answer['user_id']}."
    return f"It is {key['prefix']}, {key['name']!r}."


async def _look_here(settings: Settings) -> list[Check]:
    checks = [Check("settings", State.OK, f"They can be used. Home: {settings.home}")]
    checks += [check async for check in _of_runtime(settings)]
    checks += await asyncio.gather(_model(settings), _tokens(settings))
    return [*checks, await _reader(), _isolation()]


async def _of_runtime(settings: Settings) -> AsyncIterator[Check]:
    """The database, and what stands on it."""
    from fieldmark.runtime import open_runtime

    try:
        async with open_runtime(settings) as runtime:
            where = "the embedded Postgres" if settings.embedded_database else "the Postgres of DATABASE_URL"
            yield Check("database", State.OK, f"It answers, and is up to date: {where}.")
            yield _disk(runtime)
            yield await _files(runtime)
    except Misconfigured as error:
        yield Check("database", State.FAILED, str(error), "Correct DATABASE_URL, or run `fieldmark migrate`.")
    except FieldmarkError as error:
        yield Check("database", State.FAILED, str(error), "Start it, or correct DATABASE_URL.")


def _disk(runtime: Runtime) -> Check:
    full = runtime.full_disk()
    if full is None:
        return Check("disk", State.OK, f"{', '.join(map(str, runtime.disks()))}: room enough.")
    return Check(
        "disk",
        State.FAILED,
        f"{full} has less than {runtime.settings.min_free_mb} MB free.",
        "Make room, or move FIELDMARK_HOME. (FIELDMARK_MIN_FREE_MB says how much is wanted.)",
    )


async def _files(runtime: Runtime) -> Check:
    try:
        await runtime.files.size(_NOWHERE)
    except FieldmarkError as error:
        return Check("files", State.FAILED, str(error), "Check SUPABASE_URL and SUPABASE_SECRET_KEY, or the folder.")
    where = "Supabase Storage" if runtime.settings.supabase_secret_key else f"{runtime.settings.home / 'files'}"
    return Check("files", State.OK, f"Originals lie in {where}.")


async def _model(settings: Settings) -> Check:
    """Whether the model's service takes the key. A list of models is asked for: that costs nothing."""
    if settings.offline:
        return Check(
            "model", State.WARNING, "The offline model answers, by fixed rules.", "Set ANTHROPIC_API_KEY for Claude."
        )
    headers = {"anthropic-version": "2023-06-01"}
    if settings.anthropic_api_key is not None:
        headers["x-api-key"] = settings.anthropic_api_key.get_secret_value()
    if settings.anthropic_auth_token is not None:
        headers["Authorization"] = f"Bearer {settings.anthropic_auth_token.get_secret_value()}"
    url = (settings.anthropic_base_url or _MODEL_SERVICE).rstrip("/")
    try:
        async with httpx.AsyncClient(timeout=10) as http:
            status = (await http.get(f"{url}/v1/models", headers=headers)).status_code
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        found = f"The model's service at {url} does not answer ({type(error).__name__})."
        return Check("model", State.FAILED, found, "Check ANTHROPIC_BASE_URL and the network.")
    if status in (401, 403):
        return Check("model", State.FAILED, "The model's service refuses the key.", "Check ANTHROPIC_API_KEY.")
    if status != 200:  # not every service that speaks the Messages API has a list
        found = f"{url} answers, and does not say whether it takes the key (status {status})."
        return Check("model", State.WARNING, found, "`fieldmark extract` on a small file will tell.")
    return Check("model", State.OK, f"{url} takes the key; runs ask for {settings.model}.")


async def _tokens(settings: Settings) -> Check:
    from fieldmark.identity.tokens import LocalTokens, published_keys

    try:
        if not settings.supabase_url:
            LocalTokens(settings.home)
            return Check("tokens", State.OK, "They are signed by this service's own key: `fieldmark token`.")
        keys = await published_keys(settings.supabase_url)
    except FieldmarkError as error:
        mend = "Check SUPABASE_URL." if settings.supabase_url else None
        return Check("tokens", State.FAILED, str(error), mend)
    if keys:
        return Check("tokens", State.OK, f"Supabase Auth publishes keys that they are checked with: {keys}.")
    if settings.supabase_jwt_secret is not None:
        return Check("tokens", State.OK, "They are checked with SUPABASE_JWT_SECRET.")
    found = "Supabase Auth publishes no key: the project signs with a shared secret."
    return Check("tokens", State.FAILED, found, "Switch the project to signing keys, or set SUPABASE_JWT_SECRET.")


async def _reader() -> Check:
    """Whether the sandbox lets a file be read, by reading one."""
    from fieldmark.documents.reading.pages import Limits
    from fieldmark.documents.reading.sandbox import read_file

    with tempfile.TemporaryDirectory(prefix="fieldmark-doctor-") as folder:
        file = Path(folder) / "a.txt"
        file.write_text("Total: 10.00 EUR\n", encoding="utf-8")
        try:
            await read_file(file, file.name, Limits())
        except FieldmarkError as error:
            return Check("sandbox", State.FAILED, str(error), "The log of `fieldmark worker` says more.")
    return Check("sandbox", State.OK, "A file was read in it.")


def _isolation() -> Check:
    from fieldmark.isolation import shortcoming

    lacking = shortcoming()
    if lacking is None:
        return Check("isolation", State.OK, "Agents, readers and the embedded Postgres are kept apart.")
    return Check("isolation", State.WARNING, lacking)
