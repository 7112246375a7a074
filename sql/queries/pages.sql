-- Questions of the web pages alone.

-- name: page_alerts(states, cluster, framework, case_id, alert_ids, group_key, max_rows, skipped)
-- Alerts with the axes of their case, newest first. A null parameter does not filter. The plan
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
    and (:case_id::text is null or a.case_id = :case_id)
    and (:alert_ids::bigint[] is null or a.alert_id = any(:alert_ids))
    and (:group_key::text is null or a.group_key = :group_key)
order by a.opened_at desc, a.alert_id desc
limit :max_rows offset :skipped;

-- name: page_alert_marks(states, cluster, framework)
-- Columns by which alerts are grouped and ordered. A null parameter does not filter.
select
    a.alert_id,
    a.cluster,
    a.state,
    a.snoozed_until,
    a.opened_at,
    a.opened_run_id,
    a.first_bad_run_id,
    a.group_key,
    a.rank,
    a.place
from marts.fct_alert as a
inner join staging.series as c on a.case_id = c.case_id and a.cluster = c.cluster
where
    (:states::text[] is null or a.state = any(:states))
    and (:cluster::text is null or a.cluster = :cluster)
    and (:framework::text is null or c.framework = :framework);

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
