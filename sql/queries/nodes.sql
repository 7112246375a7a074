-- Nodes: preflights, control measurements, events, states.

-- name: node_events(cluster, max_rows)
-- The newest events of each node of a cluster, and all events that people entered. Only a person
-- can release a node that a person put into quarantine, however many events have followed.
select e.*
from staging.node as n
cross join
    lateral (
        (
            select l.*
            from raw.node_event as l
            where l.cluster = n.cluster and l.node = n.node
            order by l.at desc
            limit :max_rows
        )
        union
        select p.*
        from raw.node_event as p
        where
            p.cluster = n.cluster
            and p.node = n.node
            and p.kind in ('quarantined', 'released')
    ) as e
where n.cluster = :cluster
order by e.node, e.at;

-- name: node_states(cluster)
-- State of each node of a cluster.
select *
from raw.node_state
where cluster = :cluster
order by node;

-- name: nodes(cluster)
-- Nodes with their state and last preflight; a null cluster selects all clusters.
select *
from marts.dim_node
where :cluster::text is null or cluster = :cluster
order by cluster asc, node asc;

-- name: node_state_changes(cluster, node, max_rows)
-- The history of a cluster's nodes, newest first.
select *
from raw.node_state_change
where
    cluster = :cluster
    and (:node::text is null or node = :node)
order by changed_at desc
limit :max_rows;

-- name: control_baselines(cluster)
-- The median of the newest control measurements of each series of a cluster.
with newest as (
    select
        m.*,
        c.median
    from staging.control_series as m
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
            order by r.at desc
            limit 10
        ) as c
    where m.cluster = :cluster
)

select
    node,
    metric,
    device,
    backend,
    percentile_cont(0.5) within group (order by median) as median
from newest
group by node, metric, device, backend
order by node, metric, device, backend;
