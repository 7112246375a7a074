-- Questions of the web pages alone.

-- name: page_series(workload, framework, cluster, case_id, max_points)
-- The newest results of each series, oldest first; quarantined, failed and missing ones are among
-- them, drills and confirmations are not. A null parameter does not constrain.
with numbered as (
    select
        p.case_id,
        r.cluster,
        r.run_id,
        r.run_kind,
        r.started_at,
        p.workload,
        p.framework,
        p.strategy,
        p.nodes,
        p.devices_per_node,
        p.trainers,
        p.pservers,
        coalesce(p.batch_size_per_device, m.found_batch_size) as batch_size_per_device,
        p.precision,
        p.sync,
        p.scale,
        p.is_synthetic,
        m.framework_version,
        p.is_private_build as private_build,
        coalesce(m.status, 'missing') as status,
        coalesce(m.reasons, '[]') as reasons,
        m.throughput,
        coalesce(m.unit, p.unit) as unit,
        coalesce(m.n, 0) as n,
        m.spread,
        m.speedup,
        m.efficiency,
        coalesce(m.is_quarantined, false) as quarantined,
        coalesce(m.quarantine_reasons, '[]') as quarantine_reasons,
        v.kind as verdict,
        v.sentence as verdict_sentence,
        v.change,
        v.low as change_low,
        v.high as change_high,
        row_number() over (
            partition by p.case_id, r.cluster order by r.started_at desc, r.run_id desc
        ) as age
    from staging.planned_case as p
    inner join staging.run as r on p.run_id = r.run_id
    left join staging.measurement as m
        on p.run_id = m.run_id and p.case_id = m.case_id
    left join raw.verdict as v
        on p.run_id = v.run_id and p.case_id = v.case_id
    where
        r.loaded_at is not null
        and r.run_kind not in ('drill', 'confirm')
        -- A night that had no room for a case says nothing of its series.
        and p.left_out is null
        and m.status is distinct from 'left_out'
        and (:workload::text is null or p.workload = :workload)
        and (:framework::text is null or p.framework = :framework)
        and (:cluster::text is null or r.cluster = :cluster)
        and (:case_id::text is null or p.case_id = :case_id)
)

select
    n.*,
    s.alert_id,
    s.alert_verdict,
    s.alert_change,
    s.drift,
    s.drift_since,
    s.noisy
from numbered as n
left join marts.series_state as s
    on n.case_id = s.case_id and n.cluster = s.cluster
where n.age <= :max_points
order by n.workload, n.framework, n.cluster, n.case_id, n.started_at, n.run_id;

-- name: page_choices()
-- Combinations of workload, framework and cluster that have results.
select distinct
    p.workload,
    p.framework,
    r.cluster
from staging.planned_case as p
inner join staging.run as r on p.run_id = r.run_id
where
    r.loaded_at is not null
    and r.run_kind <> 'drill'
order by p.workload, p.framework, r.cluster;

-- name: page_alerts(states, cluster, framework, alert_id, group_key, max_rows)
-- Alerts with the axes of their case, newest first. A null parameter does not constrain. The plan
-- is that of the run that opened the alert.
select
    a.*,
    c.workload,
    c.framework,
    c.unit
from marts.fct_alert as a
left join staging.planned_case as c on a.opened_run_id = c.run_id and a.case_id = c.case_id
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
