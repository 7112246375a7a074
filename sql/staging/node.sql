-- Grain: one row per node that a preflight examined, or that a person put into or out of
-- quarantine. Each is found in the indexes after the one before it, as in control_series.
create or replace view staging.node as
with recursive looked_at as (
    (
        select
            cluster,
            node
        from raw.node_preflight
        order by cluster asc, node asc
        limit 1
    )
    union all
    select n.*
    from looked_at as l
    cross join lateral (
        select
            p.cluster,
            p.node
        from raw.node_preflight as p
        where (p.cluster, p.node) > (l.cluster, l.node)
        order by p.cluster asc, p.node asc
        limit 1
    ) as n
),

had_event as (
    (
        select
            cluster,
            node
        from raw.node_event
        order by cluster asc, node asc
        limit 1
    )
    union all
    select n.*
    from had_event as h
    cross join lateral (
        select
            e.cluster,
            e.node
        from raw.node_event as e
        where (e.cluster, e.node) > (h.cluster, h.node)
        order by e.cluster asc, e.node asc
        limit 1
    ) as n
)

select
    cluster,
    node
from looked_at
union
select
    cluster,
    node
from had_event
union
select
    cluster,
    node
from raw.node_state;

comment on view staging.node is
'One row per node that was ever checked, or whose state a user has set';
comment on column staging.node.cluster is 'The cluster';
comment on column staging.node.node is 'The node';
