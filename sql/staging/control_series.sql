-- Grain: one row per series of control measurements: what is measured on a node in which way. Each is
-- looked up in the index behind the one before it: there are a few dozen among a million rows.
create or replace view staging.control_series as
with recursive series as (
    (
        select
            cluster,
            node,
            metric,
            device,
            backend
        from raw.control
        order by cluster asc, node asc, metric asc, device asc, backend asc
        limit 1
    )
    union all
    select n.*
    from series as s
    cross join lateral (
        select
            c.cluster,
            c.node,
            c.metric,
            c.device,
            c.backend
        from raw.control as c
        where
            (c.cluster, c.node, c.metric, c.device, c.backend)
            > (s.cluster, s.node, s.metric, s.device, s.backend)
        order by c.cluster asc, c.node asc, c.metric asc, c.device asc, c.backend asc
        limit 1
    ) as n
)

select
    cluster,
    node,
    metric,
    device,
    backend
from series;

comment on view staging.control_series is
'One row per series of control measurements: node, device, metric and backend';
comment on column staging.control_series.cluster is 'The cluster';
comment on column staging.control_series.node is 'The node; n1+n2 where it is between nodes';
comment on column staging.control_series.metric is
'matrix_product (float32) or matrix_product_tf32, _bf16, _fp16, memory_copy, all_reduce, '
'all_reduce_in_node or all_reduce_gpus';
comment on column staging.control_series.device is 'cpu, gpu-0, gpus or network';
comment on column staging.control_series.backend is 'Backend that computed it';
