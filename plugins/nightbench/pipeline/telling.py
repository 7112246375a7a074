"""Tells of alerts. An alert is stored before its message is sent and remembers that it was.

A message that no channel took is sent by the next try; one that was taken is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nightbench.alerts import Delivery, News, message, send
from nightbench.detection import Judgement
from nightbench.errors import UserError
from nightbench.model import Verdict
from nightbench.pipeline.plans import RunPlan
from nightbench.warehouse import Loader, Reader


def tell(
    reader: Reader,
    loader: Loader,
    plan: RunPlan,
    judged: Sequence[tuple[Verdict, Judgement | None]],
    resolved: Sequence[str],
    resolve: Callable[[str], str] | None,
    link: str | None,
) -> tuple[Delivery, ...]:
    """Send one message for all that is new.

    Raises:
        UserError: there are channels, and none of them took the message.
    """
    run = plan.run
    news = _news(plan, judged, set(reader.untold_alerts(run.run_id)))
    deliveries: tuple[Delivery, ...] = ()
    if plan.channels and (news or resolved):
        said = message(run, plan.owner, news, resolved, link)
        deliveries = tuple(send(plan.channels, said.title, said.body, resolve))
        if not any(delivery.sent for delivery in deliveries):
            reasons = "; ".join(f"{d.channel}: {d.error}" for d in deliveries)
            raise UserError(
                f'no channel of suite {run.suite} took the message "{said.title}": {reasons}. '
                "The alerts are stored; the message is sent when the run is judged again."
            )
    loader.mark_told(run.run_id)
    return deliveries


def _news(
    plan: RunPlan, judged: Sequence[tuple[Verdict, Judgement | None]], untold: set[str]
) -> list[News]:
    units = {case.planned.case_id: case.planned.unit or "" for case in plan.cases}
    return [
        News(
            verdict=verdict,
            unit=units.get(verdict.case_id, ""),
            since=judgement.since if judgement else None,
            last_good=judgement.last_good if judgement else None,
        )
        for verdict, judgement in judged
        if verdict.case_id in untold
    ]
