-- Is a node sick, or is a release slow? In the newest nightly run of each suite and cluster, each
-- series is held against the median of its ten nights before; the changes are gathered by node and
-- by framework version. A sick node drags every line that runs on it; a slow release drags its own
-- line on every node, and says `is_new`.
with latest as (
    select distinct on (suite, cluster) run_id
    from marts.fct_measurement
    where
        run_kind = 'nightly'
        and not is_imported
    order by suite asc, cluster asc, started_at desc
),

tonight as (
    select m.*
    from marts.fct_measurement as m
    inner join latest as l on m.run_id = l.run_id
),

ranked as (
    select
        t.run_id,
        t.case_id,
        b.throughput,
        b.framework_version,
        row_number() over (
            partition by t.run_id, t.case_id order by b.started_at desc
        ) as age
    from tonight as t
    inner join marts.fct_measurement as b
        on
            t.case_id = b.case_id
            and t.cluster = b.cluster
            and t.started_at > b.started_at
            and b.run_kind = 'nightly'
),

before as (
    select
        run_id,
        case_id,
        percentile_cont(0.5) within group (order by throughput) as throughput,
        array_agg(distinct coalesce(framework_version, '')) as framework_versions
    from ranked
    where age <= 10
    group by run_id, case_id
),

changes as (
    select
        t.suite,
        t.cluster,
        t.case_id,
        t.framework,
        t.framework_version,
        t.node_names,
        t.throughput / b.throughput - 1 as change,
        not coalesce(t.framework_version, '') = any(b.framework_versions) as is_new
    from tonight as t
    inner join before as b
        on t.run_id = b.run_id and t.case_id = b.case_id
),

gathered as (
    select
        c.suite,
        c.cluster,
        'node' as suspect,
        n.node as name,
        c.case_id,
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
        case_id,
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
