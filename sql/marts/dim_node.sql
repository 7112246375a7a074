-- Grain: one row per node that a preflight examined, or that a person put into or out of
-- quarantine.
create or replace view marts.dim_node as
with latest as (
    select p.*
    from staging.node as n
    cross join lateral (
        select l.*
        from raw.node_preflight as l
        where l.cluster = n.cluster and l.node = n.node
        order by l.at desc
        limit 1
    ) as p
),

complaints as (
    select
        l.cluster,
        l.node,
        jsonb_agg(concat_ws(' ', f.finding ->> 'device', f.finding ->> 'what')) as complaints
    from latest as l
    cross join lateral jsonb_array_elements(l.findings) as f (finding)
    where f.finding ->> 'level' <> 'info'
    group by l.cluster, l.node
)

select
    coalesce(l.cluster, s.cluster) as cluster,
    coalesce(l.node, s.node) as node,
    l.address,
    coalesce(s.state, 'ok') as state,
    s.since as state_since,
    s.reasons as state_reasons,
    s.by_whom as state_by,
    coalesce(s.faults, 0) as faults_in_a_row,
    l.at as last_preflight_at,
    nullif(l.run_id, '') as last_preflight_run_id,
    l.is_reachable as was_reachable,
    l.level as last_level,
    coalesce(c.complaints, '[]') as last_complaints
from latest as l
left join complaints as c on l.cluster = c.cluster and l.node = c.node
full join raw.node_state as s on l.cluster = s.cluster and l.node = s.node;

comment on view marts.dim_node is
'One row per node: its state, and the findings of its last preflight';
comment on column marts.dim_node.cluster is 'The cluster';
comment on column marts.dim_node.node is 'The node';
comment on column marts.dim_node.state is 'ok or quarantined';
comment on column marts.dim_node.faults_in_a_row is 'Faults in a row up to now';
comment on column marts.dim_node.last_preflight_run_id is
'Run whose preflight checked the node; null if a user checked it';
comment on column marts.dim_node.last_complaints is
'Findings of the last preflight, each with device and fault';
