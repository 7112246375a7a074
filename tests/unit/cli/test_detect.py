"""detect: histories from files and streams, and what it says of bad ones."""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nightbench.cli.detect import answer_stream, print_documents
from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import HistoryPoint
from nightbench.core.package_files import CHECKOUT
from nightbench.detection.history import HistoryReport, judge_history

DAY = 86400
FIRST = 20_000 * DAY
MAIN = "from nightbench.cli.entry import main; main()"


def values(*levels: float, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [round(level * (1 + rng.gauss(0, 0.005)), 4) for level in levels]


FALLEN = values(*[100] * 40, *[90] * 8)


def csv_of(path: Path, nights: list[float], name: str = "a", extra: str = "") -> Path:
    rows = [f"{name},{FIRST + DAY * k},{value}{extra}" for k, value in enumerate(nights)]
    header = "series,t,value" + (",n,spread,fingerprint" if extra else "")
    path.write_text("\n".join([header, *rows, ""]))
    return path


def run(*words: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(app, ["detect", *words])
    return result.exit_code, result.output, result.exception


def test_a_fall_is_told_with_its_nights_and_why(tmp_path: Path) -> None:
    code, said, _ = run(str(csv_of(tmp_path / "a.csv", FALLEN)), "--json")
    assert code == 0
    (report,) = json.loads(said)
    (change,) = report["changes"]
    assert (report["series"], report["status"], report["nights"]) == ("a", "regressed", 48)
    assert change["index"] == 40
    assert change["first_bad"]["t"].startswith("2024-11-13")
    assert change["last_good"]["value"] == FALLEN[39]
    assert change["low"] < -0.10 < change["high"]
    assert change["baseline"] == pytest.approx(100, rel=0.01)
    assert "nights at a level not seen before" in change["sentence"]
    assert 0 < report["smallest_slowdown"] < 0.06


def test_people_get_a_line_for_each_series_and_its_changes_below(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", FALLEN)
    path.write_text(
        path.read_text() + csv_of(tmp_path / "b.csv", FALLEN[:40], "b").read_text()[15:]
    )
    code, said, _ = run(str(path))
    assert code == 0
    head, first, change, second, counts = said.splitlines()
    assert head.split() == ["status", "nights", "missing", "detectable", "series"]
    assert first.split()[:3] == ["regressed", "48", "0"]
    assert change.startswith("    regressed on 2024-11-13 (last good 2024-11-12): ")
    assert (second.split()[0], second.split()[-1]) == ("ok", "b")
    assert counts == "2 series: 1 regressed, 1 ok"


def test_nights_without_a_value_or_a_row_are_counted(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", FALLEN[:40])
    lines = path.read_text().splitlines()
    for place, nothing in ((5, ""), (9, "NaN"), (12, "NA")):
        lines[place] = f"{lines[place].rsplit(',', 1)[0]},{nothing}"
    del lines[20:23], lines[30]
    path.write_text("\n".join(lines))
    (report,) = json.loads(run(str(path), "--json")[1])
    assert (report["nights"], report["missing"], report["absent"]) == (36, 3, 4)
    _, said, _ = run(str(path))
    assert said.splitlines()[1].split()[1:3] == ["33", "7"]


def test_only_nightly_series_have_absent_nights(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    weekly = [f"a,{FIRST + 7 * DAY * k},{value}" for k, value in enumerate(FALLEN)]
    path.write_text("\n".join(["series,t,value", *weekly]))
    (report,) = json.loads(run(str(path), "--json")[1])
    assert (report["missing"], report["absent"]) == (0, None)


IMPORTED = {
    "cluster": "local",
    "workload": "net",
    "framework": "pytorch",
    "strategy": "single",
    "unit": "images",
}


def written(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, dict.fromkeys(name for row in rows for name in row))
        writer.writeheader()
        writer.writerows(rows)
    return path


def import_file(path: Path) -> Path:
    rows = [
        {"at": f"{datetime.fromtimestamp(FIRST + DAY * k, UTC).isoformat()}", "throughput": value}
        | IMPORTED
        | {"n": 7, "spread": 0.01, "fingerprint_id": "old"}
        for k, value in enumerate(FALLEN)
    ]
    rows[3]["run_kind"] = "on_demand"
    return written(path, rows)


def test_a_file_for_import_is_judged_as_well(tmp_path: Path) -> None:
    code, said, _ = run(str(import_file(tmp_path / "history.csv")), "--json")
    (report,) = json.loads(said)
    assert (code, report["series"]) == (0, "net-pytorch-single-1x1-bs1 on local")
    # What was not measured at night is no part of the history.
    assert (report["nights"], report["absent"], report["status"]) == (47, 1, "regressed")
    assert [change["first_bad"]["t"][:10] for change in report["changes"]] == ["2024-11-13"]


def test_another_work_in_a_file_for_import_begins_a_segment(tmp_path: Path) -> None:
    path = import_file(tmp_path / "history.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for night, row in enumerate(rows):
        row["definition_digest"] = "seven repeats" if night < 40 else "five repeats"
    written(path, rows)
    (report,) = json.loads(run(str(path), "--json")[1])
    assert (report["changes"], report["status"]) == ([], "insufficient_data")
    (segment,) = report["segments"]
    assert segment["fingerprint"] == "old five repeats"
    assert segment["step"]["kind"] == "regressed"


def test_a_mistake_in_a_file_for_import_is_told_by_its_columns(tmp_path: Path) -> None:
    path = import_file(tmp_path / "history.csv")
    path.write_text(path.read_text().replace("images", "im ages"))
    error = run(str(path))[2]
    assert isinstance(error, UserError)
    assert "column unit: found im ages, expected a name of letters" in str(error)


def test_a_file_for_detect_is_not_imported(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", FALLEN)
    # Before the warehouse is opened: here is none.
    error = CliRunner().invoke(app, ["import", str(path)]).exception
    assert isinstance(error, UserError)
    assert str(error) == (
        f"Nothing was imported:\n{path}: found a history for `nightbench detect {path}`, which "
        "stores nothing; for an import, the file lacks the columns at, cluster, workload, "
        "framework, "
        "strategy, throughput, unit"
    )


def test_answers_are_a_json_list_that_is_written_as_they_come(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nights = [
        HistoryPoint(datetime.fromtimestamp(FIRST + DAY * k, UTC), v) for k, v in enumerate(FALLEN)
    ]
    report = judge_history("a", nights)

    def reports() -> Iterator[HistoryReport]:
        yield report
        (element,) = json.loads(f"{capsys.readouterr().out}]")
        assert element["series"] == "a"
        yield report

    print_documents(reports())
    assert json.loads("[{}" + capsys.readouterr().out)[1]["status"] == "regressed"


def test_a_file_may_come_from_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAIN, "detect", "-", "--json"]
    text = csv_of(tmp_path / "a.csv", FALLEN).read_text()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["status"] == "regressed"
    assert done.stderr == ""


def test_lower_is_better_turns_the_news_around(tmp_path: Path) -> None:
    _, said, _ = run(str(csv_of(tmp_path / "a.csv", FALLEN)), "--json", "--lower-is-better")
    (change,) = json.loads(said)[0]["changes"]
    assert change["kind"] == "improved"
    assert change["low"] < -0.10 < change["high"]
    assert change["baseline"] == pytest.approx(100, rel=0.01)


def test_another_fingerprint_is_judged_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    nights = [
        {"series": "a", "t": FIRST + DAY * k, "value": v, "n": 7, "spread": 0.01}
        | {"fingerprint": None if k % 5 == 0 else "old" if k < 40 else "new"}
        for k, v in enumerate(FALLEN)
    ]
    nights[3]["value"] = None
    written(path, nights)
    code, said, _ = run(str(path), "--json")
    (report,) = json.loads(said)
    assert (code, report["changes"], report["missing"]) == (0, [], 1)
    (segment,) = report["segments"]
    assert (segment["fingerprint"], report["status"]) == ("new", "insufficient_data")
    # Its level is told apart: whether another driver was meant to cost that, no series knows.
    assert segment["step"]["kind"] == "regressed"
    assert segment["step"]["low"] < -0.10 < segment["step"]["high"]
    _, text, _ = run(str(path))
    assert "fingerprint new; it began with a step: " in " ".join(text.split())


def test_a_segment_without_a_step_says_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    nights = [
        {"series": "a", "t": FIRST + DAY * k, "value": FALLEN[k % 7]}
        | {"fingerprint": "old" if k < 40 else "new"}
        for k in range(60)
    ]
    written(path, nights)
    (report,) = json.loads(run(str(path), "--json")[1])
    (segment,) = report["segments"]
    assert (segment["step"], report["changes"]) == (None, [])


def test_fingerprints_in_turn_are_two_segments(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    levels = [level for k in range(40) for level in ((100, 80) if k < 30 else (90, 72))]
    nights = [
        {"series": "a", "t": FIRST + DAY * k, "value": v, "fingerprint": ["old", "new"][k % 2]}
        for k, v in enumerate(values(*levels))
    ]
    written(path, nights)
    (report,) = json.loads(run(str(path), "--json")[1])
    assert [s["fingerprint"] for s in report["segments"]] == ["new"]
    assert [each["index"] for each in report["changes"]] == [60, 61]
    assert {each["kind"] for each in report["changes"]} == {"regressed"}


def test_a_stream_answers_every_night_as_the_file_does(tmp_path: Path) -> None:
    asked = [
        {"id": "a", "t": [FIRST + DAY * k for k in range(n)], "value": FALLEN[:n], "within": []}
        for n in range(1, len(FALLEN) + 1)
    ]
    sink = io.StringIO()
    answer_stream(io.StringIO("".join(f"{json.dumps(line)}\n" for line in asked)), sink)
    answers = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert len(answers) == len(asked)
    assert answers[39] == []
    assert answers[-1] == [40]
    alone = io.StringIO()
    answer_stream(io.StringIO(json.dumps(asked[-1])), alone)
    assert json.loads(alone.getvalue()) == answers[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "series,t\na,1\n",
            "a.csv:1: column 'value' missing. Found columns: series, t; expected",
        ),
        (
            "series,t,value\na,1,fast\n",
            "a.csv:2: column value: found fast, expected a num",
        ),
        ("series,t,value\na,1,5\na,2,-1\n", "a.csv:3: column value: found -1, expected"),
        ("series,t,value\na,noon,5\n", "a.csv:2: column t: found noon, expected Unix sec"),
        ("series,t,value\na,202601010100,5\n", "column t: found 202601010100, expected"),
        ("series,t,value\n,1,5\n", "a.csv:2: column series: found nothing, expected the"),
        ("series,t,value\na,1\n", "a.csv:2: found 2 cells, expected 3"),
        ("series,t,value,t\na,1,5,2\n", "a.csv:1: column 't' named twice"),
        ("series,t,value,control\na,1,5,-2\n", "a.csv:2: column control: found -2, expe"),
        ("series,t,value\na,1,5,9\n", "a.csv:2: found 4 cells, expected 3"),
        ("series,t,value\na,1,5\na,1,6\n", "a.csv:3: column t: found 1970-01-01, expect"),
        (
            "series,t,value\na,20260101,5\na,2026-01-01,6\n",
            "a.csv:3: column t: found 2026-01-01, expected another time than line 2",
        ),
        (
            "series,t,value,n\na,1,5,2.5\n",
            "a.csv:2: column n: found 2.5, expected a whole",
        ),
        ("series,t,value\n", "a.csv: found no rows"),
        ("", "a.csv: is empty, expected CSV with a header"),
        ("\ufeff \r\n", "a.csv: is empty, expected CSV with a header"),
        ('{"series": 1, "v": 2}', "a.csv:1: found JSON, expected CSV with a header"),
        ('series,t,value\n"a,1,5\na,2,5\n', "a.csv:2: found invalid CSV (unexpected"),
        ('"series,t,value\na,1,5\n', "a.csv:1: found invalid CSV (unexpected end of"),
        ("series,t,value\na,1,\x005\n", r"a.csv:2: column value: found \x005, expected a"),
        (
            "series,t,value\n\x1b[31ma,1,5\n",
            r"a.csv:2: column series: found \x1b[31ma, expected the name of a series of at m",
        ),
        ("series,t,value\na\u202eb,1,5\n", r"column series: found a\u202eb, expected the"),
        (
            f"series,t,value\n{'a' * 1001},1,5\n",
            "expected the name of a series of at most 1",
        ),
        ("series;t;value\n", "Found columns: series;t;value; expected columns: series, t"),
        (
            "series,t,value\n" + "a,x,5\n" * 1000,
            "a.csv:51: column t: found x, expected Unix seconds or an ISO 8601 date up to 2200\n"
            "... and 950",
        ),
        ("at,cluster,throughput\n", "a.csv:1: column 'workload', 'framework', 'strategy'"),
        ("series,t,value\na,1,x\na,2,y\n", "found x, expected a number above 0, or nothi"),
        ("series,t,value\na,1,x\na,2,y\n", "a.csv:3: column value: found y, expected"),
    ],
)
def test_bad_input_says_where_what_and_what_was_expected(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    code, _, error = run(str(path))
    assert code != 0
    assert isinstance(error, UserError)
    assert said in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no", "standard input:1: found invalid JSON"),
        ("[" * 100_000, "standard input:1: found invalid JSON"),
        ("[]", "standard input:1: found [], expected a JSON object"),
        ("null", "standard input:1: found nothing, expected a JSON object"),
        ('{"value": [1]}', "standard input:1: t: is missing; expected: Unix seconds of each night"),
        ('{"t": [1], "value": [true]}', "value[0]: found true (a switch); expected a number"),
        ('{"t": [1e300], "value": [1]}', "t[0]: found 1e+300; expected a number of less than"),
        ('{"t": [1], "value": [1, 2]}', "t: found 1 times; expected one for each of 2 values"),
        ('{"t": [2, 1], "value": [1, 2]}', "found times out of order"),
        ('{"t": [1], "value": ["x"]}', 'value[0]: found "x"; expected a number'),
        ('{"t": [1], "value": [1e999]}', "value[0]: found inf"),
    ],
)
def test_a_bad_line_of_a_stream_says_so(line: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        answer_stream(io.StringIO(line), io.StringIO())
    assert said in str(error.value)


@pytest.mark.parametrize(("given", "reported"), [("9%", 1), ("0.09", 1), ("11%", 0), ("0.11", 0)])
def test_small_changes_are_left_out(tmp_path: Path, given: str, reported: int) -> None:
    path = csv_of(tmp_path / "a.csv", FALLEN)
    (report,) = json.loads(run(str(path), "--json", "--min-change", given)[1])
    assert len(report["changes"]) == reported


@pytest.mark.parametrize("given", ["nan", "1e400", "-1%", "100%", "3 %%", "much", ""])
def test_what_is_no_share_is_refused(tmp_path: Path, given: str) -> None:
    error = run(str(tmp_path / "a.csv"), "--min-change", given)[2]
    assert isinstance(error, UserError)
    assert (
        str(error)
        == f"--min-change: found {given or 'nothing'}, expected a share such as 3% or 0.03"
    )


def test_neither_or_both_is_refused(tmp_path: Path) -> None:
    assert isinstance(run()[2], UserError)
    assert isinstance(run("--stream", str(tmp_path / "a.csv"))[2], UserError)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--lower-is-better"], "--lower-is-better"),
        (["--min-change", "0.1"], "--min-change"),
        (["--min-change", "0.1", "--lower-is-better"], "--lower-is-better and --min-change"),
    ],
)
def test_a_stream_refuses_what_it_would_not_heed(words: list[str], named: str) -> None:
    error = run("--stream", *words)[2]
    assert isinstance(error, UserError)
    assert str(error).startswith(f"--stream: found {named} too; expected --stream")


def test_a_stream_may_begin_with_a_byte_order_mark() -> None:
    line = json.dumps({"id": "a", "t": [FIRST + DAY * k for k in range(48)], "value": FALLEN})
    plain, marked = io.StringIO(), io.StringIO()
    answer_stream(io.StringIO(f"{line}\n"), plain)
    answer_stream(io.StringIO(f"\ufeff{line}\n"), marked)
    assert plain.getvalue() == marked.getvalue() == "[40]\n"
    with pytest.raises(UserError, match="standard input:2: found invalid JSON"):
        answer_stream(io.StringIO(f"{line}\n\ufeff{line}\n"), io.StringIO())


def test_a_drift_is_told_with_the_night_on_which_it_began(tmp_path: Path) -> None:
    rng = random.Random(3)
    creep = [100 * 0.999 ** max(0, k - 60) * (1 + rng.gauss(0, 0.004)) for k in range(160)]
    file = csv_of(tmp_path / "a.csv", creep)
    _, said, _ = run(str(file), "--json")
    drift = json.loads(said)[0]["drift"]
    began = datetime.fromisoformat(drift["since"])
    assert abs((began - datetime.fromtimestamp(FIRST, UTC)).days - 60) <= 4
    assert drift["change"] == pytest.approx(0.999**100 - 1, abs=0.01)
    _, said, _ = run(str(file))
    assert f"since {began:%Y-%m-%d}, over its last {drift['nights']} nights" in said


def test_the_readmes_history_is_judged_as_the_readme_says() -> None:
    assert CHECKOUT is not None
    code, said, _ = run(str(CHECKOUT / "docs" / "examples" / "history.csv"))
    assert code == 0
    shown = (CHECKOUT / "README.md").read_text()
    assert " ".join(said.split()) in " ".join(shown.split())
