"""examples/supabase: from the commands of its README to a corrected field in the browser."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import psycopg
import pytest

from browser.test_accessibility import axe as axe  # a fixture
from browser.test_accessibility import violations
from browser.window import MILLISECONDS, ROOT, SAMPLES, playwright
from extraction_case import until
from node import command_environment, install_packages, node_paths, run_command
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, SECRET_KEY, supabase_project

EXAMPLE = ROOT / "examples" / "supabase"
INVOICE = SAMPLES / "i2d_AzureInterior.pdf"
MOST_LINES = 400

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.full]


def commands() -> list[str]:
    block = re.search(r"^```sh\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert block is not None
    return [line.partition("  #")[0].strip() for line in block[1].splitlines()]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what the example uses, with the packages that `npm ci` installs from its lock file."""
    for name in ("examples/supabase", "clients/typescript/src", "supabase"):
        ignored = shutil.ignore_patterns("node_modules", "generated", "dist", ".env")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "examples/supabase/node_modules").symlink_to(install_packages(EXAMPLE))
    return tmp_path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@asynccontextmanager
async def running(command: str, folder: Path, url: str, **variables: str) -> AsyncIterator[None]:
    """Run a command line until the block ends, which starts when `url` responds."""
    path = f"{Path(sys.executable).parent}:{node_paths()[0]}:/usr/bin:/bin"
    # (The npm of Node's wheel is not in its folder of programs.)
    script = f'npm() {{ node {node_paths()[1]} "$@"; }}; {command}'
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=command_environment(PATH=path, **variables),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    async def responds() -> bool:
        assert process.poll() is None, (folder / "output").read_text()
        try:
            async with httpx.AsyncClient() as http:
                return (await http.get(url)).status_code == 200
        except httpx.TransportError:
            return False

    try:
        await until(responds, every=0.1)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await asyncio.to_thread(process.wait)


async def test_readme_of_the_example_leads_to_a_corrected_field(checkout, clone, tmp_path, _chromium, axe):
    clone_it, install, configure, serve, start = commands()
    assert clone_it == "git clone ADDRESS fieldmark && cd fieldmark"
    assert install in (ROOT / "README.md").read_text()  # .ci/run runs it
    assert start.startswith("npm ci && ")
    subprocess.run(["bash", "-c", configure], cwd=checkout, check=True)
    folder = checkout / "examples" / "supabase"
    service_port, page_port = free_port(), free_port()
    service, page_url = f"http://127.0.0.1:{service_port}", f"http://localhost:{page_port}"
    async with supabase_project(clone) as project:
        values = {
            "SUPABASE_URL": project.url,
            "SUPABASE_PUBLISHABLE_KEY": PUBLISHABLE_KEY,
            "SUPABASE_SECRET_KEY": SECRET_KEY,
            "DATABASE_OWNER_URL": clone.owner_url,
            "DATABASE_URL": clone.app_url,
            "VITE_FIELDMARK_URL": service,
            "FIELDMARK_CORS_ORIGINS": f'["{page_url}"]',
        }
        file = folder / ".env"
        assert re.findall(r"^(\w+)=", file.read_text(), re.MULTILINE) == [*values]
        file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        start = f"{start.removeprefix('npm ci && ')} -- --port {page_port} --strictPort"
        settings = {"FIELDMARK_HOME": str(tmp_path / "home"), "FIELDMARK_PORT": str(service_port)}
        async with (
            running(serve, folder, f"{service}/readyz", **settings, FIELDMARK_WARM_SPARES="0"),
            running(start, folder, page_url),
        ):
            async with httpx.AsyncClient() as http:
                served = (await http.get(f"{page_url}/src/project.ts")).text
            public = {name for name, value in values.items() if value in served}
            assert public == {"SUPABASE_URL", "SUPABASE_PUBLISHABLE_KEY", "VITE_FIELDMARK_URL"}
            context = await _chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
            context.set_default_timeout(MILLISECONDS)
            page, faults = await context.new_page(), []
            page.on("pageerror", lambda error: faults.append(str(error)))
            try:
                await page.goto(page_url)
                await page.get_by_label("Email").fill(EMAIL)
                await page.get_by_label("Password").fill(PASSWORD)
                await page.get_by_role("button", name="Sign in").click()
                await page.get_by_label("Upload a document").set_input_files(INVOICE)
                await page.get_by_role("button", name="Extract").click()
                log, approval = page.get_by_role("log"), page.get_by_role("group", name="Approval")
                approve, done = approval.get_by_role("button", name="Approve"), log.get_by_text("Done")

                async def approve_all() -> int:
                    approved = 0
                    while True:
                        await approve.or_(done).first.wait_for()
                        if await done.is_visible():
                            return approved
                        await approve.click()
                        approved += 1

                assert await approve_all() > 0
                total = page.get_by_label("total", exact=True)
                await total.click()
                box = page.get_by_role("button", name="Location of total", exact=True)
                await playwright.expect(box).to_have_attribute("aria-pressed", "true")
                assert await violations(page, axe) == []
                await total.fill("280.5")
                await total.press("Enter")
                await box.wait_for(state="detached")  # 280.5 is not on the page
                confirmed = page.get_by_role("listitem").filter(has=total).get_by_text("confirmed: person")
                await confirmed.wait_for()

                await page.get_by_label("Correction").fill("set currency to EUR")
                await page.get_by_role("button", name="Correct").click()
                await approve.wait_for()
                await approve_all()
                await page.locator("input[value='EUR']").wait_for()
            finally:
                await context.close()
            assert faults == []
        await asyncio.to_thread(run_command, folder, "node_modules/.bin/tsc", "--noEmit")
        await asyncio.to_thread(run_command, folder, "node_modules/.bin/vite", "build")
        assert [*(folder / "dist").rglob("*.js")]
    with psycopg.connect(clone.owner_url) as owner:
        ((fields,),) = owner.execute("select extracted_fields from extractions").fetchall()
    assert (fields["total"], fields["currency"]) == (280.5, "EUR")


def test_example_is_short():
    sources = [path for path in EXAMPLE.rglob("*") if path.suffix in (".ts", ".tsx", ".css", ".html")]
    lines = [line for path in sources if "node_modules" not in path.parts for line in path.read_text().splitlines()]
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= 120
