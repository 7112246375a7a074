-- Questions of the web pages alone.

-- name: page_series(workload, framework, cluster, case_id, max_points)
-- The newest results of each series, oldest first; quarantined, failed and missing ones are among
-- them, drills and confirmations are not. A null parameter does not constrain.
with chosen as (
    select *
    from staging.series
    where
        (:workload::text is null or workload = :workload)
        and (:framework::text is null or framework = :framework)
        and (:cluster::text is null or cluster = :cluster)
        and (:case_id::text is null or case_id = :case_id)
)

select
    s.case_id,
    s.cluster,
    n.run_id,
    n.run_kind,
    n.started_at,
    s.workload,
    s.framework,
    s.strategy,
    s.nodes,
    s.devices_per_node,
    s.trainers,
    s.pservers,
    coalesce(s.batch_size_per_device, n.found_batch_size) as batch_size_per_device,
    s.precision,
    s.sync,
    s.scale,
    s.is_synthetic,
    n.framework_version,
    n.is_private_build as private_build,
    coalesce(n.status, 'missing') as status,
    coalesce(n.reasons, '[]') as reasons,
    n.throughput,
    n.unit,
    coalesce(n.n, 0) as n,
    n.spread,
    n.speedup,
    n.efficiency,
    n.quarantine_reasons is not null as quarantined,
    coalesce(n.quarantine_reasons, '[]') as quarantine_reasons,
    n.verdict,
    n.verdict_sentence,
    n.change,
    n.change_low,
    n.change_high,
    x.alert_id,
    x.alert_verdict,
    x.alert_change,
    x.drift,
    x.drift_since,
    x.noisy
from chosen as s
cross join
    lateral (
        -- Of these, some may be nights without room.
        select min(e.run_at) as since
        from (
            select p.run_at
            from raw.planned_case as p
            where p.series_key = s.series_key
            order by p.run_at desc
            limit 2 * :max_points
        ) as e
    ) as span
cross join
    lateral (
        select
            r.run_id,
            r.run_kind,
            r.started_at,
            p.is_private_build,
            coalesce(m.unit, p.unit) as unit,
            m.found_batch_size,
            m.framework_version,
            m.status,
            m.reasons,
            m.throughput,
            m.n,
            m.spread,
            m.speedup,
            m.efficiency,
            m.quarantine_reasons,
            v.kind as verdict,
            v.sentence as verdict_sentence,
            v.change,
            v.low as change_low,
            v.high as change_high
        from raw.planned_case as p
        inner join raw.run as r on p.run_key = r.run_key
        -- One scan of the months for each series, not one for each of its nights.
        left join (
            select *
            from raw.measurement
            where series_key = s.series_key and run_at >= span.since and not is_superseded
            offset 0
        ) as m on p.run_key = m.run_key
        left join (
            select *
            from raw.verdict
            where series_key = s.series_key and run_at >= span.since
            offset 0
        ) as v on p.run_key = v.run_key
        where
            p.series_key = s.series_key
            and p.run_at >= span.since
            and r.loaded_at is not null
            and r.run_kind not in ('drill', 'confirm')
            -- A night that had no room for a case says nothing of its series.
            and p.left_out is null
            and coalesce(m.status, '') <> 'left_out'
        order by p.run_at desc, p.run_key desc
        limit :max_points
    ) as n
left join marts.series_state as x
    on s.case_id = x.case_id and s.cluster = x.cluster
order by s.workload, s.framework, s.cluster, s.case_id, n.started_at, n.run_id;

-- name: page_choices()
-- Combinations of workload, framework and cluster that have results.
select distinct
    s.workload,
    s.framework,
    s.cluster
from staging.series as s
where
    exists (
        select from raw.planned_case as p
        inner join raw.run as r on p.run_key = r.run_key
        where
            p.series_key = s.series_key
            and r.loaded_at is not null
            and r.run_kind <> 'drill'
    )
order by s.workload, s.framework, s.cluster;

-- name: page_alerts(states, cluster, framework, alert_id, group_key, max_rows)
-- Alerts with the axes of their case, newest first. A null parameter does not constrain. The plan
-- is that of the run that opened the alert.
select
    a.*,
    c.workload,
    c.framework,
    p.unit
from marts.fct_alert as a
inner join staging.series as c on a.case_id = c.case_id and a.cluster = c.cluster
inner join raw.run as r on a.opened_run_id = r.run_id
left join raw.planned_case as p on r.run_key = p.run_key and c.series_key = p.series_key
where
    (:states::text[] is null or a.state = any(:states))
    and (:cluster::text is null or a.cluster = :cluster)
    and (:framework::text is null or c.framework = :framework)
    and (:alert_id::bigint is null or a.alert_id = :alert_id)
    and (:group_key::text is null or a.group_key = :group_key)
order by a.opened_at desc, a.alert_id desc
limit :max_rows;

-- name: page_labels()
-- How many alerts of the last year ended in which way.
select
    cluster,
    count(*) as alerts,
    count(*) filter (where state in ('open', 'acknowledged')) as live,
    count(*) filter (where dismissed_as = 'false_alarm') as false_alarms,
    count(*) filter (where dismissed_as = 'intended') as intended,
    count(*) filter (where dismissed_as = 'wont_fix') as wont_fix,
    count(*) filter (where state = 'resolved') as resolved
from marts.fct_alert
where opened_at > now() - interval '365 days'
group by cluster
order by cluster;

-- name: page_run_of_dag_run(dag_id, dag_run_id)
-- The run that a DAG run made; the newest one where its plan was cleared and made again.
select run_id
from staging.run
where
    dag_id = :dag_id
    and dag_run_id = :dag_run_id
order by started_at desc, run_id desc
limit 1;
