-- What differs between two versions of a framework, or between two builds, including private
-- builds? For each series, the answer compares the medians with one version (or build) with the
-- medians with another version (or build), the largest change first. All axes, the cluster and the
-- definition of the work are the same. The parameter `by` is `version` or `build`; with `build`,
-- the columns `version` and `other_version` contain builds. Null in `chosen` selects every
-- framework; for each series, it selects the newest version or build and the previous one. `ratio`
-- is `throughput` divided by `other_throughput`; `low` and `high` are the ends of its 95 %
-- interval.
with chosen as not materialized (
    select
        'version' as by,
        null::text as framework,
        null::text as version,
        null::text as other_version,
        now() - interval '90 days' as since
),

measured as (
    select
        m.*,
        ln(m.throughput) as log_throughput,
        case c.by when 'build' then m.build_id else m.framework_version end as version
    from marts.fct_measurement as m
    cross join chosen as c
    where
        m.run_kind in ('nightly', 'on_demand')
        and (c.by = 'build' or not m.is_private_build)
        and case c.by when 'build' then m.build_id else m.framework_version end is not null
        and m.started_at > c.since
        and (c.framework is null or m.framework = c.framework)
),

sides as (
    select
        series_key,
        case_id,
        cluster,
        unit,
        coalesce(definition_digest, '') as definition_digest,
        version,
        percentile_cont(0.5) within group (order by throughput) as throughput,
        count(*) as runs,
        -- Standard error of a median of so many logarithms.
        1.2533 * stddev_samp(log_throughput) / sqrt(count(*)) as error,
        max(started_at) as last_at
    from measured
    group by series_key, case_id, cluster, unit, coalesce(definition_digest, ''), version
),

pairs as (
    select distinct on (a.series_key)
        a.case_id,
        a.cluster,
        a.version,
        b.version as other_version,
        a.throughput,
        b.throughput as other_throughput,
        a.unit,
        a.throughput / b.throughput as ratio,
        1.96 * sqrt(a.error ^ 2 + b.error ^ 2) as half_width,
        a.runs,
        b.runs as other_runs
    from sides as a
    inner join sides as b
        on
            a.series_key = b.series_key
            and a.unit = b.unit
            and a.definition_digest = b.definition_digest
    cross join chosen as c
    where
        a.version <> b.version
        and (c.version is null or a.version = c.version)
        and (b.version = c.other_version or (c.other_version is null and b.last_at < a.last_at))
    order by a.series_key asc, a.last_at desc, b.last_at desc
)

select
    case_id,
    cluster,
    version,
    other_version,
    round(throughput::numeric, 2) as throughput,
    round(other_throughput::numeric, 2) as other_throughput,
    unit,
    round(ratio::numeric, 4) as ratio,
    -- Both ends of the 95 % interval from night to night; null if a side has only one.
    round((ratio * exp(-half_width))::numeric, 4) as low,
    round((ratio * exp(half_width))::numeric, 4) as high,
    runs,
    other_runs
from pairs
order by abs(ln(ratio)) desc, case_id asc, cluster asc;
