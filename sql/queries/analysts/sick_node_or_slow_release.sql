-- Is a node sick, or is a release slow? In the newest nightly run of each suite and cluster, each
-- series is held against the median of its ten nights before; the changes are gathered by node and
-- by framework version. A sick node drags every line that runs on it; a slow release drags its own
-- line on every node, and says `is_new`.
with nights as (
    select
        suite,
        cluster,
        started_at,
        is_imported,
        case_id,
        framework,
        framework_version,
        node_names,
        throughput,
        array_agg(throughput) over ten_before as throughputs_before,
        array_agg(coalesce(framework_version, '')) over ten_before as versions_before,
        max(started_at) filter (where not is_imported) over (partition by suite, cluster)
            as latest_at
    from marts.fct_measurement
    where run_kind = 'nightly'
    window
        ten_before as (
            partition by case_id, cluster
            order by started_at
            rows between 10 preceding and 1 preceding
        )
),

tonight as (
    select
        *,
        (
            select percentile_cont(0.5) within group (order by b.throughput)
            from unnest(throughputs_before) as b (throughput)
        ) as median_before
    from nights
    where
        started_at = latest_at
        and not is_imported
        and throughputs_before is not null
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
