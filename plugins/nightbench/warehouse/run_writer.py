"""Stores runs: what they plan, what they yielded, and a site's older results."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from psycopg2.extras import Json

from nightbench.core.errors import WarehouseRefused
from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CaseToLoad,
    Cluster,
    LoadBatch,
    Measurement,
    PlannedCase,
    RepeatToLoad,
    Run,
    RunKind,
)
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row

_FACTS = {
    "measurement": "run_key series_key generation run_at",
    "measurement_node": "run_key series_key generation node run_at",
    "repeat": "run_key series_key generation repeat run_at",
    "repeat_rank": "run_key series_key generation repeat process run_at",
    "failed_check": "run_key series_key generation repeat check_name ordinal run_at",
}
"""Tables of results with their keys, in the order in which they are stored."""


@dataclass
class _Results:
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in _FACTS})

    def add_case(
        self, key: Row, run: Run, case: CaseToLoad, planned: PlannedCase, build_key: int
    ) -> None:
        """Add a case with its repeats; quarantined ones carry their reasons."""
        checks = list(case.checks)
        if case.measurement is not None:
            checks += [c for c in case.measurement.checks if c not in checks]
        refused = to_row.quarantine_reasons(checks)
        for repeat in case.repeats:
            self._add_repeat(key, repeat, refused.get(("repeat", repeat.record.repeat)))
        row: Row = dict.fromkeys(to_row.MEASUREMENT_COLUMNS) | {
            "n": 0,
            "unit": planned.unit or "",
            "definition_digest": planned.definition_digest,
            "fingerprint_id": "",
        }
        of_measurement = refused.get(("measurement", 0))
        if case.measurement is not None:
            row |= to_row.measurement_row(case.measurement, of_measurement is not None)
        nodes = {rank.node for each in case.repeats for rank in each.record.ranks}
        row |= {
            "run_kind": run.run_kind.value,
            "build_key": build_key,
            "is_private_build": planned.private_build,
            "untried": planned.untried,
            "status": case.status.value,
            "reasons": to_row.reasons_document(case.reasons),
            "quarantine_reasons": of_measurement,
            "elapsed_s": case.elapsed_s,
            "node_names": sorted(nodes) or None,
            "checks_met": sum(bool(check.success) for check in checks),
        }
        self.rows["measurement"].append(key | row)
        self.rows["measurement_node"] += [
            key | {"node": node, "fingerprint_id": fingerprint_id}
            for node, fingerprint_id in _fingerprints(case.repeats).items()
        ]
        self.rows["failed_check"] += [key | each for each in to_row.failed_check_rows(checks)]

    def _add_repeat(self, key: Row, repeat: RepeatToLoad, refused: Json | None) -> None:
        record = repeat.record
        key = key | {"repeat": record.repeat}
        row = to_row.repeat_row(repeat) | {"quarantine_reasons": refused}
        self.rows["repeat"].append(key | row)
        for rank in record.ranks:
            clock = record.clocks.get(rank.node)
            row = to_row.rank_row(rank) | {
                "fingerprint_id": record.fingerprints.get(rank.node) or None,
                "clock_offset_s": clock and clock.offset_s,
                "clock_error_s": clock and clock.error_s,
            }
            self.rows["repeat_rank"].append(key | row)


def _fingerprints(repeats: Sequence[RepeatToLoad]) -> dict[str, str | None]:
    """The fingerprint of each node, from the last repeat that has one."""
    found: dict[str, str | None] = {}
    for record in sorted((each.record for each in repeats), key=lambda record: record.repeat):
        for node in {*record.clocks, *record.fingerprints, *(r.node for r in record.ranks)}:
            found[node] = record.fingerprints.get(node) or found.get(node)
    return dict(sorted(found.items()))


class _RolledBack(Exception):
    """Ends a transaction that stores nothing."""


class RunWriter(Repository):
    """Stores runs; each method in one transaction."""

    def plan(
        self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None = None
    ) -> None:
        """Store what a run means to measure, before anything is launched."""
        self._ensure_months([run.started_at])
        with self._transaction(f"store the plan of run {run.run_id}"):
            self._plan([run], [(run, each) for each in planned], cluster)

    def rehearse(self) -> None:
        """Begin to load a run, and roll it back: it is refused as a load would be.

        Raises:
            WarehouseRefused: the role may not load.
        """
        now = datetime.now(UTC)
        run = Run(f"check-{now:%Y%m%dT%H%M%S%f}", "check", "check", RunKind.ON_DEMAND, now)
        with suppress(_RolledBack), self._transaction("begin a load"):
            self._rows("ensure_month", at=now)
            self._plan([run], ())
            raise _RolledBack

    def load(self, batch: LoadBatch) -> bool:
        """Store all that a run yielded, quarantined results with their reasons.

        Returns:
            True if anything was written, False if all of it was there already.

        Raises:
            WarehouseRefused: a case came back that was never planned.
        """
        run = batch.run
        planned = {each.case_id: each for each in batch.planned}
        if unplanned := sorted({each.case.case_id for each in batch.cases} - planned.keys()):
            raise WarehouseRefused(
                f"Cannot load run {run.run_id}: {', '.join(unplanned)} have results but were not "
                "planned. Nothing was stored."
            )
        self._ensure_months([run.started_at])
        with self._transaction(f"load run {run.run_id}"):
            self._lock_for_transaction("load")
            plan = [(run, each) for each in batch.planned]
            changed, runs, keys = self._plan([run], plan, batch.cluster)
            documents = [
                {"fingerprint_id": name, "document": Json(dict(document))}
                for name, document in sorted(batch.fingerprints.items())
            ]
            changed += self._store("fingerprint", documents, "fingerprint_id")
            # A retry may have used another build than was planned.
            builds = {
                each.case.case_id: each.measurement.build
                if each.measurement
                else planned[each.case.case_id].build
                for each in batch.cases
            }
            build_keys = self._build_keys(builds.values())
            results = _Results()
            for case in batch.cases:
                case_id = case.case.case_id
                results.add_case(
                    keys[run.run_id, case_id] | {"generation": case.generation},
                    run,
                    case,
                    planned[case_id],
                    build_keys[builds[case_id].build_id],
                )
            changed += self._store_results(results)
            pairs = [to_row.pair_row(run.run_id, pair) for pair in batch.pairs]
            changed += self._store("night_pair", pairs, "run_id case_id reference")
            run_key = runs[run.run_id]["run_key"]
            changed += self._write("supersede_generations", {"run_key": run_key})
            changed += self._write(
                "mark_loaded", {"run_id": run.run_id, "checks_digest": batch.checks_digest}
            )
        return changed > 0

    def store_history(
        self, entries: Iterable[tuple[Run, PlannedCase, Measurement]]
    ) -> tuple[int, int]:
        """Store imported medians (origin `import`) in one transaction.

        Returns:
            How many runs the entries belong to, and how many rows were new or different.
        """
        entries = list(entries)
        runs = {run.run_id: run for run, _, _ in entries}
        self._ensure_months([run.started_at for run in runs.values()])
        with self._transaction("import the history"):
            plan = [(run, planned) for run, planned, _ in entries]
            *_, keys = self._plan(runs.values(), plan, origin="import")
            build_keys = self._build_keys(planned.build for _, planned, _ in entries)
            results = _Results()
            for run, planned, measurement in entries:
                results.add_case(
                    keys[run.run_id, planned.case_id] | {"generation": 0},
                    run,
                    CaseToLoad(planned.case, 0, CaseStatus.OK, measurement=measurement),
                    planned,
                    build_keys[planned.build.build_id],
                )
            changed = self._store_results(results)
            self._write("mark_loaded", *({"run_id": name, "checks_digest": ""} for name in runs))
        return len(runs), changed

    def refresh_statistics(self) -> None:
        """Refresh PostgreSQL's statistics of the tables of results; at most once a day."""
        self.read("refresh_statistics")

    def drop_old_details(self, kept_days: int) -> list[str]:
        """Drop ranks with their steps of months that are older than so.

        Returns:
            Names of the partitions that were emptied.
        """
        rows = self.read("drop_old_details", kept_days=kept_days)
        return [str(row["dropped"]) for row in rows]

    def _plan(
        self,
        runs: Collection[Run],
        planned: Sequence[tuple[Run, PlannedCase]],
        cluster: Cluster | None = None,
        origin: str = "nightbench",
    ) -> tuple[int, dict[str, Row], dict[tuple[str, str], Row]]:
        """Store the plans of runs.

        Returns:
            How many rows changed; run_id -> run_key and run_at; run_id and case_id -> these and the
            series_key, which the keys of results begin with.
        """
        changed = 0
        if cluster is not None:
            changed += self._store("cluster", [to_row.cluster_row(cluster)], "cluster")
        # The start stays: results lie in its month.
        rows = [
            vars(run) | {"origin": origin, "env": None if run.env is None else Json(dict(run.env))}
            for run in runs
        ]
        changed += self._store("run", rows, "run_id", keep="started_at")
        of_runs = {
            row["run_id"]: {"run_key": row["run_key"], "run_at": row["started_at"]}
            for row in self._rows("run_keys", run_ids=[run.run_id for run in runs])
        }
        build_keys = self._build_keys(each.build for _, each in planned)
        cases: dict[str, list[Case]] = defaultdict(list)
        for run, each in planned:
            cases[run.cluster].append(each.case)
        series = {where: self._series_keys(where, found) for where, found in cases.items()}
        keys = {
            (run.run_id, each.case_id): of_runs[run.run_id]
            | {"series_key": series[run.cluster][each.case_id]}
            for run, each in planned
        }
        rows = [
            to_row.planned_row(each)
            | keys[run.run_id, each.case_id]
            | {"build_key": build_keys[each.build.build_id]}
            for run, each in planned
        ]
        return changed + self._store("planned_case", rows, "run_key series_key"), of_runs, keys

    def _build_keys(self, builds: Iterable[Build]) -> dict[str, int]:
        """build_id -> build_key; stores builds that are new or different."""
        # Sorted: two loads that store the same builds take their row locks in one order.
        chosen = dict(sorted({build.build_id: build for build in builds}.items()))
        stored = [vars(build) | {"build_id": name} for name, build in chosen.items()]
        self._store("build", stored, "build_id")
        rows = self._rows("build_keys", build_ids=list(chosen))
        return {row["build_id"]: row["build_key"] for row in rows}

    def _series_keys(self, cluster: str, cases: Iterable[Case]) -> dict[str, int]:
        """case_id -> series_key on a cluster; stores cases and series that are new."""
        chosen = dict(sorted({case.case_id: case for case in cases}.items()))
        known = self._known_series(cluster, list(chosen))
        new = [
            case
            for case_id, case in chosen.items()
            if case_id not in known
            or (known[case_id]["axes"], known[case_id]["mode"]) != (case.axes(), case.mode)
        ]
        if new:
            rows = [
                {"case_id": case.case_id, "axes": Json(case.axes()), "mode": case.mode}
                for case in new
            ]
            self._store("case", rows, "case_id")
            case_ids = [case.case_id for case in new]
            self._rows("store_series", case_ids=case_ids, cluster=cluster)
            known = self._known_series(cluster, list(chosen))
        return {case_id: row["series_key"] for case_id, row in known.items()}

    def _known_series(self, cluster: str, case_ids: Sequence[str]) -> Mapping[str, Row]:
        rows = self._rows("series_keys", cluster=cluster, case_ids=list(case_ids))
        return {row["case_id"]: row for row in rows}

    def _store_results(self, results: _Results) -> int:
        return sum(
            self._store(table, results.rows[table], columns) for table, columns in _FACTS.items()
        )

    def _ensure_months(self, starts: Iterable[datetime]) -> None:
        """Make the partitions of some months, each in its own transaction."""
        months: dict[tuple[int, int], Any] = {}
        for start in starts:
            months.setdefault((start.year, start.month), start)
        for start in months.values():
            self.read("ensure_month", at=start)
