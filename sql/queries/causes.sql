-- Causes of alerts, and the facts that they are found from.

-- name: alert_causes(alert_ids)
-- The latest cause of each alert.
select distinct on (alert_id) *
from raw.alert_cause
where alert_id = any(:alert_ids)
order by alert_id asc, at desc;

-- name: unexplained_alerts(run_id)
-- Alerts of cases of a run that have no cause yet: those it opened or reopened, those that nothing
-- explained before, and its own again where it is judged again.
select
    a.alert_id,
    a.case_id,
    m.framework,
    a.value,
    a.baseline,
    a.metric,
    v.first_bad_run_id,
    a.kind,
    coalesce(nullif(m.reasons, '[]'), m.quarantine_reasons, '[]') as reasons,
    opened.run_id as opened_run_id,
    opened.started_at as opened_at,
    opened.code_digest as opened_code,
    opened.env as opened_env,
    coalesce(b.digest, b.build_id) as opened_build,
    shared.factor,
    shared.name as factor_name,
    shared.sentence as shared_sentence
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
inner join staging.result as m
    on a.last_run_id = m.run_id and a.case_id = m.case_id
left join raw.verdict as v
    on m.run_key = v.run_key and m.series_key = v.series_key and m.run_at = v.run_at
left join raw.planned_case as op
    on opened.run_key = op.run_key and m.series_key = op.series_key
left join raw.build as b on op.build_key = b.build_key
left join lateral (
    select
        c.run_id,
        c.kind
    from raw.alert_cause as c
    where c.alert_id = a.alert_id
    order by c.at desc
    limit 1
) as known on true
left join lateral (
    select
        s.factor,
        s.name,
        s.sentence
    from raw.shared_change as s
    where s.alert_id = a.alert_id and s.run_id = :run_id
    order by s.change asc
    limit 1
) as shared on true
where
    a.last_run_id = :run_id
    and a.state in ('open', 'acknowledged')
    and a.kind in ('regressed', 'training_changed', 'failed', 'unavailable', 'missing')
    and (
        known.run_id is null
        or known.run_id = :run_id
        or known.kind = 'unexplained'
        or a.news_run_id = :run_id
    )
order by a.alert_id;

-- name: known_groups(cluster, since)
-- Causes of a cluster's alerts that have a group, not older than asked for.
select distinct on (c.alert_id)
    c.alert_id,
    a.cluster,
    c.kind,
    c.suspect,
    c.night,
    c.group_key as "group"
from raw.alert_cause as c
inner join raw.alert as a on c.alert_id = a.alert_id
where
    a.cluster = :cluster
    and c.group_key <> ''
    and c.night >= :since
order by c.alert_id asc, c.at desc;

-- name: cause_nights(case_ids, cluster, until)
-- Good nights of some series of the last 90 days, oldest first: value, versions, digests.
select
    s.case_id,
    r.run_id,
    r.started_at,
    m.throughput,
    m.framework_version,
    m.definition_digest,
    r.code_digest,
    r.env,
    coalesce(b.digest, b.build_id) as build,
    exists(
        select from staging.changed_training as t
        where t.series_key = m.series_key and m.run_at between t.since and t.until
    ) as is_changed
from raw.series as s
inner join raw.measurement as m on s.series_key = m.series_key
inner join raw.run as r on m.run_key = r.run_key
inner join raw.build as b on m.build_key = b.build_key
where
    s.case_id = any(:case_ids)
    and s.cluster = :cluster
    and m.run_kind = 'nightly'
    and m.run_at <= :until
    and m.run_at > :until - interval '90 days'
    and m.is_good
order by r.started_at asc, r.run_id asc, s.case_id asc;

-- name: cause_repeats(case_ids, run_ids)
-- Launches of some series in some runs: how many, how many were disturbed and why, their drift.
select
    s.case_id,
    r.run_id,
    e.repeats,
    e.disturbed,
    e.reasons,
    e.drift
from raw.run as r
inner join raw.series as s on r.cluster = s.cluster
cross join
    lateral (
        select
            count(*) as repeats,
            count(*) filter (where n.status = 'disturbed') as disturbed,
            jsonb_path_query_array(
                jsonb_agg(n.reasons order by n.repeat) filter (where n.status = 'disturbed'),
                '$[*][*]'
            ) as reasons,
            percentile_cont(0.5) within group (order by n.drift) as drift
        from raw.repeat as n
        where
            n.run_key = r.run_key
            and n.series_key = s.series_key
            and n.run_at = r.started_at
    ) as e
where
    s.case_id = any(:case_ids)
    and r.run_id = any(:run_ids)
    and e.repeats > 0
order by s.case_id, r.run_id;

-- name: cause_nodes(case_ids, run_ids)
-- Where some series ran in some runs, and which fingerprint each node had.
select
    s.case_id,
    r.run_id,
    k.node,
    k.fingerprint_id
from raw.run as r
inner join raw.series as s on r.cluster = s.cluster
cross join
    lateral (
        select
            n.node,
            max(n.fingerprint_id) as fingerprint_id
        from raw.measurement_node as n
        where
            n.run_key = r.run_key
            and n.series_key = s.series_key
            and n.run_at = r.started_at
        group by n.node
    ) as k
where
    s.case_id = any(:case_ids)
    and r.run_id = any(:run_ids)
order by s.case_id, r.run_id, k.node;

-- name: cause_versions(case_ids, run_ids)
-- Versions that the ranks of some series reported in some runs.
select
    s.case_id,
    r.run_id,
    k.versions
from raw.run as r
inner join raw.series as s on r.cluster = s.cluster
cross join
    lateral (
        select distinct n.versions
        from raw.repeat_rank as n
        where
            n.run_key = r.run_key
            and n.series_key = s.series_key
            and n.run_at = r.started_at
    ) as k
where
    s.case_id = any(:case_ids)
    and r.run_id = any(:run_ids);

-- name: cause_faults(cluster, run_ids)
-- Nodes that made cases of some runs fail. The subject is the case with its generation.
select
    run_id,
    node,
    subject,
    reasons
from raw.node_event
where
    cluster = :cluster
    and run_id = any(:run_ids)
    and kind = 'fault'
    and subject <> 'preflight'
order by run_id, node, subject;

-- name: cause_peers(cluster, until)
-- The newest verdict of the last hours of every series of a cluster. `since` is the start of the
-- drop; if the verdict does not know it, the time when its alert was opened. `dropped_with` are the
-- shared changes of that night that the series is a member of: factor and name.
select distinct on (s.case_id)
    s.case_id,
    s.framework,
    v.kind as verdict,
    v.change,
    v.metric,
    coalesce(v.since, opened.started_at, r.started_at) as since,
    m.framework_version,
    array(
        select distinct n.node
        from raw.measurement_node as n
        where
            n.run_key = v.run_key
            and n.series_key = v.series_key
            and n.run_at = v.run_at
        order by n.node
    ) as nodes,
    array(
        select d.factor || ' ' || d.name
        from raw.shared_change as d
        where d.run_id = r.run_id and d.change < 0 and d.members ? s.case_id
    ) as dropped_with
from raw.run as r
inner join raw.verdict as v on r.run_key = v.run_key and r.started_at = v.run_at
inner join staging.series as s on v.series_key = s.series_key
left join raw.measurement as m
    on
        v.run_key = m.run_key
        and v.series_key = m.series_key
        and v.run_at = m.run_at
        and not m.is_superseded
left join raw.alert as a
    on
        s.case_id = a.case_id
        and s.cluster = a.cluster
        and v.metric = a.metric
        and a.state in ('open', 'acknowledged')
left join raw.run as opened on a.opened_run_id = opened.run_id
where
    r.cluster = :cluster
    and r.run_kind = 'nightly'
    and r.started_at <= :until
    and r.started_at > :until - interval '20 hours'
order by s.case_id asc, r.started_at desc, r.run_id desc;

-- name: cause_controls(cluster, since, until)
-- Control measurements of the nights of a cluster up to one, by run; those of a repeated preflight
-- count once, with their median. They are made while the run is measured: a run of 180 days ago has
-- none from before that day.
select
    node,
    metric,
    device,
    backend,
    at,
    median
from raw.control
where
    cluster = :cluster
    and at > :since
    and at <= :until
order by node, metric, device, backend, at;

-- name: night_controls(cluster, until)
-- Control measurements of the nights of a cluster up to one, by run; those of a repeated preflight
-- count once, with their median. They are made during the run: a run of 180 days ago has none from
-- before that day.
select
    r.run_id,
    c.node,
    c.metric,
    c.device,
    c.backend,
    percentile_cont(0.5) within group (order by c.median) as median
from raw.run as r
inner join raw.control as c on r.run_id = c.run_id
where
    r.cluster = :cluster
    and r.run_kind = 'nightly'
    and r.started_at <= :until
    and r.started_at > :until - interval '180 days'
    and c.cluster = :cluster
    and c.at > :until - interval '181 days'
-- By its number: to compare names of runs, which begin alike, takes as long as all else.
group by r.run_key, c.node, c.metric, c.device, c.backend
order by r.run_key, c.node, c.metric, c.device, c.backend;

-- name: cause_preflights(cluster, since, until)
-- Preflights of a cluster's nodes in a span of time, oldest first.
select
    node,
    at,
    findings,
    document ->> 'boot_id' as boot_id,
    document -> 'gpus' as gpus,
    document -> 'cpu' -> 'governors' as governors,
    document -> 'links' as links,
    document -> 'foreign' as foreign_work
from raw.node_preflight
where
    cluster = :cluster
    and at > :since
    and at <= :until
order by node, at;
