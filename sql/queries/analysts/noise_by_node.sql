-- How noisy is each node? For each series that ran on the node in two consecutive runs (nightly or
-- manual), the noise from run to run is computed, as a relative standard deviation. The answer has
-- the median of this noise over the series of the node, and the noise of the worst series. The
-- noisiest node comes first. A parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '30 days' as since,
        null::text as cluster,
        null::text as run_kind
),

nights as (
    select
        m.series_key,
        m.case_id,
        m.cluster,
        m.node_names,
        m.throughput / lag(m.throughput) over of_series as step,
        lag(m.node_names) over of_series as nodes_before
    from marts.fct_measurement as m
    cross join chosen as c
    where
        m.run_kind not in ('drill', 'confirm', 'acceptance')
        and (c.run_kind is null or m.run_kind = c.run_kind)
        and not m.is_private_build
        and m.started_at > c.since
        and (c.cluster is null or m.cluster = c.cluster)
    window of_series as (partition by m.series_key, m.definition_digest order by m.started_at)
),

noise as (
    select
        e.node,
        n.cluster,
        n.case_id,
        count(*) as nights,
        1.4826 / sqrt(2) * percentile_cont(0.5) within group (order by abs(ln(n.step))) as noise
    from nights as n
    cross join lateral unnest(n.node_names) as e (node)
    where n.node_names = n.nodes_before
    group by e.node, n.cluster, n.case_id
)

select
    cluster,
    node,
    count(*) as series,
    sum(nights) as pairs_of_nights,
    round((100 * percentile_cont(0.5) within group (order by noise))::numeric, 3)
        as median_noise_percent,
    round((100 * max(noise))::numeric, 3) as worst_noise_percent,
    (array_agg(case_id order by noise desc))[1] as worst_case_id
from noise
group by cluster, node
order by median_noise_percent desc, cluster asc, node asc;
