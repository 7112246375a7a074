-- Grain: one row per series: a case, with all its axes, on a cluster.
create or replace view staging.series as
select
    s.series_key,
    s.case_id,
    s.cluster,
    c.workload,
    c.framework,
    c.strategy,
    c.nodes,
    c.devices_per_node,
    c.trainers,
    c.pservers,
    c.batch_size_per_device,
    c.batch_size_per_device * c.trainers as global_batch_size,
    /* axes of c */
    c.data,
    c.data = 'synthetic' as is_synthetic,
    c.scale,
    c.axes,
    concat_ws(
        ' ',
        c.strategy,
        nullif(c.sync, 'sync'),
        nullif(c.precision, 'fp32'),
        nullif(c.compiler, 'none'),
        nullif(c.execution, 'default'),
        nullif(c.layout, 'default'),
        nullif(c.compression, 'none'),
        'shard' || c.shard_stage,
        case when c.tensor > 1 then 'tensor' end,
        case when c.context > 1 then 'context' end,
        case when c.expert > 1 then 'expert' end,
        c.schedule,
        case when c.micro_batches > 1 then 'micro_batches' end,
        'recompute_' || nullif(c.recompute, 'none'),
        'states_' || nullif(c.state_precision, 'fp32'),
        nullif(c.tuning, 'default')
    ) as mode
from raw.series as s
inner join raw."case" as c on s.case_key = c.case_key;

comment on view staging.series is 'One row per series: a case on a cluster, with all its axes';
comment on column staging.series.global_batch_size is
'Samples in a step of all trainers; null if the case has max';
comment on column staging.series.mode is
'Strategy, then all values that are not the default of synchronisation, precision, compiler, '
'execution, layout, compression, how work is split, what is kept and tuning, such as `single '
'bf16 xla`';
comment on column staging.series.is_synthetic is 'Whether the result is from synthetic data';
