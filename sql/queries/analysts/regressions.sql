-- Which series regressed in a period, why, and what is the state of the alert? The largest drop
-- comes first. A parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '30 days' as since,
        now() as until,
        null::text as suite,
        null::text as cluster
)

select
    a.alert_id,
    a.case_id,
    a.cluster,
    r.suite,
    a.since as first_slow_night,
    round((100 * a.change)::numeric, 1) as change_percent,
    round((100 * a.level_change)::numeric, 1) as level_percent,
    round((100 * a.change_low)::numeric, 1) as low_percent,
    round((100 * a.change_high)::numeric, 1) as high_percent,
    a.state,
    a.dismissed_as,
    a.owner,
    a.cause,
    a.cause_suspect,
    a.cause_sentence,
    a.confirmation,
    a.last_good_run_id,
    a.first_bad_run_id,
    a.opened_at
from marts.fct_alert as a
inner join staging.run as r on a.opened_run_id = r.run_id
cross join chosen as c
where
    a.verdict = 'regressed'
    -- The night that opened it: the drop is older than the stored alert.
    and r.started_at > c.since
    and r.started_at <= c.until
    and (c.suite is null or r.suite = c.suite)
    and (c.cluster is null or a.cluster = c.cluster)
order by a.change asc, a.alert_id asc;
