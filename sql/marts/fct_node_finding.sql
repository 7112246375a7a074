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
comment on column marts.fct_node_finding.run_id is
'The run that it was for; null where a person looked';
comment on column marts.fct_node_finding.level is 'info, warn or fail';
comment on column marts.fct_node_finding.device is 'Device that it is about; null where none';
comment on column marts.fct_node_finding.what is 'What was looked at';
comment on column marts.fct_node_finding.found is 'What was found';
comment on column marts.fct_node_finding.expected is 'What should have been found';
comment on column marts.fct_node_finding.advice is 'What to do';
