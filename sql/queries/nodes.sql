-- Nodes: preflights, control measurements, events, states.

-- name: store_node_preflight*!
-- A preflight of a node.
insert into raw.node_preflight (
    cluster,
    node,
    at,
    run_id,
    address,
    is_reachable,
    level,
    findings,
    problem,
    document,
    clock_offset_s,
    clock_error_s,
    wall_error_s,
    orphans_ended
)
values (
    :cluster,
    :node,
    :at,
    :run_id,
    :address,
    :is_reachable,
    :level,
    :findings,
    :problem,
    :document,
    :clock_offset_s,
    :clock_error_s,
    :wall_error_s,
    :orphans_ended
)
on conflict do nothing;

-- name: store_control*!
-- A control measurement.
insert into raw.control (
    cluster,
    node,
    metric,
    device,
    backend,
    at,
    run_id,
    unit,
    median,
    minimum,
    maximum,
    n
)
values (
    :cluster,
    :node,
    :metric,
    :device,
    :backend,
    :at,
    :run_id,
    :unit,
    :median,
    :minimum,
    :maximum,
    :n
)
on conflict do nothing;

-- name: store_node_event*!
-- Evidence for or against a node; a run's events are stored once.
insert into raw.node_event (cluster, node, run_id, subject, at, kind, reasons, by_whom)
values (
    :cluster,
    :node,
    :run_id,
    :subject,
    :at,
    :kind,
    :reasons,
    :by_whom
)
on conflict do nothing;

-- name: store_node_state*!
-- State of a node. Writes only where something differs.
insert into raw.node_state as t (cluster, node, state, since, reasons, by_whom, faults)
values (
    :cluster,
    :node,
    :state,
    :since,
    :reasons,
    :by_whom,
    :faults
)
on conflict (cluster, node) do update set
    state = excluded.state,
    since = excluded.since,
    reasons = excluded.reasons,
    by_whom = excluded.by_whom,
    faults = excluded.faults
where t.* is distinct from excluded.*;

-- name: store_node_state_change*!
-- A change of a node's state, for its history.
insert into raw.node_state_change (cluster, node, state, since, reasons, by_whom)
values (:cluster, :node, :state, :since, :reasons, :by_whom);

-- name: node_events(cluster, max_rows)
-- The newest events of each node of a cluster, and all that people entered: a node that a person
-- put into quarantine is released by a person only, however many events have followed.
with numbered as (
    select
        *,
        row_number() over (partition by node order by at desc) as age
    from raw.node_event
    where cluster = :cluster
)

select
    cluster,
    node,
    run_id,
    subject,
    at,
    kind,
    reasons,
    by_whom
from numbered
where age <= :max_rows or kind in ('quarantined', 'released')
order by node, at;

-- name: node_states(cluster)
-- State of each node of a cluster.
select
    cluster,
    node,
    state,
    since,
    reasons,
    by_whom,
    faults
from raw.node_state
where cluster = :cluster
order by node;

-- name: nodes(cluster)
-- The nodes of a cluster with their state and last preflight.
select *
from marts.dim_node
where cluster = :cluster
order by node;

-- name: node_state_changes(cluster, node, max_rows)
-- The history of a cluster's nodes, newest first.
select
    cluster,
    node,
    changed_at,
    state,
    since,
    reasons,
    by_whom
from raw.node_state_change
where
    cluster = :cluster
    and (:node::text is null or node = :node)
order by changed_at desc
limit :max_rows;

-- name: control_baselines(cluster, before)
-- The median of the newest control measurements of each series of a cluster.
with measured as (
    select distinct
        node,
        metric,
        device,
        backend
    from raw.control
    where cluster = :cluster
),

newest as (
    select
        m.*,
        c.median
    from measured as m
    cross join
        lateral (
            select r.median
            from raw.control as r
            where
                r.cluster = :cluster
                and r.node = m.node
                and r.metric = m.metric
                and r.device = m.device
                and r.backend = m.backend
                and (:before::timestamptz is null or r.at < :before)
            order by r.at desc
            limit 10
        ) as c
)

select
    node,
    metric,
    device,
    backend,
    percentile_cont(0.5) within group (order by median) as median,
    count(*) as n
from newest
group by node, metric, device, backend
order by node, metric, device, backend;
