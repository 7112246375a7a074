-- How did each series go? The nights of the last 90 days, each beside the median of the ten nights
-- before it; add `case_id = '...'` to the last `where` to see one series.
with nights as materialized (
    select
        *,
        array_agg(throughput) over (
            partition by case_id, cluster
            order by started_at
            rows between 10 preceding and 1 preceding
        ) as nights_before
    from marts.fct_measurement
    where run_kind = 'nightly'
),

compared as (
    select
        n.*,
        (
            select percentile_cont(0.5) within group (order by b.throughput)
            from unnest(n.nights_before) as b (throughput)
        ) as median_before
    from nights as n
),

verdicts as materialized (
    select
        run_id,
        case_id,
        verdict,
        sentence
    from marts.fct_verdict
)

select
    c.case_id,
    c.cluster,
    c.started_at,
    c.framework_version,
    round(c.throughput::numeric, 2) as throughput,
    c.unit,
    c.n,
    round(c.spread::numeric, 4) as spread,
    round((100 * (c.throughput / c.median_before - 1))::numeric, 2) as change_percent,
    v.verdict,
    v.sentence,
    c.run_id
from compared as c
left join verdicts as v
    on c.run_id = v.run_id and c.case_id = v.case_id
where c.started_at > now() - interval '90 days'
order by c.case_id, c.cluster, c.started_at;
