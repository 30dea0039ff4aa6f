"""The dashboard and the alert rules use metrics that the service exports, and each alert has a runbook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from fieldmark.telemetry.metrics import Metrics

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
PANELS = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))["panels"]
# Set by Prometheus for each process that it scrapes, and of each bucket of a histogram.
COMMON_LABELS = {"job", "instance", "le"}


def exported() -> dict[str, set[str]]:
    """Return the labels of each exported sample by its name."""
    metrics = Metrics()
    samples: dict[str, set[str]] = {"up": set()}
    for family in metrics.registry.collect():
        samples |= {sample.name: set() for sample in family.samples}
    for one in vars(metrics).values():
        if isinstance(one, MetricWrapperBase):
            if one._labelnames:
                one.labels(*one._labelnames)  # else it has no sample yet
            for family in one.collect():
                samples |= {sample.name: set(one._labelnames) for sample in family.samples}
    return samples


def expressions() -> Iterator[Any]:
    for rule in RULES:
        yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in PANELS:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=panel["title"])


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_uses_exported_metrics_with_their_labels(expression: str) -> None:
    known = exported()
    names = re.findall(r"\b(?:fieldmark_|process_)\w+|\bup\b", expression)
    assert names and set(names) <= known.keys()
    labels = {label for name in names for label in known[name]} | COMMON_LABELS
    used = re.findall(r"(\w+)\s*=~?\"", expression)
    used += [label for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in names.split(", ")]
    assert set(used) <= labels


def test_the_dashboard_shows_every_metric_of_the_service() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    names = {re.sub(r"_(total|bucket|sum|count|created)$", "", name) for name in exported() if "fieldmark_" in name}
    assert {name for name in names if name not in shown} == set()
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_every_alert_has_a_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]
    assert all(rule["annotations"]["runbook_url"] == f"README.md#{rule['alert'].lower()}" for rule in RULES)
    assert all(rule["labels"]["severity"] in ("critical", "warning") for rule in RULES)


def test_prometheus_accepts_the_files_and_the_alerts_fire_as_their_examples_say(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    configuration = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus/fieldmark", str(FOLDER))
    (tmp_path / "prometheus.yml").write_text(configuration.replace(f"{FOLDER}/token", os.devnull))
    for arguments in (["check", "config", tmp_path / "prometheus.yml"], ["test", "rules", FOLDER / "alerts_test.yaml"]):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
