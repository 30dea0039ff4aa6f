"""`fieldmark doctor`: finds what keeps a service from working here, and how to fix it."""

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

from fieldmark.cli.client import Client, ErrorResponse, error_text, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.process import CANNOT_WORK, read_settings, run
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import out, plain
from fieldmark.errors import FieldmarkError, Misconfigured
from fieldmark.http_client import http_client
from fieldmark.settings import Settings, SettingsError
from fieldmark.settings import read_settings as of_environment

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from fieldmark.runtime import Runtime

_MODEL_SERVICE: Final = "https://api.anthropic.com"
_NOWHERE: Final = f"{UUID(int=0)}/{UUID(int=0)}/nothing"


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, what it found, and how to fix a problem."""

    name: str
    state: State
    found: str
    fix: str | None = None


@command()
def doctor(target: Target) -> None:
    """Check settings, database, model, disk, sandbox, tokens and files, and report problems with their fixes."""
    try:
        of_environment()
    except SettingsError as error:
        checks = [Check("settings", State.FAILED, "\n".join(error.faults), "Correct the environment, or `.env`.")]
    else:
        settings = read_settings("error")
        checks = (
            run_with_client(target, _check_remote_service)
            if target.is_elsewhere
            else run(_check_local_service(settings))
        )
    well = all(check.state is not State.FAILED for check in checks)
    if not print_json(target, {"ok": well, "checks": [asdict(check) for check in checks]}):
        _show(checks)
    if not well:
        raise typer.Exit(CANNOT_WORK)


def _show(checks: list[Check]) -> None:
    marks = {State.OK: "[green]✓[/green]", State.WARNING: "[yellow]![/yellow]", State.FAILED: "[red]✗[/red]"}
    for check in checks:
        out.print(f"{marks[check.state]} [bold]{check.name}[/bold]: {plain(check.found)}", soft_wrap=True)
        if check.fix is not None:
            out.print(f"    {plain(check.fix)}", soft_wrap=True)


async def _check_remote_service(client: Client) -> list[Check]:
    checks = [Check("settings", State.OK, "Checking a remote service.")]
    for name, path in (("service", "/readyz"), ("key", "/api/me")):
        try:
            answer = await client.get(path)
        except ErrorResponse as refused:
            fix = (
                "Create another key, or use another one." if name == "key" else "Run `fieldmark doctor` on its machine."
            )
            checks.append(Check(name, State.FAILED, error_text(refused), fix))
        except FieldmarkError as error:
            checks.append(Check(name, State.FAILED, str(error), "Check the address and that the service is running."))
            break
        else:
            checks.append(Check(name, State.OK, _summary(name, answer)))
    return checks


def _summary(name: str, answer: dict[str, Any]) -> str:
    if name == "service":
        return f"Ready. Model: {answer['model']}."
    key = answer["key"]
    if key is None:
        return f"Token of user {answer['user_id']}."
    return f"Key {key['prefix']} ({key['name']!r})."


async def _check_local_service(settings: Settings) -> list[Check]:
    checks = [Check("settings", State.OK, f"Valid. Home: {settings.home}")]
    checks += [check async for check in _check_runtime(settings)]
    checks += await asyncio.gather(_model(settings), _tokens(settings))
    checks += [check for check in (_model_price(settings), _second_model(settings)) if check is not None]
    return [*checks, *await _readers(), _isolation()]


async def _check_runtime(settings: Settings) -> AsyncIterator[Check]:
    """Check the database, and what depends on it."""
    from fieldmark.runtime import open_runtime

    try:
        async with open_runtime(settings) as runtime:
            where = "the embedded Postgres" if settings.embedded_database else "the Postgres of DATABASE_URL"
            yield Check("database", State.OK, f"Reachable and up to date: {where}.")
            yield await _queue(runtime)
            yield _disk(runtime)
            yield await _files(runtime)
    except Misconfigured as error:
        yield Check("database", State.FAILED, str(error), "Correct DATABASE_URL, or run `fieldmark migrate`.")
    except FieldmarkError as error:
        yield Check("database", State.FAILED, str(error), "Start it, or correct DATABASE_URL.")


async def _queue(runtime: Runtime) -> Check:
    """Open the connections of a worker."""
    from fieldmark.runs.lifecycle.queue import open_queue

    try:
        async with open_queue(runtime.database, runtime.direct_url, lambda queue: 0):
            return Check("queue", State.OK, "A worker can connect.")
    except Misconfigured as error:
        return Check("queue", State.WARNING, str(error), "Only a service without a worker can run here.")
    except FieldmarkError as error:
        return Check("queue", State.FAILED, str(error), "Check DATABASE_DIRECT_URL, or DATABASE_URL without it.")


def _disk(runtime: Runtime) -> Check:
    full = runtime.full_disk()
    if full is None:
        return Check("disk", State.OK, f"{', '.join(map(str, runtime.disks()))}: room enough.")
    return Check(
        "disk",
        State.FAILED,
        f"{full} has less than {runtime.settings.min_free_mb} MB free.",
        "Free disk space, or move FIELDMARK_HOME. (FIELDMARK_MIN_FREE_MB sets the minimum.)",
    )


async def _files(runtime: Runtime) -> Check:
    try:
        await runtime.files.size(_NOWHERE)
    except FieldmarkError as error:
        return Check("files", State.FAILED, str(error), "Check SUPABASE_URL and SUPABASE_SECRET_KEY, or the folder.")
    where = "Supabase Storage" if runtime.settings.supabase_secret_key else f"{runtime.settings.home / 'files'}"
    return Check("files", State.OK, f"Originals are stored in {where}.")


async def _model(settings: Settings) -> Check:
    """Check the key of the model's service by listing its models, which is free."""
    if settings.offline:
        return Check(
            "model",
            State.WARNING,
            "No key: the offline model (fixed rules) is in use.",
            "Set ANTHROPIC_API_KEY for Claude.",
        )
    headers = {"anthropic-version": "2023-06-01"}
    if settings.anthropic_api_key is not None:
        headers["x-api-key"] = settings.anthropic_api_key.get_secret_value()
    if settings.anthropic_auth_token is not None:
        headers["Authorization"] = f"Bearer {settings.anthropic_auth_token.get_secret_value()}"
    url = (settings.anthropic_base_url or _MODEL_SERVICE).rstrip("/")
    try:
        async with http_client(timeout=10) as http, http.stream("GET", f"{url}/v1/models", headers=headers) as response:
            status = response.status_code
    except Misconfigured as error:
        return Check("model", State.FAILED, str(error), "Correct the environment of the service.")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        found = f"The model's service at {url} cannot be reached ({type(error).__name__})."
        return Check("model", State.FAILED, found, "Check ANTHROPIC_BASE_URL and the network.")
    if status in (401, 403):
        return Check("model", State.FAILED, "The model's service rejects the key.", "Check ANTHROPIC_API_KEY.")
    if status != 200:  # not every service that speaks the Messages API has a list
        found = f"{url} responds, but not with a list of models (status {status}), so the key was not checked."
        return Check("model", State.WARNING, found, "Run `fieldmark extract` on a small file to check.")
    return Check("model", State.OK, f"{url} accepts the key. Runs use {settings.model}.")


def _model_price(settings: Settings) -> Check | None:
    """Warn if no cost limit can apply to the model."""
    from fieldmark.runs.billing.prices import Prices, parse_price

    price = None if settings.model_price is None else parse_price(settings.model_price)
    is_known = Prices(settings.model, price, fallback=settings.fallback_model).are_known(settings.model)
    if settings.offline or is_known:
        return None
    found = f"The price of {settings.model} or its fallback is unknown: no cost limit applies."
    return Check("model price", State.WARNING, found, "Set FIELDMARK_MODEL_PRICE (0/0 for a model of your own).")


def _second_model(settings: Settings) -> Check | None:
    """Check the settings of the second model, if there is one."""
    from fieldmark.domain.second_reading import is_same_vendor
    from fieldmark.runs.billing.prices import Prices, parse_price

    name = settings.second_model
    if name is None:
        return None
    if not settings.has_second_service:
        return Check("second model", State.FAILED, f"No key for {name}.", "Set FIELDMARK_SECOND_API_KEY.")
    is_same = is_same_vendor(settings.model, name, settings.anthropic_base_url, settings.second_url)
    if is_same:
        found = f"{settings.model} and {name} are of one vendor: they make the same errors, so agreement shows less."
        return Check("second model", State.WARNING, found, "Set FIELDMARK_SECOND_MODEL to one of another vendor.")
    price = None if settings.second_model_price is None else parse_price(settings.second_model_price)
    if not Prices(settings.model, second=name, second_override=price).are_known(name):
        found = f"The price of {name} is unknown: where a cost limit applies, second readings are left out."
        return Check("second model", State.WARNING, found, "Set FIELDMARK_SECOND_MODEL_PRICE.")
    unknown = " Whether both models are of one vendor is not known." if is_same is None else ""
    return Check("second model", State.OK, f"Second readings use {name}.{unknown}")


async def _tokens(settings: Settings) -> Check:
    from fieldmark.identity.tokens import LocalTokens, published_keys

    try:
        if not settings.supabase_url:
            LocalTokens(settings.home)
            return Check("tokens", State.OK, "Signed with this service's own key (`fieldmark token`).")
        keys = await published_keys(settings.supabase_url)
    except FieldmarkError as error:
        if settings.supabase_url and settings.supabase_jwt_secret is not None:
            return Check("tokens", State.OK, f"Checked with SUPABASE_JWT_SECRET only. {error}")
        fix = "Check SUPABASE_URL." if settings.supabase_url else None
        return Check("tokens", State.FAILED, str(error), fix)
    if keys:
        return Check("tokens", State.OK, f"Checked with keys of Supabase Auth: {keys}.")
    if settings.supabase_jwt_secret is not None:
        return Check("tokens", State.OK, "Checked with SUPABASE_JWT_SECRET.")
    found = "Supabase Auth publishes no public key: the project uses a shared secret."
    return Check("tokens", State.FAILED, found, "Switch the project to signing keys, or set SUPABASE_JWT_SECRET.")


async def _readers() -> list[Check]:
    """Check the sandbox and OCR by reading a text and a picture of it."""
    from PIL import Image, ImageDraw, ImageFont

    text = "Total: 10.00 EUR"
    picture = Image.new("L", (400, 100), "white")
    ImageDraw.Draw(picture).text((20, 20), text, font=ImageFont.load_default(40))
    with tempfile.TemporaryDirectory(prefix="fieldmark-doctor-") as folder:
        text_file, picture_file = Path(folder) / "a.txt", Path(folder) / "a.png"
        text_file.write_text(text, encoding="utf-8")
        picture.save(picture_file)
        return [await _reader("sandbox", text_file), await _reader("ocr", picture_file)]


async def _reader(name: str, file: Path) -> Check:
    from pagewords import Limits, PagewordsError, read_file
    from pagewords.errors import NotInstalled

    try:
        await read_file(file, file.name, Limits())
    except NotInstalled:
        found = "Not installed: scans and images fail with the code `not_installed`."
        return Check(name, State.WARNING, found, "Install rapidocr and onnxruntime, or use the image that is not slim.")
    except PagewordsError as error:
        return Check(name, State.FAILED, str(error), "See the log of `fieldmark worker`.")
    return Check(name, State.OK, f"Works: {file.suffix[1:].upper()} was read.")


def _isolation() -> Check:
    from fieldmark.isolation import isolation_warning

    lacking = isolation_warning()
    if lacking is None:
        return Check("isolation", State.OK, "Agents, readers and the embedded Postgres run isolated.")
    return Check("isolation", State.WARNING, lacking)
