-- Grain: one row per finding of a preflight.
create or replace view marts.fct_node_finding as
select
    p.cluster,
    p.node,
    p.at,
    nullif(p.run_id, '') as run_id,
    f.finding ->> 'level' as level,
    f.finding ->> 'device' as device,
    f.finding ->> 'what' as what,
    f.finding ->> 'found' as found,
    f.finding ->> 'expected' as expected,
    f.finding ->> 'advice' as advice
from raw.node_preflight as p
cross join lateral jsonb_array_elements(p.findings) as f (finding);

comment on view marts.fct_node_finding is 'One row per finding of a preflight, with what to do';
