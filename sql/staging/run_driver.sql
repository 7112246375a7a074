-- Grain: one row per run whose preflight found GPUs.
create or replace view staging.run_driver as
select
    n.run_id,
    string_agg(distinct g.gpu ->> 'driver', ', ') as driver
from raw.node_preflight as n
cross join lateral jsonb_array_elements(n.document -> 'gpus') as g (gpu)
where n.run_id <> ''
group by n.run_id;

comment on view staging.run_driver is 'One row per run whose preflight found GPUs: their driver';
comment on column staging.run_driver.driver is
'Driver versions; if nodes differ, separated by commas';
