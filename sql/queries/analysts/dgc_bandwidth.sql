-- What is gained by Deep Gradient Compression on a slow network? For each limit of the links'
-- bandwidth, the answer compares the newest median with dense gradients and the newest median with
-- compressed gradients. `gain` is the throughput with compressed gradients divided by the
-- throughput with dense gradients. All other axes are the same. A parameter in `chosen` that is
-- null selects everything.
with chosen as not materialized (
    select
        null::text as workload,
        null::text as framework,
        null::text as cluster
)

select
    dense.workload,
    dense.framework,
    dense.cluster,
    dense.nodes || 'x' || dense.devices_per_node as devices,
    dense.batch_size_per_device,
    dense.precision,
    dense.link_bandwidth,
    dgc.sparsity,
    round(dense.throughput::numeric, 2) as dense_throughput,
    round(dgc.throughput::numeric, 2) as dgc_throughput,
    dense.unit,
    round((dgc.throughput / dense.throughput)::numeric, 3) as gain,
    dense.sent_bytes_per_step as dense_bytes_per_step,
    dgc.sent_bytes_per_step as dgc_bytes_per_step,
    dense.is_synthetic,
    dense.started_at as dense_at,
    dgc.started_at as dgc_at
from marts.latest_median as dense
inner join marts.latest_median as dgc
    on
        dense.cluster = dgc.cluster
        and dense.unit = dgc.unit
        and dense.environment = dgc.environment
        and dense.axes - 'compression' - 'sparsity' = dgc.axes - 'compression' - 'sparsity'
cross join chosen as c
where
    dense.compression = 'none'
    and dgc.compression = 'dgc'
    and (c.workload is null or dense.workload = c.workload)
    and (c.framework is null or dense.framework = c.framework)
    and (c.cluster is null or dense.cluster = c.cluster)
order by
    dense.workload asc,
    dense.framework asc,
    dense.cluster asc,
    dense.axes - 'link_bandwidth' asc,
    dgc.sparsity asc,
    -- 100mbit, 1gbit, 10gbit, full.
    substring(dense.link_bandwidth from '^\d+')::integer
    * case when dense.link_bandwidth like '%gbit' then 1000 else 1 end asc nulls last;
