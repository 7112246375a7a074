-- What is the newest good median of each series? `half_width_percent` is half the width of the
-- median's 95 % interval. `alert_state` and `alert_id` describe an alert of the series that is not
-- closed. A parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        null::text as cluster,
        null::text as workload,
        null::text as framework
)

select
    m.case_id,
    m.cluster,
    m.suite,
    m.framework_version,
    round(m.throughput::numeric, 2) as throughput,
    m.unit,
    m.n,
    round((100 * m.half_width)::numeric, 2) as half_width_percent,
    m.is_synthetic,
    m.started_at,
    m.run_id,
    s.alert_state,
    s.alert_id
from marts.latest_median as m
cross join chosen as c
left join marts.series_state as s on m.case_id = s.case_id and m.cluster = s.cluster
where
    (c.cluster is null or m.cluster = c.cluster)
    and (c.workload is null or m.workload = c.workload)
    and (c.framework is null or m.framework = c.framework)
order by m.case_id, m.cluster;
