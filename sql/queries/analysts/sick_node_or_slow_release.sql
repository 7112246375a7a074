-- Is a node unhealthy, or is a release slow? Each series of the newest nightly run of a suite and
-- cluster is compared with the median of up to ten earlier nights of the series. The changes are
-- grouped twice: by node, and by framework version (`suspect`, `name`). An unhealthy node slows
-- every framework line that runs on it. A slow release slows only its own line, on every node; for
-- a new version `is_new` is true. Null in `chosen` selects every suite, every cluster, and the
-- newest run of each.
with chosen as not materialized (
    select
        null::text as suite,
        null::text as cluster,
        null::text as run_id
),

newest as (
    select distinct on (r.suite, r.cluster) r.*
    from staging.run as r
    cross join chosen as c
    where
        r.run_kind = 'nightly'
        and not r.is_imported
        and r.loaded_at is not null
        and (c.run_id is null or r.run_id = c.run_id)
        and (c.suite is null or r.suite = c.suite)
        and (c.cluster is null or r.cluster = c.cluster)
    order by r.suite asc, r.cluster asc, r.started_at desc, r.run_id desc
),

tonight as (
    select
        m.suite,
        m.cluster,
        m.case_id,
        m.framework,
        m.framework_version,
        m.node_names,
        m.throughput,
        percentile_cont(0.5) within group (order by t.throughput) as median_before,
        array_agg(coalesce(t.framework_version, '')) as versions_before
    from newest as r
    inner join marts.fct_measurement as m on r.run_key = m.run_key and r.started_at = m.started_at
    cross join
        lateral (
            select
                n.throughput,
                n.framework_version
            from raw.measurement as n
            where
                n.series_key = m.series_key
                and n.is_good
                and n.run_kind = 'nightly'
                and not n.is_private_build
                and n.run_at < r.started_at
            order by n.run_at desc
            limit 10
        ) as t
    where not m.is_private_build
    group by
        m.suite,
        m.cluster,
        m.case_id,
        m.framework,
        m.framework_version,
        m.node_names,
        m.throughput
),

changes as (
    select
        suite,
        cluster,
        case_id,
        framework,
        framework_version,
        node_names,
        throughput / median_before - 1 as change,
        not coalesce(framework_version, '') = any(versions_before) as is_new
    from tonight
),

gathered as (
    select
        c.suite,
        c.cluster,
        'node' as suspect,
        n.node as name,
        c.change,
        false as is_new
    from changes as c
    cross join lateral unnest(c.node_names) as n (node)
    union all
    select
        suite,
        cluster,
        'framework version' as suspect,
        concat_ws(' ', framework, framework_version) as name,
        change,
        is_new
    from changes
)

select
    suite,
    cluster,
    suspect,
    name,
    bool_or(is_new) as is_new,
    count(*) as series,
    count(*) filter (where change < -0.03) as slower_by_3_percent,
    round((100 * percentile_cont(0.5) within group (order by change))::numeric, 2)
        as median_change_percent,
    round((100 * min(change))::numeric, 2) as worst_change_percent
from gathered
group by suite, cluster, suspect, name
order by suite, cluster, median_change_percent, suspect, name;
