-- How many hours did each suite cost on each cluster in a period? `hours` and `node_hours` are
-- computed as in night_costs, over all runs of the period. `hours_without_figure` are the hours of
-- cases without a good median, and `hours_beside_nights` the hours of runs that were not nightly.
-- `percent_of_cluster` is the share of all suites' hours on the cluster. A parameter in `chosen`
-- that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '30 days' as since,
        now() as until,
        null::text as cluster
),

spent as (
    -- All generations: what was measured again has cost its time too.
    select
        r.suite,
        r.cluster,
        m.run_key,
        m.is_good,
        m.run_kind,
        m.elapsed_s / 3600 as hours,
        -- A case that failed before a rank had begun names no nodes: its plan does.
        coalesce(cardinality(m.node_names), s.nodes) as nodes
    from raw.measurement as m
    inner join raw.run as r on m.run_key = r.run_key and m.run_at = r.started_at
    inner join staging.series as s on m.series_key = s.series_key
    cross join chosen as c
    where
        m.run_at > c.since
        and m.run_at <= c.until
        and m.elapsed_s is not null
        and (c.cluster is null or r.cluster = c.cluster)
)

select
    suite,
    cluster,
    count(distinct run_key) as runs,
    count(*) as cases,
    round(sum(hours)::numeric, 2) as hours,
    round(sum(hours * nodes)::numeric, 2) as node_hours,
    round(coalesce(sum(hours) filter (where not is_good), 0)::numeric, 2) as hours_without_figure,
    round(coalesce(sum(hours) filter (where run_kind <> 'nightly'), 0)::numeric, 2)
        as hours_beside_nights,
    round((100 * sum(hours) / sum(sum(hours)) over (partition by cluster))::numeric, 1)
        as percent_of_cluster
from spent
group by suite, cluster
order by hours desc, suite asc, cluster asc;
