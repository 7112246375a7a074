-- Grain: one row per series: a case, with all its axes, on a cluster.
-- `axes of c`: nightbench/warehouse/columns.py inserts these columns.
create or replace view staging.series as
select
    s.series_key,
    s.case_id,
    s.cluster,
    /* axes of c */
    c.batch_size_per_device,
    c.batch_size_per_device * c.trainers as global_batch_size,
    c.data = 'synthetic' as is_synthetic,
    c.axes,
    c.mode
from raw.series as s
inner join raw."case" as c on s.case_key = c.case_key;

comment on view staging.series is 'One row per series: a case on a cluster, with all its axes';
comment on column staging.series.global_batch_size is
'Samples in a step of all trainers; null if the case has max';
comment on column staging.series.is_synthetic is 'Whether the case trains on synthetic data';
