"""Builds the image and runs it: alone, and as the stack of compose.yaml, in which a worker is killed.

    pip install podman-compose && python tests/containers.py

1. Builds `fieldmark` and `fieldmark:slim`, and checks their sizes.
2. Runs the image alone as it should run: another user than root, a root file system that is read-only, no
   capabilities. The service becomes ready, extracts a document, reports that all checks pass, and stops.
3. Starts compose.yaml (Postgres, migration, service, two workers), uploads 20 documents and kills a worker (SIGKILL)
   in the middle. All 20 extractions must complete.

Needs Linux, root, podman, buildah and runc. A base image that cannot be found is replaced by one
of Debian packages, made with mmdebstrap. If PIP_CERT is set, the build trusts these certificates too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "docs/samples/i2d_AzureInterior.pdf"
PYTHON_IMAGE, POSTGRES_IMAGE = "docker.io/library/python:3.13-slim-trixie", "docker.io/library/postgres:17-trixie"
IMAGE, SLIM = "localhost/fieldmark", "localhost/fieldmark:slim"
MAX_BYTES = {IMAGE: 1_100_000_000, SLIM: 700_000_000}
USER = "10001"
DOCUMENTS = 20
STATES = "{{.Names}} {{.Status}}"
HARDENED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges")
# The limits of a container must not exceed those of this process.
CONTAINERS_CONF = (
    '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]\n[engine]\nruntime = "runc"\n'
)
POSTGRES_ENTRYPOINT = """#!/bin/sh
# What compose.yaml uses of the entrypoint of the image that this one replaces.
set -eu
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA"
    chown postgres "$PGDATA"
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    chmod 444 /tmp/password
    as_postgres initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8
    rm /tmp/password
    echo "create database $POSTGRES_DB" | as_postgres postgres --single postgres
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
fi
install -d -o postgres /var/run/postgresql
exec setpriv --reuid=postgres --regid=postgres --init-groups -- postgres -c "listen_addresses=*"
"""


class FailedCheck(Exception):
    """What should be true of the image is not."""


def run(*command: str | Path, timeout: float = 1200, stderr: int = subprocess.PIPE, **options: Any) -> str:
    """Return a command's output. Raise FailedCheck with all that it printed if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=timeout, **options)
    if done.returncode:
        raise FailedCheck(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{(done.stderr or '')[-4000:]}")
    return done.stdout


def missing() -> list[str]:
    """Return what this machine lacks to run containers."""
    found = [f"the program {name}" for name in ("podman", "buildah", "runc") if shutil.which(name) is None]
    if os.getuid() != 0:
        found.insert(0, "root")
    if subprocess.run([sys.executable, "-c", "import podman_compose"], capture_output=True).returncode:
        found.append(f"the package podman-compose of {sys.executable}")
    return found


def provide_base_images(work: Path) -> None:
    """Pull the base images that are not here, or replace them by Debian packages."""
    for image, packages in ((PYTHON_IMAGE, "python3,python3-venv,ca-certificates"), (POSTGRES_IMAGE, "postgresql-17")):
        if subprocess.run(["podman", "image", "exists", image]).returncode == 0:
            continue
        if subprocess.run(["podman", "pull", "--quiet", image], capture_output=True, timeout=600).returncode == 0:
            continue
        if shutil.which("mmdebstrap") is None:
            raise FailedCheck(f"{image} cannot be pulled, and mmdebstrap, which replaces it, is not installed.")
        print(f"{image} cannot be pulled: Debian packages replace it.", flush=True)
        archive = work / "debian.tar"
        left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        run("mmdebstrap", "--variant=minbase", f"--include={packages}", *left_out, "trixie", archive)
        changes: list[str] = []
        if image == POSTGRES_IMAGE:
            entrypoint = work / "entrypoint.sh"
            entrypoint.write_text(POSTGRES_ENTRYPOINT)
            entrypoint.chmod(0o755)
            run("tar", "--append", f"--file={archive}", f"--directory={work}", "./entrypoint.sh")
            path = "/usr/lib/postgresql/17/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            for change in ('ENTRYPOINT ["/entrypoint.sh"]', "ENV PGDATA=/var/lib/postgresql/data", f"ENV PATH={path}"):
                changes += ["--change", change]
        run("podman", "import", *changes, archive, image)
        archive.unlink()


def build(image: str) -> None:
    """Build the image and check its size."""
    variant = "slim" if image == SLIM else "full"
    started = time.monotonic()
    certificates = os.environ.get("PIP_CERT")  # noqa: TID251
    trust: list[str] = []
    if certificates:
        trust = [f"--volume={certificates}:{certificates}:ro", f"--env=PIP_CERT={certificates}"]
        trust.append(f"--env=NODE_EXTRA_CA_CERTS={certificates}")
    options = ["--layers", "--pull-never", "--format=docker", "--runtime=runc", "--isolation=oci", "--network=host"]
    limits = "--ulimit=nofile=20000:20000"  # as in CONTAINERS_CONF, which buildah does not read
    run("buildah", "bud", *options, limits, *trust, f"--build-arg=VARIANT={variant}", f"--tag={image}", ".", cwd=ROOT)
    size = int(run("podman", "image", "inspect", "--format={{.Size}}", image))
    print(f"{image}: {size / 1e6:,.0f} MB, built in {time.monotonic() - started:.0f} s", flush=True)
    if size > MAX_BYTES[image]:
        raise FailedCheck(f"{image} has {size / 1e6:,.0f} MB; the limit is {MAX_BYTES[image] / 1e6:,.0f} MB.")


@contextmanager
def prepared(*images: str) -> Generator[Path]:
    """Build images. Yield a folder for files."""
    if lacking := missing():
        raise FailedCheck(f"Missing: {', '.join(lacking)}.")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "containers.conf").write_text(CONTAINERS_CONF)
        os.environ["CONTAINERS_CONF"] = str(Path(folder) / "containers.conf")  # noqa: TID251
        provide_base_images(Path(folder))
        for image in images:
            build(image)
        yield Path(folder)


def until(check: Callable[[], Any], what: str, seconds: float = 300) -> Any:
    """Return the first true result of `check`."""
    end = time.monotonic() + seconds
    while not (found := check()):
        if time.monotonic() > end:
            raise FailedCheck(f"{what} did not happen within {seconds:g} s.")
        time.sleep(0.5)
    return found


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz").is_success
    except httpx.TransportError:
        return False


def client(address: str, container: str) -> httpx.Client:
    """Return a client with a token of the service in a container, once it is ready."""
    until(lambda: is_ready(address), "readiness")
    token = run("podman", "exec", container, "fieldmark", "token").strip()
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60)


def upload(service: httpx.Client, name: str, content: bytes) -> str:
    answer = service.post("/api/documents", params={"extract": ""}, files={"file": (name, content)})
    if answer.status_code >= 300:
        raise FailedCheck(f"{name}: {answer.status_code} {answer.text}")
    return answer.json()["id"]


def states(service: httpx.Client) -> list[str]:
    """Return the statuses of all extraction runs."""
    answer = service.get("/api/runs", params={"limit": 100})
    answer.raise_for_status()
    return [one["status"] for one in answer.json()["items"]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def check_doctor(report: str, warnings: set[str]) -> None:
    """Check that nothing failed, and that only these checks warn, beside the missing key of the model."""
    checks = json.loads(report)["checks"]
    worse = {one["name"]: one["found"] for one in checks if one["state"] != "ok"}
    failed = [one["name"] for one in checks if one["state"] == "failed"]
    # Landlock of an older kernel lacks something for a service without root: true of the machine, not of the image.
    if failed or not warnings <= worse.keys() <= warnings | {"model", "isolation"}:
        raise FailedCheck(f"doctor: {worse}")


def run_alone() -> None:
    """Run the image with its embedded Postgres."""
    port, name = free_port(), f"fieldmark-{uuid4().hex[:8]}"
    address = f"http://127.0.0.1:{port}"
    started = time.monotonic()
    run("podman", "run", "--detach", f"--name={name}", *HARDENED, f"--publish=127.0.0.1:{port}:8731", IMAGE)
    try:
        service = client(address, name)
        print(f"alone: ready after {time.monotonic() - started:.0f} s", flush=True)
        run("podman", "healthcheck", "run", name)
        if run("podman", "exec", name, "id", "--user").strip() != USER:
            raise FailedCheck("The service does not run as its own user.")
        if subprocess.run(["podman", "exec", name, "touch", "/opt/fieldmark/x"], capture_output=True).returncode == 0:
            raise FailedCheck("The root file system can be written.")
        upload(service, SAMPLE.name, SAMPLE.read_bytes())
        until(lambda: states(service) == ["completed"], "an extraction")
        check_doctor(run("podman", "exec", name, "fieldmark", "doctor", "--json"), set())
        stopping = time.monotonic()
        run("podman", "stop", name)
        state = run("podman", "inspect", "--format={{.State.ExitCode}}", name).strip()
        print(f"alone: stopped in {time.monotonic() - stopping:.1f} s with code {state}", flush=True)
        if state not in ("0", "143"):
            raise FailedCheck(f"The service ended with code {state}.")
    finally:
        subprocess.run(["podman", "rm", "--force", "--volumes", name], capture_output=True)


class Stack:
    """The stack of compose.yaml, as a project with a folder of its own."""

    def __init__(self, work: Path) -> None:
        self.project = f"fieldmark-{uuid4().hex[:8]}"
        self.owner_password, self.app_password, self.port = uuid4().hex, uuid4().hex, free_port()
        self.folder = work / self.project
        self.folder.mkdir()
        shutil.copy(ROOT / "compose.yaml", self.folder)
        passwords = {"OWNER_PASSWORD": self.owner_password, "APP_PASSWORD": self.app_password}
        self.configure(**passwords, IMAGE=IMAGE, PORT=self.port)

    def configure(self, **settings: object) -> None:
        """Add settings for the containers that are started later."""
        with (self.folder / ".env").open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())

    def compose(self, *arguments: str, **options: Any) -> str:
        command = (sys.executable, "-m", "podman_compose", "--project-name", self.project)
        return run(*command, *arguments, cwd=self.folder, **options)

    def start(self, *arguments: str) -> None:
        self.compose("up", "--detach", "--no-deps", *arguments)

    def containers(self, service: str) -> list[str]:
        """Return the running containers of a service, by name."""
        label = "--filter=label=com.docker.compose"
        filters = (f"{label}.project={self.project}", f"{label}.service={service}")
        return run("podman", "ps", "--format={{.Names}}", *filters).split()


@contextmanager
def compose_stack(work: Path) -> Generator[Stack]:
    """Start the Postgres of compose.yaml and migrate it. Remove all containers and volumes with the block."""
    stack = Stack(work)
    done = f"{stack.project}_migrate_1 Exited (0)"
    try:
        # In steps, as `depends_on` says: Podman before 4.6 waits for no health, and cannot start a container
        # whose dependency has one of its own.
        stack.compose("up", "--detach", "migrate")
        until(lambda: done in run("podman", "ps", "--all", f"--format={STATES}"), "migration")
        yield stack
    except BaseException:
        with suppress(FailedCheck):
            print(stack.compose("logs", stderr=subprocess.STDOUT)[-8000:], flush=True)
        raise
    finally:
        with suppress(FailedCheck):
            stack.compose("down", "--volumes", "--timeout=20")


def run_stack(work: Path) -> None:
    """Run the stack, and kill a worker in the middle of its work."""
    started = time.monotonic()
    with compose_stack(work) as stack:
        stack.start("service", "worker")
        (service_container,) = stack.containers("service")
        service = client(f"http://127.0.0.1:{stack.port}", service_container)
        workers = stack.containers("worker")
        print(f"stack: ready after {time.monotonic() - started:.0f} s, workers: {len(workers)}", flush=True)
        if len(workers) != 2:
            raise FailedCheck(f"{len(workers)} workers run instead of two.")
        victim = int(run("podman", "inspect", "--format={{.State.Pid}}", workers[0]))
        started = time.monotonic()
        for number in range(DOCUMENTS):
            upload(service, f"{number}.pdf", SAMPLE.read_bytes() + f"\n% {number}\n".encode())
            if number == DOCUMENTS // 2:
                until(lambda: "running" in states(service), "the start of an extraction")
                os.kill(victim, signal.SIGKILL)
                done = states(service).count("completed")
                print(f"stack: a worker killed after {done} of {DOCUMENTS} extractions", flush=True)
        until(lambda: states(service) == ["completed"] * DOCUMENTS, "completion of all extractions", 1200)
        print(f"stack: {DOCUMENTS} of {DOCUMENTS} completed, {time.monotonic() - started:.0f} s", flush=True)
        network = f"--network={stack.project}_default"
        url = f"postgresql://fieldmark_app:{stack.app_password}@postgres/fieldmark"
        slim = run("podman", "run", "--rm", *HARDENED, network, f"--env=DATABASE_URL={url}", SLIM, "doctor", "--json")
        check_doctor(slim, {"ocr"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use the images of an earlier run")
    arguments = parser.parse_args()
    try:
        with prepared(*(() if arguments.no_build else (IMAGE, SLIM))) as work:
            run_alone()
            run_stack(work)
    except FailedCheck as failed:
        raise SystemExit(f"FAILED: {failed}") from None
    print("The image and the stack work.")


if __name__ == "__main__":
    main()
