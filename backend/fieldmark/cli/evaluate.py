"""`fieldmark eval`: scores extractions against expected values and against an earlier report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fieldmark.cli.files import check_out, print_json, read_object, read_schema, to_json_bytes, write
from fieldmark.cli.process import (
    FAILED,
    LOCAL_USER,
    MISUSED,
    exit_with,
    open_service,
    print_offline_notice,
    read_settings,
    run,
)
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, out, plain, show_step, steps
from fieldmark.errors import Invalid, SecondPersonNeeded
from fieldmark.settings import Settings

if TYPE_CHECKING:
    from fieldmark.evaluation.evaluate import Case


@command(here_only=True)
def evaluate(
    target: Target,
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of documents with expected values: invoice.pdf, invoice.gold.json.")
    ] = None,
    corrections: Annotated[
        bool,
        typer.Option("--corrections", help="Use completed extractions that people have corrected instead of a folder."),
    ] = False,
    schema: Annotated[
        Path | None, typer.Option(help="Evaluate this JSON Schema instead of each document's own.")
    ] = None,
    instructions: Annotated[str | None, typer.Option(help="Evaluate these instructions.")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A report to compare with. Exit code 1 if the score is lower.")
    ] = None,
    tolerance: Annotated[float, typer.Option(min=0, max=1, help="Allowed decrease of a score: 0.02 is 2 %.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the report as JSON to this file.")] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Draw how many values are not right against right values shown, as SVG, to this file."),
    ] = None,
) -> None:
    """Extract documents again and score the values: exact, equivalent, and found on the page."""
    if (folder is None) is not corrections:
        exit_with("Pass a folder or --corrections.", MISUSED)
    check_out(save)
    check_out(calibration)
    from fieldmark.evaluation.evaluate import load_cases, regressions

    wanted = read_schema(schema)
    try:
        before = None if baseline is None else read_object(baseline)
        if before is not None:
            regressions(before, before, 0)  # what is no report is refused now, not when all has been read and paid for
        cases = None if folder is None else load_cases(folder)
    except (Invalid, OSError) as error:
        exit_with(
            str(error) if isinstance(error, Invalid) else f"{baseline} cannot be read: {error.strerror}.", MISUSED
        )
    settings = read_settings("warning")
    report = run(_evaluate(settings, cases, wanted, instructions, target))
    if save is not None:
        write(to_json_bytes(report, indented=True), save)
    if calibration is not None:
        from pydantic import TypeAdapter

        from fieldmark.evaluation.calibration import Calibration, curve_svg

        figures = TypeAdapter(Calibration).validate_python(report["calibration"])
        write(curve_svg({report["model"]: figures}).encode(), calibration)
    if not print_json(target, report):
        _show(report)
    worse = [] if before is None else regressions(before, report, tolerance)
    for sentence in worse:
        err.print(f"[red]Worse than the baseline: {plain(sentence)}[/red]")
    if worse or report["failed"]:
        raise typer.Exit(FAILED)


async def _evaluate(
    settings: Settings,
    cases: list[Case] | None,
    schema: dict[str, Any] | None,
    instructions: str | None,
    target: Target,
) -> dict[str, Any]:
    import fieldmark.evaluation.evaluate as evaluation
    from fieldmark.worker.jobs import working

    with steps().status("") as status:
        show_step(status, "Starting…")
        async with open_service(settings, target.user or LOCAL_USER, target.org) as (runtime, scope):
            try:
                found = cases if cases is not None else await evaluation.corrected_cases(runtime, scope)
            except Invalid as fault:
                exit_with(str(fault), FAILED)
            print_offline_notice(settings)
            async with working(runtime):
                try:
                    return await evaluation.evaluate(
                        runtime,
                        scope,
                        found,
                        schema=schema,
                        instructions=instructions,
                        progress=lambda words: show_step(status, plain(words)),
                    )
                except SecondPersonNeeded as refused:
                    exit_with(f"{refused} [{refused.code}]", FAILED)


def _show(report: dict[str, Any]) -> None:
    from fieldmark.domain.scoring import MEASURES, Tally

    title = f"{report['documents']} documents · {plain(report['model'])} · prompt {report['prompt']}"
    table = Table(title=title, title_justify="left")
    table.add_column("field", style="bold", overflow="fold")
    for name in ("gold", *MEASURES, "extra"):
        table.add_column(name, justify="right")
    for name, tally in {**report["fields"], "in all": report["total"]}.items():
        rates = [Tally(**tally).rate(measure) for measure in MEASURES]
        shares = ["" if rate is None else f"{rate:.1%}" for rate in rates]
        table.add_row(plain(name), str(tally["gold"]), *shares, str(tally["extra"] or ""))
    out.print(table)
    for fault in report["faults"][:50]:
        wanted, got = (json.dumps(fault[key], ensure_ascii=False) if key in fault else "–" for key in ("gold", "got"))
        err.print(
            f"[dim]{plain(fault['document'])}[/dim] {plain(fault['path'])}: {plain(got)}, right is {plain(wanted)}"
        )
    for failure in report["failed"]:
        err.print(f"[red]✗[/red] {plain(failure['document'])}: {plain(failure['error'])}")
