"""The read-only JSON API of the pages: runs, and each of their cases with all that explains it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import HTTPException, Query, Request

from nightbench.causes.field_changes import differences, flat
from nightbench.core.model import reasons_from_json
from nightbench.core.reproduce import command_of
from nightbench.core.sentences import retention_text, sentence, sentences
from nightbench.spool import Spool
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web.repeat_views import RepeatFiles, missing_telemetry, rank_steps, telemetry
from nightbench.web.run_models import (
    CaseDetail,
    DagRunRun,
    RepeatLog,
    RepeatResult,
    RepeatSteps,
    RepeatTelemetry,
    RunCase,
    RunPage,
    RunResults,
    RunRow,
)
from nightbench.web.ui_api import csv_response

OpenSpool = Callable[[], Spool]
"""Opens the spool, which may be in an object store."""


@dataclass(frozen=True)
class RunApi:
    """Handlers of the API that the pages of runs read."""

    repository: OpenPages

    def index(
        self,
        suite: str = "",
        cluster: str = "",
        imported: bool = False,
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> RunPage:
        """Runs, newest first."""
        with self.repository() as repository:
            rows = repository.runs.find(
                suite or None, cluster or None, size + 1, imported, skipped=(page - 1) * size
            )
        return RunPage(
            items=[RunRow.of(row) for row in rows[:size]],
            page=page,
            size=size,
            has_more=len(rows) > size,
        )

    def of_dag_run(self, dag_id: str, dag_run_id: str) -> DagRunRun:
        """The run that a DAG run made."""
        with self.repository() as repository:
            return DagRunRun(run_id=repository.run_of(dag_id, dag_run_id))

    def show(self, run_id: str, format: Literal["json", "csv"] = "json") -> Any:
        """One run with what came of each planned case."""
        with self.repository() as repository:
            run = repository.run(run_id)
            if run is None:
                raise HTTPException(404, f"The warehouse has no run {run_id[:200]}.")
            cases = [_case_of(row) for row in repository.runs.results(run_id)]
        if format == "csv":
            return csv_response((case.model_dump() for case in cases), RunCase, "error")
        return RunResults(run=RunRow.of(run), cases=cases)


def _case_of(row: Row) -> RunCase:
    """Return the result of a case, from a row of `RunRepository.results`."""
    return RunCase.of(
        row,
        state=_state(row),
        sentences=_sentences(row),
        is_private_build=bool(row["private_build"]),
    )


def _state(row: Row) -> str:
    # A failed case fails a check as well; failed is more specific, as in the command's table.
    if row["status"] != "ok":
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    if row["private_build"]:
        return "private_build"
    return str(row["verdict"] or "measured")


def _sentences(row: Row) -> list[str]:
    """Return the sentence of its verdict, or why it has none; the failed checks if quarantined."""
    if row["status"] == "ok" and row["quarantined"]:
        return [sentence(reason) for reason in reasons_from_json(row["quarantine_reasons"])]
    said = row["verdict_sentence"] or sentences(reasons_from_json(row["reasons"]))
    untried = f"Untried configuration: {row['untried']}." if row["untried"] else ""
    training = row["training_sentence"] or ""
    return [each for each in (said, "" if training in said else training, untried) if each]


@dataclass(frozen=True)
class CaseApi:
    """Handlers of the API that the page of a case reads."""

    repository: OpenPages
    spool: OpenSpool

    def show(self, request: Request, run_id: str, case_id: str) -> CaseDetail:
        """One case of a run: result, repeats, checks, what changed since the last good run."""
        case = {"run_id": run_id, "case_id": case_id}
        with self.repository() as repository:
            run = repository.run(run_id)
            (row,) = repository.runs.results(run_id, case_id) or (None,)
            head = repository.first("case_head", **case)
            if run is None or row is None or head is None:
                raise HTTPException(
                    404, f"The warehouse has no case {case_id[:200]} in run {run_id[:200]}."
                )
            good_run_id = head["good_run_id"]
            wanted = [each for each in (good_run_id, run_id) if each]
            states = repository.runs.case_states(case_id, wanted)
            good, this = states.get(good_run_id), states.get(run_id)
            return CaseDetail.of(
                run=run,
                case=_case_of(row),
                generation=head["generation"],
                nodes=head["node_names"] or sorted((this and this["nodes"]) or ()),
                repeats=[_repeat(each) for each in repository.read("ui_repeats", **case)],
                checks_met=head["checks_met"],
                failed_checks=repository.read("case_failed_checks", **case),
                good=good,
                changes=differences(good, this) if good and this else (),
                changes_sentence=_why_unknown(good, this),
                fingerprints={
                    node: flat(document)
                    for node, document in sorted(((this and this["nodes"]) or {}).items())
                },
                commands=_commands(run, case_id, good, this),
                may_trigger=request.state.nightbench_user.may_change,
            )

    def steps(self, run_id: str, case_id: str, generation: int, repeat: int) -> RepeatSteps:
        """Step times of the processes of a repeat, the slowest one first."""
        with self.repository() as repository:
            ranks = repository.read(
                "case_ranks", run_id=run_id, case_id=case_id, generation=generation, repeat=repeat
            )
            launch = _launch(repository, run_id, case_id, generation, repeat)
        items = rank_steps(ranks)
        return RepeatSteps(items=items, sentence=_why_no_steps(items, launch))

    def telemetry(self, run_id: str, case_id: str, generation: int, repeat: int) -> RepeatTelemetry:
        """Return the samples of the nodes during a repeat."""
        files = RepeatFiles(self.spool(), run_id, case_id, generation, repeat)
        samples = files.samples()
        items = telemetry(samples)
        if not items:
            why = f"There are no samples. {files.why_gone} The warehouse does not store samples."
            return RepeatTelemetry(items=[], sentences=[why])
        return RepeatTelemetry(items=items, sentences=missing_telemetry(samples))

    def log(
        self, run_id: str, case_id: str, generation: int, repeat: int, process: str = ""
    ) -> RepeatLog:
        """The end of the log of one process of a repeat, as it wrote it."""
        return RepeatFiles(self.spool(), run_id, case_id, generation, repeat).log(process)


def _repeat(row: Row) -> RepeatResult:
    reasons = [*(row["reasons"] or ()), *(row["quarantine_reasons"] or ())]
    return RepeatResult.of(row, sentences=[sentence(each) for each in reasons_from_json(reasons)])


def _launch(
    repository: PageRepository, run_id: str, case_id: str, generation: int, repeat: int
) -> Row:
    wanted = (generation, repeat)
    for row in repository.read("ui_repeats", run_id=run_id, case_id=case_id):
        if (row["generation"], row["repeat"]) == wanted:
            return row
    raise HTTPException(404, f"Run {run_id[:200]} has no repeat {repeat} of {case_id[:200]}.")


def _why_no_steps(items: Sequence[Any], launch: Row) -> str | None:
    """Return why the step times of a repeat are not here, or not all of them."""
    if items:
        hidden = sum(not each.seconds for each in items)
        return f"Steps of the {hidden} fastest processes are not plotted." if hidden else None
    if launch["steps"]:
        return (
            "The step times of this repeat have been removed: they are "
            f"{retention_text('detail_days')}. The results of the repeat are kept forever."
        )
    return "No process of this repeat reported step times."


def _why_unknown(good: Row | None, this: Row | None) -> str | None:
    if good is None:
        return "The series has no good run before this one."
    if this is None or not this["nodes"]:
        return "This case has no fingerprint of its nodes, so only software is compared."
    if not good["nodes"]:
        return "The last good run has no fingerprint of its nodes, so only software is compared."
    return None


def _commands(run: Row, case_id: str, good: Row | None, this: Row | None) -> dict[str, str]:
    run_id = run["run_id"]
    again = command_of(run["suite"], case_id, good, this)
    beside = again.startswith("nightbench compare ")
    return {
        "Compare the last good build with this one" if beside else "Measure the case again": again,
        "Export the case to measure it elsewhere": shlex.join(
            ["nightbench", "export", f"{case_id}.tar.gz", "--run", run_id, "--case", case_id]
        ),
        "Print the full logs": shlex.join(
            ["nightbench", "logs", "--run", run_id, "--case", case_id]
        ),
    }
