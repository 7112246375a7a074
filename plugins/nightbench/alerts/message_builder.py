"""Reads the contents of a message about alerts from the warehouse."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from nightbench.alerts import AlertItem, EndedAlert, Picture, grouped, picture
from nightbench.alerts.outbox import Item
from nightbench.causes.field_changes import differences
from nightbench.core.model import HistoryPoint, Verdict, VerdictKind, info_of
from nightbench.core.reproduce import command_of
from nightbench.core.run_plan import RunPlan
from nightbench.warehouse import Warehouse

MOST_PICTURES = 6
"""Largest number of plots in a message: the worst series of each cause, the worst first."""


class MessageBuilder:
    """Builds the items of a message about unnotified alerts."""

    def __init__(self, warehouse: Warehouse, plan: RunPlan, unnotified: Sequence[Item]) -> None:
        self._warehouse = warehouse
        self._plan = plan
        self._verdicts: dict[str, dict[str, Verdict]] = {}
        news = [each.alert_id for each in unnotified if each.is_news]
        self._causes = warehouse.causes.latest(news)
        self._shared_changes = warehouse.alerts.shared_changes(news)
        self._confirmations = warehouse.experiments.latest_confirmations(news)
        self._news: dict[int, AlertItem] = {}

    def verdict(self, row: Mapping[str, Any]) -> Verdict:
        """Return the verdict of an alert's latest night."""
        run_id = row["last_run_id"]
        found = self._verdict(run_id, row["case_id"])
        if found and found.metric == row["metric"]:
            return found
        # An alert about a whole suite, or about training, has no verdict of its own.
        return Verdict(
            row["case_id"],
            row["cluster"],
            run_id,
            VerdictKind(row["verdict"]),
            row["sentence"],
            row["value"],
            row["baseline"],
            row["change"],
            metric=row["metric"],
            last_good_run_id=row["last_good_run_id"],
            first_bad_run_id=row["first_bad_run_id"],
        )

    def ended(self, each: Item) -> EndedAlert:
        """Return the item of a resolved alert."""
        case_id = each.row["case_id"]
        verdict = self._verdict(each.news, case_id)
        sentence = verdict.sentence if verdict else ""
        if verdict and verdict.kind is VerdictKind.REGRESSED:
            # The regression continues: the alert of many series includes it.
            sentence = f"now part of one alert: {sentence}"
        return EndedAlert(case_id, sentence, each.alert_id)

    def news(self, each: Item) -> AlertItem:
        """Return the item of a new alert."""
        if each.alert_id not in self._news:
            self._news[each.alert_id] = self._read_item(each)
        return self._news[each.alert_id]

    def pictures(self, batch: Sequence[Item]) -> list[Picture]:
        """Return the plots of the drops in a message."""
        worst = [items[0] for items in grouped([self.news(each) for each in batch])]
        found: list[Picture | None] = []
        for news in worst:
            if news.verdict.kind is VerdictKind.REGRESSED and len(found) < MOST_PICTURES:
                found.append(self._picture(news))
        return [plot for plot in found if plot is not None]

    def _verdict(self, run_id: str, case_id: str) -> Verdict | None:
        if run_id not in self._verdicts:
            self._verdicts[run_id] = {v.case_id: v for v in self._warehouse.series.verdicts(run_id)}
        return self._verdicts[run_id].get(case_id)

    def _read_item(self, each: Item) -> AlertItem:
        row, verdict = each.row, self.verdict(each.row)
        ends = (verdict.last_good_run_id, verdict.first_bad_run_id)
        bad_run_id = verdict.first_bad_run_id or verdict.run_id
        wanted = [run_id for run_id in (verdict.last_good_run_id, bad_run_id) if run_id]
        states = self._warehouse.runs.case_states(verdict.case_id, wanted)
        good, bad = states.get(verdict.last_good_run_id or ""), states.get(bad_run_id)
        unit = (row["unit"] or "") if "unit" in row else ""
        shared = self._shared_changes.get(each.alert_id, {})
        return AlertItem(
            verdict=verdict,
            unit=unit,
            alert_id=each.alert_id,
            last_good=_point(good, verdict),
            first_bad=_point(bad, verdict) if all(ends) else None,
            changes=tuple(map(str, differences(good, bad))) if good and bad else None,
            cause=self._causes.get(each.alert_id),
            confirmation=self._confirmations.get(each.alert_id),
            error=self._warehouse.runs.case_error(verdict.run_id, verdict.case_id)
            if verdict.kind is VerdictKind.FAILED
            else None,
            is_awaited=bool(row["is_awaited"]),
            grown_from=row["grown_from"],
            reproduce=command_of(self._plan.run.suite, verdict.case_id, good, bad)
            if row["axes"]
            else None,
            untried=bad["untried"] if bad else None,
            shared=shared.get("sentence"),
            members=shared.get("members", {}),
        )

    def _picture(self, news: AlertItem) -> Picture | None:
        verdict = news.verdict
        metric = info_of(verdict.metric)
        points = self._warehouse.series.history(verdict.case_id, verdict.cluster, metric=metric)
        title = f"{verdict.case_id} on {verdict.cluster}"
        since: datetime | None = verdict.since
        unit = metric.unit_of(news.unit or "units")
        shown = [replace(point, value=point.value / metric.divisor) for point in points]
        baseline = verdict.baseline and verdict.baseline / metric.divisor
        return picture(title, shown, unit, since, baseline)


def _point(state: Mapping[str, Any] | None, verdict: Verdict) -> HistoryPoint | None:
    metric = info_of(verdict.metric)
    value = metric.value_of(state) if state and metric.name in state else None
    return HistoryPoint(state["started_at"], value, state["run_id"]) if state and value else None
