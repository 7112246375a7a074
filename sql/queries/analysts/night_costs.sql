-- How many hours did each night cost, including failed cases? `hours` is the time of all cases,
-- each from its preparation to its last repeat; cases that ran at the same time count separately.
-- `node_hours` is the same sum, with the time of each case multiplied by its number of nodes. The
-- next four columns split `node_hours` by the outcome of the case; `superseded` means that the case
-- was measured again. Null in `run_kind` selects all kinds of runs except drills. Another parameter
-- that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '14 days' as since,
        null::text as suite,
        null::text as cluster,
        'nightly'::text as run_kind
),

spent as (
    -- All generations: what was measured again has cost its time too.
    select
        r.run_id,
        r.suite,
        r.cluster,
        r.run_kind,
        r.started_at,
        m.elapsed_s / 3600 as hours,
        -- A case that failed before a rank had begun names no nodes: its plan does.
        coalesce(cardinality(m.node_names), s.nodes) as nodes,
        (
            select count(*)
            from raw.repeat as e
            where
                e.run_key = m.run_key
                and e.series_key = m.series_key
                and e.generation = m.generation
                and e.run_at = m.run_at
        ) as launches,
        case
            when m.is_superseded then 'superseded'
            when m.is_good then 'measured'
            when m.status = 'ok' then 'quarantined'
            else 'failed'
        end as outcome
    from raw.measurement as m
    inner join raw.run as r on m.run_key = r.run_key and m.run_at = r.started_at
    inner join staging.series as s on m.series_key = s.series_key
    cross join chosen as c
    where
        m.run_at > c.since
        and r.origin <> 'import'
        and (c.suite is null or r.suite = c.suite)
        and (c.cluster is null or r.cluster = c.cluster)
        and (r.run_kind = c.run_kind or (c.run_kind is null and r.run_kind <> 'drill'))
)

select
    suite,
    cluster,
    started_at as night,
    run_kind,
    count(*) filter (where outcome <> 'superseded') as cases,
    count(*) filter (where outcome = 'measured') as measured,
    sum(launches) as launches,
    round(coalesce(sum(hours), 0)::numeric, 2) as hours,
    round(coalesce(sum(hours * nodes), 0)::numeric, 2) as node_hours,
    round(coalesce(sum(hours * nodes) filter (where outcome = 'measured'), 0)::numeric, 2)
        as node_hours_measured,
    round(coalesce(sum(hours * nodes) filter (where outcome = 'failed'), 0)::numeric, 2)
        as node_hours_failed,
    round(coalesce(sum(hours * nodes) filter (where outcome = 'quarantined'), 0)::numeric, 2)
        as node_hours_quarantined,
    round(coalesce(sum(hours * nodes) filter (where outcome = 'superseded'), 0)::numeric, 2)
        as node_hours_superseded,
    round(
        (sum(hours * nodes) / nullif(count(*) filter (where outcome = 'measured'), 0))::numeric, 3
    ) as node_hours_per_figure,
    run_id
from spent
group by suite, cluster, started_at, run_kind, run_id
order by night desc, suite asc, cluster asc;
