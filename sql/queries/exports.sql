-- Exports of the history: rows of marts, a month of runs at a time.

-- name: export_columns(view)
-- The columns of a view in their order, with type and comment.
select
    a.attname as name,
    format_type(a.atttypid, null) as type,
    coalesce(col_description(a.attrelid, a.attnum), '') as description
from pg_attribute as a
where a.attrelid = :view::regclass and a.attnum > 0 and not a.attisdropped
order by a.attnum;

-- name: export_span(suite, cluster, run_id, since, until)
-- Start of the first and of the last run within the filters; null if there is none.
select
    min(started_at) as first_at,
    max(started_at) as last_at
from staging.run
where
    (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:run_id::text is null or run_id = :run_id)
    and (:since::timestamptz is null or started_at >= :since)
    and (:until::timestamptz is null or started_at < :until);

-- name: export_measurements(suite, cluster, case_id, run_id, since, until)
-- Medians of the runs that began within a span of time, in the order of their runs.
select *
from marts.fct_measurement
where
    (:since::timestamptz is null or started_at >= :since)
    and (:until::timestamptz is null or started_at < :until)
    and (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:case_id::text is null or case_id = :case_id)
    and (:run_id::text is null or run_id = :run_id)
order by started_at, run_id, case_id;

-- name: export_repeats(suite, cluster, case_id, run_id, since, until)
-- Repeats, good or not, of the runs that began within a span of time.
select e.*
from marts.fct_repeat as e
inner join staging.run as r on e.run_id = r.run_id
where
    (:since::timestamptz is null or r.started_at >= :since)
    and (:until::timestamptz is null or r.started_at < :until)
    and (:suite::text is null or r.suite = :suite)
    and (:cluster::text is null or r.cluster = :cluster)
    and (:case_id::text is null or e.case_id = :case_id)
    and (:run_id::text is null or e.run_id = :run_id)
order by r.started_at, e.run_id, e.case_id, e.generation, e.repeat;

-- name: export_verdicts(suite, cluster, case_id, run_id, since, until)
-- Verdicts of the runs that began within a span of time.
select *
from marts.fct_verdict
where
    (:since::timestamptz is null or started_at >= :since)
    and (:until::timestamptz is null or started_at < :until)
    and (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:case_id::text is null or case_id = :case_id)
    and (:run_id::text is null or run_id = :run_id)
order by started_at, run_id, case_id;

-- name: export_alerts(suite, cluster, case_id, run_id, since, until)
-- Alerts that were opened by the runs that began within a span of time.
select a.*
from marts.fct_alert as a
inner join staging.run as r on a.opened_run_id = r.run_id
where
    (:since::timestamptz is null or r.started_at >= :since)
    and (:until::timestamptz is null or r.started_at < :until)
    and (:suite::text is null or r.suite = :suite)
    and (:cluster::text is null or a.cluster = :cluster)
    and (:case_id::text is null or a.case_id = :case_id)
    and (:run_id::text is null or a.opened_run_id = :run_id)
order by r.started_at, a.alert_id;

-- name: report_histories(run_id, cluster, case_ids, since, until)
-- Medians of the nights of some cases, oldest first, and those of the run itself; other private
-- builds are no part of them.
select
    case_id,
    run_id,
    started_at,
    throughput
from marts.fct_measurement
where
    cluster = :cluster
    and case_id = any(:case_ids)
    and started_at >= :since
    and started_at <= :until
    and ((run_kind = 'nightly' and not is_private_build) or run_id = :run_id)
order by case_id, started_at, run_id;

-- name: export_metrics(suite, cluster, case_id)
-- Newest median, newest verdict and live alert of each series, for monitoring systems.
select
    l.suite,
    l.cluster,
    l.case_id,
    l.workload,
    l.framework,
    l.framework_version,
    l.unit,
    l.started_at,
    l.throughput,
    l.spread,
    l.tokens_per_s,
    l.mfu,
    l.joules_per_unit,
    l.reported,
    v.kind as verdict,
    v.change,
    v.training,
    a.alert_state
from marts.latest_median as l
left join lateral (
    select
        newest.kind,
        newest.change,
        newest.training
    from raw.verdict as newest
    where newest.series_key = l.series_key
    order by newest.run_at desc
    limit 1
) as v on true
left join marts.series_state as a on l.case_id = a.case_id and l.cluster = a.cluster
where
    (:suite::text is null or l.suite = :suite)
    and (:cluster::text is null or l.cluster = :cluster)
    and (:case_id::text is null or l.case_id = :case_id)
order by l.cluster, l.case_id;
