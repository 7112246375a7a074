-- How much of their devices' peak do the newest medians use? The answer has tokens per second and
-- model TFLOP/s per device, and the energy of a unit of work. It also has MFU (model FLOP/s as a
-- share of the device's peak without sparsity), or the reason why MFU is unknown. `reported` has
-- the values that a training script of another project printed, by the script's own formula.
-- Medians without model FLOPs are omitted. A parameter in `chosen` that is null selects everything.
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
