-- Grain: one row per run, case, generation and node that it was measured on.
create or replace view marts.fct_measurement_node as
select
    r.run_id,
    s.case_id,
    s.cluster,
    n.generation,
    n.node,
    n.run_at as started_at,
    n.fingerprint_id,
    n.series_key,
    n.run_key
from raw.measurement_node as n
inner join raw.run as r
    on n.run_key = r.run_key and n.run_at >= r.started_at and n.run_at <= r.started_at
inner join raw.series as s on n.series_key = s.series_key;

comment on view marts.fct_measurement_node is
'One row per run, case, generation and node that it was measured on, with the state of the node';
