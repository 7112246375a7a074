-- Grain: one row per case that was ever planned.
create or replace view marts.dim_case as
select
    c.case_id,
    c.workload,
    c.framework,
    c.strategy,
    c.nodes,
    c.devices_per_node,
    c.trainers,
    c.pservers,
    c.batch_size_per_device,
    c.batch_size_per_device * c.trainers as global_batch_size,
    c.shard,
    c.shard_stage,
    c.tensor,
    c.context,
    c.expert,
    c.pipeline,
    c.schedule,
    c.micro_batches,
    c.recompute,
    c.state_precision,
    c.tuning,
    c.precision,
    c.sync,
    c.compiler,
    c.execution,
    c.layout,
    c.sequence_length,
    c.compression,
    c.link_bandwidth,
    c.threads,
    c.sparsity,
    c.cpus,
    c.memory_mb,
    c.data,
    c.data = 'synthetic' as is_synthetic,
    c.scale,
    l.unit,
    nullif(l.definition_digest, '') as definition_digest,
    l.started_at as last_planned_at,
    l.run_id as last_run_id
from raw."case" as c
left join lateral (
    select
        p.unit,
        p.definition_digest,
        r.started_at,
        r.run_id
    from raw.series as s
    cross join
        lateral (
            select n.*
            from raw.planned_case as n
            where n.series_key = s.series_key
            order by n.run_at desc
            limit 1
        ) as p
    inner join raw.run as r on p.run_key = r.run_key
    where s.case_key = c.case_key
    order by r.started_at desc
    limit 1
) as l on true;

comment on view marts.dim_case is 'One row per case that was ever planned, with all its axes';
comment on column marts.dim_case.batch_size_per_device is
'null: max, the largest that fits; each run finds it';
comment on column marts.dim_case.last_run_id is 'Newest run that planned it';
comment on column marts.dim_case.global_batch_size is
'Samples in a step of all trainers; null where the case says max';
comment on column marts.dim_case.is_synthetic is 'Made from synthetic data';
comment on column marts.dim_case.definition_digest is
'Digest of workload and protocol, as last planned; null where unknown';
