-- Grain: one row per case that was ever planned.
create or replace view marts.dim_case as
with latest as (
    select distinct on (p.case_id)
        p.*,
        r.run_id as last_run_id,
        r.started_at as last_planned_at
    from staging.planned_case as p
    inner join staging.run as r on p.run_id = r.run_id
    order by p.case_id asc, r.started_at desc
),

counted as (
    select
        p.case_id,
        count(*) as runs,
        min(r.started_at) as first_planned_at
    from staging.planned_case as p
    inner join staging.run as r on p.run_id = r.run_id
    group by p.case_id
)

select
    l.case_id,
    l.workload,
    l.framework,
    l.strategy,
    l.nodes,
    l.devices_per_node,
    l.trainers,
    l.pservers,
    l.batch_size_per_device,
    l.global_batch_size,
    l.precision,
    l.sync,
    l.compiler,
    l.execution,
    l.layout,
    l.sequence_length,
    l.compression,
    l.link_bandwidth,
    l.threads,
    l.sparsity,
    l.cpus,
    l.memory_mb,
    l.data,
    l.is_synthetic,
    l.scale,
    l.unit,
    l.definition_digest,
    c.first_planned_at,
    l.last_planned_at,
    l.last_run_id,
    c.runs
from latest as l
inner join counted as c on l.case_id = c.case_id;

comment on view marts.dim_case is 'One row per case that was ever planned, with all its axes';
comment on column marts.dim_case.batch_size_per_device is
'null: max, the largest that fits; each run finds it';
comment on column marts.dim_case.trainers is 'Data-parallel ranks';
comment on column marts.dim_case.runs is 'Runs that planned the case';
