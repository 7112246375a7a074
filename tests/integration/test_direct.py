"""`nightbench run --direct` over real SSH: no scheduler, no warehouse, nothing left on Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.command import COMMAND
from tests.integration.terminal import TRIAL, Terminal, marked, terminal, wait_for_a_launch

from nightbench.night.ingest import ORPHANED, close_ended


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with terminal(tmp_path_factory.mktemp("direct"), TRIAL) as made:
        yield made


def test_a_suite_is_measured_and_its_figures_come_from_the_steps(here: Terminal) -> None:
    done = here.run("run", "trial", "--direct")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "case 1 of 3" in done.stdout
    assert "not loaded: the run stays in" in done.stderr
    printed = here.run("results", "--json")
    one, two, served = json.loads(printed.stdout)
    assert [row["n"] for row in (one, two, served)] == [2, 2, 2]
    assert two["speedup"] == pytest.approx(two["throughput"] / one["throughput"])
    assert served["speedup"] is None
    run = here.spool.run(one["run_id"])
    figures = []
    for number in (1, 2):
        result = run.case(one["case_id"]).result(number, "n1")
        assert result is not None
        summary = result["processes"][0]["summary"]
        samples = summary["samples_per_step"] * len(summary["step_seconds"])
        figures.append(samples / summary["window"]["wall_s"])
    assert one["throughput"] == pytest.approx(sum(figures) / 2)
    page = (here.home / "reports" / f"{one['run_id']}.html").read_text()
    assert "Protocol: 2 repeats of each case" in page
    assert re.search(r"<td>[^<]+, \d+ sockets?, \d+ cores?", page)
    assert (here.home / "reports" / f"{one['run_id']}.md").is_file()
    assert marked(one["run_id"]) == []


def test_ctrl_c_leaves_no_process_and_says_what_was_not_measured(here: Terminal) -> None:
    running = here.begin("run", "trial", "--direct", "--repeats", "50", until="repeat 1 of 50")
    run = here.newest()
    wait_for_a_launch(run.run_id, running)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert "was cancelled; its processes on the nodes have been ended" in said
    assert marked(run.run_id) == []
    outcomes = [run.case(planned["case_id"]).outcome() for planned in run.planned()]
    assert [(outcome or {})["status"] for outcome in outcomes] == ["cancelled"] * 3


@pytest.mark.slow
def test_cancel_from_another_terminal_ends_all_cases_and_does_so_once(here: Terminal) -> None:
    running = here.begin("run", "trial", "--direct", "--repeats", "50", until="repeat 1 of 50")
    run = here.newest()
    wait_for_a_launch(run.run_id, running)
    done = here.run("cancel", run.run_id)
    assert done.returncode == 0, done.stderr
    assert "none of its processes is left on local" in done.stdout
    running.communicate(timeout=300)
    assert marked(run.run_id) == []
    outcomes = [run.case(planned["case_id"]).outcome() for planned in run.planned()]
    assert [(outcome or {})["status"] for outcome in outcomes] == ["cancelled"] * 3
    prepared = list((here.home / "cluster").glob(f"*/**/jobs/{run.run_id}/*/g0/*/job.json"))
    assert len(prepared) == 1, "no node is prepared for a case that was cancelled"
    again = here.run("cancel", run.run_id)
    assert again.returncode == 0
    assert again.stdout.startswith(f"{run.run_id} had ended at ")
    assert again.stdout.endswith("nothing was changed\n")


@pytest.mark.slow
def test_a_direct_run_is_followed_from_another_terminal(here: Terminal) -> None:
    running = here.begin("run", "trial", "--direct", until="repeat 1 of 2")
    run = here.newest()
    followed = here.run("run", "--follow", run.run_id)
    running.communicate(timeout=300)
    assert (followed.returncode, running.returncode) == (0, 0), followed.stdout + followed.stderr
    assert "repeat 2 of 2" in followed.stdout
    assert "report:" in followed.stdout
    again = here.run("run", "--follow", run.run_id)
    assert again.returncode == 0, "a run that has ended shows its results"


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_closed_once_its_leases_have_ended(
    here: Terminal,
) -> None:
    running = here.begin("run", "trial", "--direct", "--repeats", "50", until="repeat 1 of 50")
    run = here.newest()
    later = datetime.now(UTC) + 2 * ORPHANED

    def closed(now: datetime) -> list[str]:
        return close_ended(here.spool, lambda dag_id, dag_run_id: None, now)

    assert run.is_controlled() is True
    assert run.run_id not in closed(later)  # it is measured right now

    running.kill()
    running.wait()
    assert running.stdout is not None
    running.stdout.close()

    assert run.run_id not in closed(datetime.now(UTC))  # its gang has a lease still
    assert closed(later) == [run.run_id]
    assert (run.run() or {})["ended_at"]
    done = subprocess.run(
        [*COMMAND, "cancel", run.run_id],
        env={**here.environment(), "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"nightbench results --run {run.run_id}" in done.stdout
    assert marked(run.run_id) == []
    # Seconds of CPU each, in vain: other runs may be measured on this machine.
    heavy = re.findall(r"\| +(great_expectations|pandas)$", done.stderr, re.MULTILINE)
    assert heavy == []
