-- Grain: one row per node that was ever looked at, or that somebody spoke for or against.
create or replace view marts.dim_node as
with latest as (
    select distinct on (cluster, node)
        cluster,
        node,
        at,
        run_id,
        address,
        is_reachable,
        level,
        jsonb_path_query_array(findings, '$[*] ? (@.level != "info").what') as complaints
    from raw.node_preflight
    order by cluster asc, node asc, at desc
)

select
    coalesce(l.cluster, s.cluster) as cluster,
    coalesce(l.node, s.node) as node,
    l.address,
    coalesce(s.state, 'ok') as state,
    s.since as state_since,
    s.reason as state_reason,
    s.by_whom as state_by,
    coalesce(s.faults, 0) as faults_in_a_row,
    l.at as last_preflight_at,
    nullif(l.run_id, '') as last_preflight_run_id,
    l.is_reachable as was_reachable,
    l.level as last_level,
    l.complaints as last_complaints
from latest as l
full join raw.node_state as s on l.cluster = s.cluster and l.node = s.node;

comment on view marts.dim_node is
'One row per node: where it stands, and what the last preflight complained of';
