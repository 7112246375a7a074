-- How much of their devices do the newest medians use? Tokens and model FLOPs per second of each
-- device, their share of its dense peak (MFU) or why it is unknown, and the energy of a unit of work.
-- `reported` has the values that another program's script printed, by its own formula. Work without
-- model FLOPs is omitted. Null in `chosen` does not filter.
with chosen as not materialized (
    select
        null::text as cluster,
        null::text as workload,
        null::text as framework
)

select
    m.case_id,
    m.cluster,
    m.device,
    m.precision,
    m.framework_version,
    round(m.throughput::numeric, 2) as throughput,
    m.unit,
    round(m.tokens_per_s_per_device::numeric, 1) as tokens_per_s_per_device,
    round(m.tflops_per_device::numeric, 4) as tflops_per_device,
    round((100 * m.mfu)::numeric, 2) as mfu_percent,
    m.mfu_absent,
    m.reported,
    round(m.joules_per_unit::numeric, 4) as joules_per_unit,
    m.untried,
    m.run_id
from marts.latest_median as m
cross join chosen as c
where
    m.model_flops_per_s is not null
    and (c.cluster is null or m.cluster = c.cluster)
    and (c.workload is null or m.workload = c.workload)
    and (c.framework is null or m.framework = c.framework)
order by m.mfu desc nulls last, m.case_id asc, m.cluster asc;
