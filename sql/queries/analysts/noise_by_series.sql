-- How noisy is each series? The answer has the noise from night to night as a relative standard
-- deviation, and the spread of the repeats within a night. `smallest_slowdown_percent` is the
-- minimum detectable slowdown of the newest verdict. `silenced` says why a drop of the series opens
-- no alert. The noisiest series comes first. A lasting change of the level hardly changes the
-- noise, because the noise is computed from the median of the differences between consecutive
-- nights. A parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '30 days' as since,
        null::text as suite,
        null::text as cluster
),

nights as (
    select
        m.series_key,
        m.case_id,
        m.cluster,
        m.suite,
        m.spread,
        m.started_at,
        ln(m.throughput / lag(m.throughput) over (
            partition by m.series_key, m.definition_digest order by m.started_at
        )) as step
    from marts.fct_measurement as m
    cross join chosen as c
    where
        m.run_kind = 'nightly'
        and not m.is_private_build
        and m.started_at > c.since
        and (c.suite is null or m.suite = c.suite)
        and (c.cluster is null or m.cluster = c.cluster)
),

noise as (
    select
        series_key,
        case_id,
        cluster,
        suite,
        count(*) as nights,
        -- 1.4826 makes a standard deviation of a median of absolute values; a difference has two.
        1.4826 / sqrt(2) * percentile_cont(0.5) within group (order by abs(step)) as between_nights,
        percentile_cont(0.5) within group (order by spread) as spread_within_nights
    from nights
    group by series_key, case_id, cluster, suite
)

select
    n.case_id,
    n.cluster,
    n.suite,
    n.nights,
    round((100 * n.between_nights)::numeric, 3) as between_nights_percent,
    round((100 * n.spread_within_nights)::numeric, 3) as spread_within_nights_percent,
    round((100 * v.smallest_slowdown)::numeric, 2) as smallest_slowdown_percent,
    s.sentence as silenced
from noise as n
cross join chosen as c
left join lateral (
    select w.smallest_slowdown
    from raw.verdict as w
    where w.series_key = n.series_key and w.run_at > c.since
    order by w.run_at desc
    limit 1
) as v on true
left join marts.noisy_series as s on n.case_id = s.case_id and n.cluster = s.cluster
order by n.between_nights desc nulls last, n.case_id asc, n.cluster asc;
