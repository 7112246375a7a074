-- Results that a public site may show. `rules` is a list of objects, one for each suite that has
-- `publish`: suite, frameworks and workloads (empty: all), and whether names of nodes and notes may
-- be published. Only nights count, and no private build. No statement returns rows that its rule
-- does not name.

-- name: site_series(rules)
-- Series that have a median of a night that may be shown, with their axes.
select
    s.series_key,
    s.case_id,
    s.cluster,
    s.workload,
    s.framework,
    s.trainers,
    s.is_synthetic,
    s.scale,
    s.axes,
    l.untried
from staging.series as s
inner join marts.latest_median as l on s.series_key = l.series_key
where
    exists (
        select 1
        from marts.fct_measurement as m
        inner join
            jsonb_to_recordset(:rules::jsonb)
                as p (
                    suite text, frameworks jsonb, workloads jsonb
                )
            on m.suite = p.suite
        where
            m.series_key = s.series_key
            and m.run_kind in ('nightly', 'backfill')
            and not m.is_private_build
            and not exists (
                select from staging.changed_training as t
                where t.series_key = s.series_key and m.started_at between t.since and t.until
            )
            and (p.frameworks = '[]' or p.frameworks @> to_jsonb(s.framework))
            and (p.workloads = '[]' or p.workloads @> to_jsonb(s.workload))
    )
order by s.workload, s.framework, s.cluster, s.case_id;

-- name: site_points(series_keys, rules)
-- The nights of some series, as columns of the same length, oldest first. The runs come first, and
-- once: as a part of each series' rows the planner would read these once for each rule.
with allowed as materialized (
    select
        r.run_key,
        p.frameworks,
        p.workloads,
        p.nodes
    from staging.run as r
    inner join
        jsonb_to_recordset(:rules::jsonb)
            as p (
                suite text, frameworks jsonb, workloads jsonb, nodes boolean
            )
        on r.suite = p.suite
    where r.run_kind in ('nightly', 'backfill')
)

select
    m.series_key,
    max(m.unit) as unit,
    array_agg(extract(epoch from m.run_at)::bigint order by m.run_at, m.run_key) as at,
    array_agg(m.throughput order by m.run_at, m.run_key) as median,
    array_agg(m.minimum order by m.run_at, m.run_key) as low,
    array_agg(m.maximum order by m.run_at, m.run_key) as high,
    array_agg(m.half_width order by m.run_at, m.run_key) as half_width,
    array_agg(m.n order by m.run_at, m.run_key) as n,
    array_agg(m.framework_version order by m.run_at, m.run_key) as version,
    array_agg(b.build_id order by m.run_at, m.run_key) as build,
    array_agg(left(m.definition_digest, 8) order by m.run_at, m.run_key) as definition,
    array_agg(
        case when a.nodes then array_to_string(m.node_names, ', ') end
        order by m.run_at, m.run_key
    ) as node_names
from raw.measurement as m
inner join allowed as a on m.run_key = a.run_key
inner join staging.series as s on m.series_key = s.series_key
inner join staging.build as b on m.build_key = b.build_key
where
    m.series_key = any(:series_keys)
    and m.is_good
    and not m.is_private_build
    and not exists (
        select from staging.changed_training as t
        where t.series_key = m.series_key and m.run_at between t.since and t.until
    )
    and (a.frameworks = '[]' or a.frameworks @> to_jsonb(s.framework))
    and (a.workloads = '[]' or a.workloads @> to_jsonb(s.workload))
group by m.series_key;

-- name: site_changes(rules)
-- Drops that nights of these suites found, the newest first, without false alarms. Sentences name
-- nodes, so they are published with these. `group_key` may name one: it is for comparing, and never
-- shown.
select
    a.alert_id,
    a.case_id,
    a.cluster,
    s.framework,
    a.state,
    a.opened_at,
    coalesce(a.since, a.opened_at) as since,
    a.closed_at,
    coalesce(a.level_change, a.change) as change,
    a.metric,
    a.change_low,
    a.change_high,
    a.confirmation,
    a.confirmation_ratio,
    a.confirmation_low,
    a.confirmation_high,
    a.confirmation_rounds,
    a.cause,
    a.dismissed_as,
    nullif(a.group_key, '') as group_key,
    case when p.nodes then a.cause_sentence end as cause_sentence,
    case
        when p.notes
            then (
                select array_agg(e.why order by e.at, e.event_id)
                from marts.fct_alert_event as e
                where e.alert_id = a.alert_id and e.by_whom <> 'nightbench' and e.why <> ''
            )
    end as notes
from marts.fct_alert as a
inner join staging.run as r on a.opened_run_id = r.run_id
inner join staging.series as s on a.case_id = s.case_id and a.cluster = s.cluster
inner join
    jsonb_to_recordset(:rules::jsonb)
        as p (
            suite text, frameworks jsonb, workloads jsonb, nodes boolean, notes boolean
        )
    on r.suite = p.suite
where
    a.verdict = 'regressed'
    and r.run_kind in ('nightly', 'backfill')
    and a.dismissed_as is distinct from 'false_alarm'
    and (p.frameworks = '[]' or p.frameworks @> to_jsonb(s.framework))
    and (p.workloads = '[]' or p.workloads @> to_jsonb(s.workload))
order by a.opened_at desc, a.alert_id desc;

-- name: site_references(rules)
-- Every cell of the public tables, with the newest median of a series that matches it, if it comes
-- from a night that may be shown.
select
    f.reference_id,
    f.source_document,
    f.figure,
    f.workload,
    f.framework_text,
    f.published_version,
    f.published_device,
    f.nodes,
    f.devices_per_node,
    f.trainers,
    f.batch_size_per_device,
    f.precision,
    f.variant_text,
    f.unit,
    f.published_value,
    f.remark,
    f.measured_is_synthetic,
    case when p.suite is not null then f.case_id end as case_id,
    case when p.suite is not null then f.cluster end as cluster,
    case when p.suite is not null then f.measured_value end as measured_value
from marts.fct_reference as f
left join staging.run as r on f.run_id = r.run_id
left join staging.series as s on f.case_id = s.case_id and f.cluster = s.cluster
left join
    jsonb_to_recordset(:rules::jsonb)
        as p (
            suite text, frameworks jsonb, workloads jsonb
        )
    on
        r.suite = p.suite
        and r.run_kind in ('nightly', 'backfill')
        and (p.frameworks = '[]' or p.frameworks @> to_jsonb(s.framework))
        and (p.workloads = '[]' or p.workloads @> to_jsonb(s.workload))
order by f.source_document, f.figure, f.workload, f.reference_id, f.cluster, f.case_id;

-- name: site_hardware(rules)
-- Hardware of the nodes of the newest nights, equal nodes counted together, without their names.
with chosen as (
    select r.run_id
    from jsonb_to_recordset(:rules::jsonb) as p (suite text)
    cross join
        lateral (
            select n.run_id
            from staging.run as n
            where n.suite = p.suite and n.run_kind in ('nightly', 'backfill')
            order by n.started_at desc
            limit 10
        ) as r
),

node as (
    select distinct on (n.cluster, n.node)
        n.cluster,
        n.node,
        n.fingerprint_id
    from chosen as c
    inner join marts.fct_measurement_node as n on c.run_id = n.run_id
    where n.fingerprint_id is not null
    order by n.cluster asc, n.node asc, n.started_at desc
),

described as (
    select
        n.cluster,
        n.node,
        jsonb_object_agg(f.field, f.value) as hardware
    from node as n
    inner join marts.fingerprint_field as f on n.fingerprint_id = f.fingerprint_id
    where
        f.field ~ '^(cpu\.(model|sockets|cores|threads)|memory_bytes|gpus\.[0-9]+\.(model|driver))$'
    group by n.cluster, n.node
)

select
    d.cluster,
    k.device_kind,
    k.devices_per_node,
    k.is_shared,
    d.hardware,
    count(*) as nodes
from described as d
left join marts.dim_cluster as k on d.cluster = k.cluster
group by d.cluster, k.device_kind, k.devices_per_node, k.is_shared, d.hardware
order by d.cluster asc, nodes desc;
