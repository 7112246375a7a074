-- The latest two versions of a framework that nights of a series ran with, up to the run that an
-- alert was opened by: the second is the suspect. No row where there was only one.
with alert as (
    select
        a.case_id,
        a.cluster,
        r.started_at
    from marts.fct_alert as a
    inner join staging.run as r on a.opened_run_id = r.run_id
    where a.alert_id = %(alert_id)s
),

nights as (
    select
        m.run_id,
        m.suite,
        m.started_at,
        m.framework_version,
        lag(m.framework_version) over (order by m.started_at, m.run_id) as before,
        lag(m.run_id) over (order by m.started_at, m.run_id) as run_before
    from marts.fct_measurement as m
    inner join alert as a
        on m.case_id = a.case_id and m.cluster = a.cluster and m.started_at <= a.started_at
    where m.run_kind = 'nightly' and m.framework_version is not null
)

select
    suite,
    before as good,
    framework_version as bad,
    run_before as good_run_id,
    run_id as bad_run_id
from nights
where before is distinct from framework_version and before is not null
order by started_at desc, run_id desc
limit 1;
