"""Series: their medians and verdicts over the nights, noise and drift."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from nightbench.core.documents import stored_document
from nightbench.core.model import (
    THROUGHPUT,
    HistoryPoint,
    MetricInfo,
    PairNight,
    Run,
    RunKind,
    TrainingKind,
    Verdict,
    VerdictKind,
)
from nightbench.detection.training_night import Range, TrainingNight
from nightbench.warehouse.repository import Repository, Row

_NAMES = ("case_id", "cluster", "run_id")
"""Columns of a verdict for which its table has keys."""

SERIES_AT_ONCE = 200
"""Series whose histories are read together: as rows they take several times the memory."""


class SeriesRepository(Repository):
    """Medians and verdicts of series, and whether they are noisy or creep."""

    def find(self, suite: str | None = None, cluster: str | None = None) -> list[Row]:
        """Series with nightly results: case_id, cluster, suite (the last), nights."""
        return self.read("series", suite=suite, cluster=cluster)

    def history(
        self,
        case_id: str,
        cluster: str,
        kinds: Sequence[RunKind] = (RunKind.NIGHTLY,),
        before: datetime | None = None,
        metric: MetricInfo = THROUGHPUT,
    ) -> list[HistoryPoint]:
        """One series, oldest first; `before` leaves out that instant and all later ones."""
        return self.histories([case_id], cluster, kinds, before, metric=metric)[case_id]

    def histories(
        self,
        case_ids: Sequence[str],
        cluster: str,
        kinds: Sequence[RunKind] = (RunKind.NIGHTLY,),
        before: datetime | None = None,
        max_nights: int | None = None,
        metric: MetricInfo = THROUGHPUT,
    ) -> dict[str, list[HistoryPoint]]:
        """Some series of a cluster by case_id, each oldest first; see `history`.

        `before` leaves out that instant and all later ones; `max_nights` takes the newest so many
        of each. Nights without the `metric` are left out.
        """
        same: dict[str | None, str | None] = {"": None}
        found: dict[str, list[HistoryPoint]] = {case_id: [] for case_id in case_ids}
        names = list(found)
        for start in range(0, len(names), SERIES_AT_ONCE):
            rows = self._tuples(
                "histories",
                case_ids=names[start : start + SERIES_AT_ONCE],
                cluster=cluster,
                kinds=[kind.value for kind in kinds],
                before=before,
                max_nights=max_nights,
                metric=metric.name,
            )
            run_ids = self.run_ids({row[1] for row in rows})
            for case_id, run_key, at, value, n, spread, *texts in rows:
                # Hundreds of thousands of rows repeat a few texts: each is kept once.
                shared = [same.setdefault(text, text) for text in texts]
                run_id = run_ids[run_key]
                spread = spread if metric.has_spread else None
                found[case_id].append(HistoryPoint(at, value, run_id, n, spread, *shared))
        for points in found.values():
            points.sort(key=lambda point: (point.at, point.run_id))
        return found

    def run_ids(self, run_keys: Iterable[int | None]) -> dict[int, str]:
        """Names of some runs by their keys."""
        return dict(self._tuples("run_ids", run_keys=list(run_keys)))

    def training_nights(
        self,
        case_ids: Sequence[str],
        run: Run,
        max_nights: int,
        max_older: int = 0,
        max_changed: int = 0,
    ) -> Iterator[tuple[str, str, TrainingNight]]:
        """Yield case_id, `tonight`, `newest`, `older` or `changed`, and the night."""
        # Most nights of a series repeat the losses of another: each text is parsed once.
        parsed: dict[str | None, Mapping[str, Range]] = {None: {}}
        for case_id, place, text, at, *night in self._tuples(
            "training_nights",
            case_ids=list(case_ids),
            cluster=run.cluster,
            run_id=run.run_id,
            before=run.started_at,
            max_nights=max_nights,
            max_older=max_older,
            max_changed=max_changed,
        ):
            if text not in parsed:
                of = f"losses of {case_id}, night {at}"
                parsed[text] = stored_document(dict[str, Range], json.loads(text), of) or {}
            yield case_id, place, TrainingNight(at, parsed[text], *night)

    def reference_nights(
        self, cluster: str, case_ids: Sequence[str], run_id: str, before: datetime
    ) -> dict[str, list[PairNight]]:
        """Nights of series with reference builds, by case, the newest first.

        Those of nightly runs `before`, and of the run itself; of each run the reference first, and
        then the one before, if it measured both.
        """
        found: dict[str, list[PairNight]] = {}
        for row in self.read(
            "reference_nights", cluster=cluster, case_ids=case_ids, run_id=run_id, before=before
        ):
            found.setdefault(row.pop("case_id"), []).append(PairNight(**row))
        return found

    def store_machine(self, run_id: str, case_id: str, kind: str, sentence: str) -> None:
        """Store the verdict on the reference that a case of a run was measured with."""
        row = {"run_id": run_id, "case_id": case_id, "kind": kind, "sentence": sentence}
        self._do(f"store the verdict on the reference of {case_id}", "store_machine", **row)

    def store_verdicts(self, verdicts: Iterable[Verdict]) -> int:
        """Store the verdicts of runs and return how many were new or different."""
        chosen = list(verdicts)
        with self._transaction("store the verdicts"):
            keys = {
                (row["run_id"], row["case_id"]): row
                for row in self._rows(
                    "planned_keys", run_ids=sorted({verdict.run_id for verdict in chosen})
                )
            }
            rows = []
            for verdict in chosen:
                row = vars(verdict) | keys[verdict.run_id, verdict.case_id]
                rows.append({k: v for k, v in row.items() if k not in _NAMES})
            return self._store("verdict", rows, "run_key series_key run_at")

    def verdicts(self, run_id: str) -> list[Verdict]:
        """The verdicts of a run, ordered by case."""
        return [
            Verdict(
                **row
                | {
                    "kind": VerdictKind(row["kind"]),
                    "training": row["training"] and TrainingKind(row["training"]),
                }
            )
            for row in self.read("verdicts", run_id=run_id)
        ]

    def store_noise_event(self, event: Mapping[str, Any]) -> bool:
        """Store that a night made a series noisy or steady; return whether that is new."""
        with self._transaction(f"store the noise of {event['case_id']}"):
            return self._store("noise_event", [event]) > 0

    def noisy(self, cluster: str | None = None) -> list[Row]:
        """The series that are noisy now: rows of `marts.noisy_series`."""
        return self.read("noisy_series", cluster=cluster)

    def store_drift(self, drift: Mapping[str, Any]) -> None:
        """Store that a night found a drift of a series; it replaces the former one.

        The drift has the columns of `marts.fct_drift`.
        """
        with self._transaction(f"store the drift of {drift['case_id']}"):
            self._write("end_drift", drift)
            seen = {"seen_run_id": drift["run_id"], "seen_at": drift["at"]}
            row = {**drift, **seen, "over_run_id": None, "over_at": None}
            self._store("drift", [row], "case_id cluster run_id", keep="at")

    def see_drift(self, drift: Mapping[str, Any]) -> bool:
        """Update the live drift with a night's values; return whether they are new."""
        return self._do(f"follow the drift of {drift['case_id']}", "see_drift", **drift) > 0

    def end_drift(self, case_id: str, cluster: str, run_id: str, at: datetime) -> bool:
        """Store that a run ended the drift of a series; return whether there was one."""
        row = {"case_id": case_id, "cluster": cluster, "run_id": run_id, "at": at}
        return self._do(f"end the drift of {case_id}", "end_drift", **row) > 0

    def drifts(
        self, *, suite: str | None = None, cluster: str | None = None, live: bool = True
    ) -> list[Row]:
        """Drifts of series, the largest drop first: rows of `marts.fct_drift`.

        `live` drifts have not ended.
        """
        return self.read("drifts", suite=suite, cluster=cluster, live=live)


def point_of(row: Row, metric: MetricInfo = THROUGHPUT) -> HistoryPoint:
    """A point of a series' history from a row of `marts.fct_measurement`."""
    named = {"at": row["started_at"], "control": None, **row, "value": row[metric.name]}
    if not metric.has_spread:
        named["spread"] = None
    return HistoryPoint(**{field.name: named[field.name] for field in fields(HistoryPoint)})
