-- Suites of which something is untold, with the last run that brought news of them.
select distinct on (r.suite, r.cluster)
    r.suite,
    r.cluster,
    r.run_id,
    r.started_at
from raw.alert as a
inner join raw.run as r
    on
        (
            a.news_run_id = r.run_id
            and a.state in ('open', 'acknowledged')
            and a.told_at is null
            and (a.snoozed_until is null or a.snoozed_until <= now())
        )
        or (
            a.resolved_run_id = r.run_id
            and a.state = 'resolved'
            and (a.end_told_at is null or a.end_told_at < a.closed_at)
        )
order by r.suite asc, r.cluster asc, r.started_at desc, r.run_id desc;
