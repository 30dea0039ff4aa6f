"""Follows docs/deploy.md on a new machine: Debian with systemd in a container that no network reaches.

    python tests/machine.py

Makes the machine with mmdebstrap, runs the commands of "From nothing to done on one machine" as they are written (the
first part, which installs, with the network), and checks that the machine is healthy: units, backup, and Prometheus
with three targets and all rules. Then it restores the backup into another database and folder, which must be the same.
Needs Linux, root, mmdebstrap and systemd-nspawn (Debian's systemd-container).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
RELEASE = "trixie"
PACKAGES = "systemd-sysv,dbus,ca-certificates,curl,git,python3-venv,postgresql,prometheus,openssl"
NSPAWN = (
    "systemd-nspawn",
    "--quiet",
    "--register=no",
    "--keep-unit",
    "--resolv-conf=off",
    f"--machine=fieldmark-{os.getpid()}",
)
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
START_SECONDS = 120
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    **dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), CERTIFICATES),
}
BOOTED = f"timeout {START_SECONDS} sh -c 'until systemctl is-active --quiet multi-user.target; do sleep 1; done'"
HEALTHY = {"failed units": [], "warnings of units": [], "targets": ["up"] * 3, "rules": ["ok"]}
VALUES = "select jsonb_object_agg(id, extracted_fields) from public.extractions"
RESTORE = f"""
set -a; . /etc/fieldmark.env; . /etc/fieldmark-owner.env; set +a; cd /
runuser -u postgres -- createdb --owner fieldmark_owner --encoding UTF8 --template template0 elsewhere
before=$(runuser -u postgres -- psql -tAc "{VALUES}" fieldmark)
export DATABASE_URL=${{DATABASE_URL%/*}}/elsewhere DATABASE_OWNER_URL=${{DATABASE_OWNER_URL%/*}}/elsewhere
FIELDMARK_HOME=/var/lib/elsewhere /opt/fieldmark/bin/fieldmark restore /var/backups/fieldmark-$(date +%u).backup
[ "$(runuser -u postgres -- psql -tAc "{VALUES}" elsewhere)" = "$before" ] && [ -n "$before" ]
cd /var/lib && diff -r fieldmark/files elsewhere/files && diff -r fieldmark/keys elsewhere/keys
"""


def steps() -> tuple[str, str]:
    """Return the commands of docs/deploy.md: those that install, and all others, without the key of a model."""
    text = (ROOT / "docs/deploy.md").read_text("utf-8")
    block = re.search(r"^## From nothing to done.*?```sh\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    install, others = block[1].replace("git clone ADDRESS", "git clone /root/source").split("# 2. ")
    return install, "cd fieldmark\n# 2. " + others.replace("YOUR_KEY", "")


def run(text: str, *within: str | Path) -> str:
    done = subprocess.run(
        [*within, "bash", "-eu"], input=f"cd /root\n{text}", env=ENVIRONMENT, cwd="/", text=True, stdout=-1
    )
    if done.returncode:
        raise SystemExit(f"FAILED ({done.returncode}): {done.stdout[-2000:]}")
    return done.stdout


def health(*within: str) -> dict[str, list[str]]:
    """Return what `HEALTHY` has, of the machine."""
    targets, rules = (
        json.loads(run(f"curl -sf http://127.0.0.1:9090/api/v1/{one}", *within))["data"] for one in ("targets", "rules")
    )
    return {
        "failed units": run("systemctl --failed --plain --no-legend", *within).split(),
        "warnings of units": run("systemd-analyze verify /etc/systemd/system/fieldmark* 2>&1", *within).split(),
        "targets": [one["health"] for one in targets["activeTargets"]],
        "rules": sorted({rule["health"] for group in rules["groups"] for rule in group["rules"]}),
    }


@contextmanager
def booted(root: Path) -> Generator[int]:
    """Boot the machine, with a loopback network only. Yield the process id of its systemd."""
    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}  # noqa: TID251
    with subprocess.Popen(
        [*NSPAWN, "--private-network", "--boot", "-D", root], env=environment, stdin=-3, stdout=-3
    ) as container:
        try:
            until = time.monotonic() + START_SECONDS
            while not (children := psutil.Process(container.pid).children()):
                if time.monotonic() > until:
                    raise SystemExit("FAILED: the machine did not start.")
                time.sleep(0.2)
            yield children[0].pid
        finally:
            container.send_signal(signal.SIGTERM)  # ask its systemd to power off


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-machine-"))
    root, began = folder / "root", time.monotonic()
    try:
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", RELEASE, root], check=True
        )
        subprocess.run(["git", "clone", "--quiet", ROOT, root / "root/source"], check=True)
        for file in (CERTIFICATES, "/etc/resolv.conf"):
            shutil.copyfile(file, root / file[1:])
        install, others = steps()
        print(f"a new machine after {time.monotonic() - began:.0f} s", flush=True)
        run(
            install, *NSPAWN, "--pipe", *(f"--setenv={name}={value}" for name, value in ENVIRONMENT.items()), "-D", root
        )
        print(f"installed after {time.monotonic() - began:.0f} s", flush=True)
        with booted(root) as systemd:
            inside = ("nsenter", f"--target={systemd}", "--all")
            run(BOOTED, *inside)
            print(run(others, *inside))
            print(f"all steps after {time.monotonic() - began:.0f} s", flush=True)
            until = time.monotonic() + START_SECONDS  # rules are evaluated once a minute
            while (found := health(*inside)) != HEALTHY:
                if time.monotonic() > until:
                    raise SystemExit(f"FAILED: the machine is not healthy: {found}")
                time.sleep(5)
            run("systemctl start fieldmark-backup", *inside)
            run(RESTORE, *inside)
            print(f"restored, and the same, after {time.monotonic() - began:.0f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
