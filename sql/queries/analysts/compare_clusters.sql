-- What differs between two clusters? The answer compares the newest medians of each case that was
-- measured on both clusters, the largest difference first. All axes are the same; the hardware is
-- not. Null in `chosen` selects every pair of clusters. `ratio` is `throughput` divided by
-- `other_throughput`; `low` and `high` are the ends of its 95 % interval.
with chosen as not materialized (
    select
        null::text as cluster,
        null::text as other_cluster
),

compared as (
    select
        a.*,
        b.cluster as other_cluster,
        b.case_id as other_case_id,
        b.framework_version as other_version,
        b.throughput as other_throughput,
        b.started_at as other_started_at,
        a.throughput / b.throughput as ratio,
        -- Null if a median rests on fewer than three repeats.
        sqrt(a.half_width ^ 2 + b.half_width ^ 2) as ratio_half_width
    from marts.latest_median as a
    inner join marts.latest_median as b
        on a.case_id = b.case_id and a.unit = b.unit and a.environment = b.environment
    cross join chosen as c
    where
        (c.cluster is null or a.cluster = c.cluster)
        and (c.other_cluster is null or b.cluster = c.other_cluster)
        -- Each pair once, unless a side is named.
        and (
            a.cluster < b.cluster
            or (c.cluster is not null or c.other_cluster is not null) and a.cluster <> b.cluster
        )
)

select
    case_id,
    cluster,
    other_cluster,
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
order by abs(ln(ratio)) desc, case_id asc, cluster asc, other_cluster asc;
