-- What differs between two framework lines? The answer compares the newest medians of two cases on
-- the same cluster, the largest difference first. The two cases have the same axes, except the
-- framework and the kind of environment (such as venv or container). Null in `chosen` selects every
-- pair of lines. `ratio` is `throughput` divided by `other_throughput`; `low` and `high` are the
-- ends of its 95 % interval.
with chosen as not materialized (
    select
        null::text as framework,
        null::text as other_framework
),

compared as (
    select
        a.*,
        b.framework as other_framework,
        b.case_id as other_case_id,
        b.framework_version as other_version,
        b.throughput as other_throughput,
        b.started_at as other_started_at,
        a.throughput / b.throughput as ratio,
        -- Null if a median rests on fewer than three repeats.
        sqrt(a.half_width ^ 2 + b.half_width ^ 2) as ratio_half_width
    from marts.latest_median as a
    inner join marts.latest_median as b
        on
            a.cluster = b.cluster
            and a.unit = b.unit
            and a.environment = b.environment
            and a.axes - 'framework' = b.axes - 'framework'
    cross join chosen as c
    where
        (c.framework is null or a.framework = c.framework)
        and (c.other_framework is null or b.framework = c.other_framework)
        -- Each pair once, unless a side is named.
        and (
            a.framework < b.framework
            or (c.framework is not null or c.other_framework is not null)
            and a.framework <> b.framework
        )
)

select
    case_id,
    other_case_id,
    cluster,
    framework,
    other_framework,
    framework_version,
    other_version,
    round(throughput::numeric, 2) as throughput,
    round(other_throughput::numeric, 2) as other_throughput,
    unit,
    round(ratio::numeric, 4) as ratio,
    round((ratio * exp(-ratio_half_width))::numeric, 4) as low,
    round((ratio * exp(ratio_half_width))::numeric, 4) as high,
    is_synthetic,
    started_at,
    other_started_at
from compared
order by abs(ln(ratio)) desc, case_id asc, framework asc, other_framework asc;
