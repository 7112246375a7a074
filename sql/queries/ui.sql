-- Questions of the pages inside Airflow's UI, by their JSON API. Drills and what was measured to
-- confirm an alert are no part of a series.

-- name: ui_snapshot()
-- Which transactions are visible now: while that is the same, all statements read the same rows.
select pg_current_snapshot()::text as snapshot;

-- name: ui_newest_runs()
-- The newest nightly run of each suite and cluster; the newest on demand where there is none.
with suites as (
    select distinct
        suite,
        cluster
    from raw.run
    where
        origin <> 'import'
        and run_kind in ('nightly', 'on_demand')
)

select coalesce(nightly.run_id, on_demand.run_id) as run_id
from suites as s
left join lateral (
    select r.run_id
    from raw.run as r
    where
        r.suite = s.suite
        and r.cluster = s.cluster
        and r.run_kind = 'nightly'
        and r.origin <> 'import'
    order by r.started_at desc, r.run_id desc
    limit 1
) as nightly on true
left join lateral (
    select r.run_id
    from raw.run as r
    where
        r.suite = s.suite
        and r.cluster = s.cluster
        and r.run_kind = 'on_demand'
        and r.origin <> 'import'
        and nightly.run_id is null
    order by r.started_at desc, r.run_id desc
    limit 1
) as on_demand on true
order by s.suite asc, s.cluster asc;

-- name: ui_sparklines(case_ids, clusters, max_points)
-- The newest medians of some series (arrays of the same length name them), newest first.
select
    s.case_id,
    s.cluster,
    array(
        select m.throughput
        from raw.measurement as m
        where
            m.series_key = k.series_key
            and m.is_good
            and m.run_kind not in ('drill', 'confirm', 'acceptance')
            and not m.is_private_build
        order by m.run_at desc
        limit :max_points
    ) as medians
from unnest(:case_ids::text[], :clusters::text[]) as s (case_id, cluster)
left join raw.series as k on s.case_id = k.case_id and s.cluster = k.cluster;

-- name: ui_verdict_counts(run_ids)
-- How many cases of some runs have which verdict.
select
    r.run_id,
    v.kind as verdict,
    count(*) as cases
from raw.run as r
inner join raw.verdict as v
    on
        r.run_key = v.run_key
        -- As marts.fct_verdict joins it, whose other tables are not needed here.
        and r.started_at <= v.run_at
        and r.started_at >= v.run_at
where r.run_id = any(:run_ids)
group by r.run_id, v.kind;

-- name: ui_left_out(run_ids, max_rows)
-- The cases that some runs had no room for.
select *
from marts.fct_left_out
where run_id = any(:run_ids)
order by suite asc, case_id asc
limit :max_rows;

-- name: ui_series(axes, cluster, suite, state, search, sort, together, max_rows, skipped)
-- Series with their newest median and newest verdict, and how many there are in all. `axes` is an
-- object of axes and the values wanted, as texts; null parameters do not constrain. Those with the
-- same value of the axis `together` come one after another.
with judged as (
    select
        s.series_key,
        s.case_id,
        s.cluster,
        s.workload,
        s.framework,
        s.strategy,
        v.*,
        m.unit,
        m.framework_version
    from staging.series as s
    cross join
        lateral (
            -- Stops at the newest month that has one.
            select
                n.run_key,
                n.run_at as started_at,
                r.run_id,
                r.suite,
                n.kind as verdict,
                n.sentence,
                n.metric,
                n.change,
                n.level_change,
                n.low,
                n.high,
                n.smallest_slowdown
            from raw.verdict as n
            inner join raw.run as r on n.run_key = r.run_key
            where
                n.series_key = s.series_key
                and r.run_kind not in ('drill', 'confirm', 'acceptance')
                -- As the newest median: without a training that no user accepted.
                and not (
                    n.training is not distinct from 'changed'
                    and exists (
                        select from staging.changed_training as t
                        where t.series_key = n.series_key and n.run_at between t.since and t.until
                    )
                )
            order by n.run_at desc
            limit 1
        ) as v
    left join lateral (
        select
            n.unit,
            n.framework_version
        from raw.measurement as n
        where
            n.run_key = v.run_key
            and n.series_key = s.series_key
            and n.run_at = v.started_at
            and not n.is_superseded
        order by n.run_at desc
        limit 1
    ) as m on true
    -- Said of both sides of the full join, so that nothing is looked up for the others.
    where
        (:cluster::text is null or s.cluster = :cluster)
        and (
            :search::text is null
            or position(lower(:search) in lower(s.case_id || ' ' || s.cluster)) > 0
        )
),

measured as (
    select *
    from marts.latest_median
    where
        (:cluster::text is null or cluster = :cluster)
        and (
            :search::text is null
            or position(lower(:search) in lower(case_id || ' ' || cluster)) > 0
        )
),

series as (
    select
        l.throughput,
        l.n,
        l.spread,
        l.speedup,
        l.efficiency,
        l.peak_resident_bytes,
        l.tokens_per_s_per_device,
        l.tflops_per_device,
        l.device,
        l.mfu,
        l.mfu_absent,
        l.power_w,
        l.joules_per_unit,
        l.energy_absent,
        l.reported,
        l.peak_allocator_bytes,
        l.started_at as measured_at,
        l.run_id as measured_run_id,
        l.strategy,
        l.nodes,
        l.devices_per_node,
        l.trainers,
        l.pservers,
        l.batch_size_per_device,
        l.precision,
        l.scale,
        l.is_synthetic,
        j.verdict,
        j.sentence as verdict_sentence,
        j.metric,
        j.change,
        j.level_change,
        j.low as change_low,
        j.high as change_high,
        j.smallest_slowdown,
        s.alert_id,
        s.alert_verdict,
        s.alert_change,
        s.drift,
        s.noisy,
        coalesce(l.case_id, j.case_id) as case_id,
        coalesce(l.cluster, j.cluster) as cluster,
        coalesce(l.suite, j.suite) as suite,
        coalesce(l.workload, j.workload) as workload,
        coalesce(l.framework, j.framework) as framework,
        coalesce(l.framework_version, j.framework_version) as framework_version,
        coalesce(l.unit, j.unit) as unit,
        -- A series that was never measured has the axes that its verdict names.
        coalesce(
            l.axes,
            jsonb_build_object(
                'workload', j.workload, 'framework', j.framework, 'strategy', j.strategy
            )
        ) as axes,
        case
            when s.alert_id is not null then 'alert'
            when s.noisy is not null then 'noisy'
            when s.drift is not null then 'drifting'
            else coalesce(j.verdict, 'measured')
        end as state
    from measured as l
    full join judged as j on l.series_key = j.series_key
    left join marts.series_state as s
        on
            coalesce(l.case_id, j.case_id) = s.case_id
            and coalesce(l.cluster, j.cluster) = s.cluster
)

select
    *,
    case
        when :together::text = 'cluster' then cluster
        when :together = 'suite' then suite
        when :together = 'state' then state
        else axes ->> :together
    end as together,
    count(*) over () as total
from series
where
    (:suite::text is null or suite = :suite)
    and (:state::text is null or state = :state)
    and not exists (
        select 1
        from jsonb_each_text(:axes::jsonb) as w (axis, wanted)
        where series.axes ->> w.axis is distinct from w.wanted
    )
order by
    together asc nulls last,
    case when :sort = 'change' then change end asc nulls last,
    case when :sort = 'spread' then spread end desc nulls last,
    case when :sort = 'efficiency' then efficiency end asc nulls last,
    case when :sort = 'mfu' then mfu end asc nulls last,
    case when :sort = 'measured_at' then measured_at end desc nulls last,
    case_id asc,
    cluster asc
limit :max_rows offset :skipped;

-- name: ui_overview()
-- Workloads by framework lines. The newest medians of a line are compared with the best line at
-- equal work on the same cluster, with the 30 days before, and with published values. Means are
-- geometric; null if nothing can be compared.
with latest as (
    select
        l.workload,
        l.framework,
        l.started_at,
        l.untried is not null as is_untried,
        l.throughput / max(l.throughput) over equal_work as share,
        min(l.framework) over equal_work <> max(l.framework) over equal_work as is_compared,
        l.throughput / b.median as moved
    from marts.latest_median as l
    cross join
        lateral (
            select percentile_cont(0.5) within group (order by m.throughput) as median
            from raw.measurement as m
            where
                m.series_key = l.series_key
                and m.is_good
                and m.run_kind not in ('drill', 'confirm', 'acceptance')
                and not m.is_private_build
                and m.run_at < l.started_at
                and m.run_at >= l.started_at - interval '30 days'
        ) as b
    window equal_work as (partition by l.cluster, l.axes - 'framework', l.unit)
),

measured as (
    select
        workload,
        framework,
        count(*) as series,
        count(*) filter (where is_compared) as compared,
        count(*) filter (where is_untried) as untried,
        exp(avg(ln(share)) filter (where is_compared)) as share_of_best,
        exp(avg(ln(moved))) - 1 as moved
    from latest
    group by workload, framework
),

published as (
    select
        workload,
        framework,
        count(*) as published
    from staging.reference_result
    where value is not null
    group by workload, framework
)

select
    coalesce(m.workload, p.workload) as workload,
    coalesce(m.framework, p.framework) as framework,
    coalesce(m.series, 0) as series,
    coalesce(m.compared, 0) as compared,
    coalesce(m.untried, 0) as untried,
    m.share_of_best,
    m.moved,
    coalesce(p.published, 0) as published
from measured as m
full join published as p on m.workload = p.workload and m.framework = p.framework
order by workload asc, framework asc;

-- name: ui_curves(workload)
-- Newest medians of a workload along an axis: the number of devices (of equal batches each), or the
-- batch size of a device. A line needs two places on the axis at least, with all other axes equal.
with latest as (
    select
        case_id,
        cluster,
        framework,
        throughput,
        unit,
        nodes,
        trainers,
        batch_size_per_device,
        axes
    from marts.latest_median
    where workload = :workload
),

placed as (
    select
        'devices' as axis,
        trainers as x,
        axes - '{framework,nodes,devices_per_node,trainers}'::text[] as work,
        *
    from latest
    union all
    select
        'batch size' as axis,
        batch_size_per_device as x,
        axes - '{framework,batch_size_per_device}'::text[] as work,
        *
    from latest
),

-- As many devices on more nodes are no place of their own.
points as (
    select distinct on (axis, cluster, unit, work, framework, x) *
    from placed
    where x is not null
    order by axis asc, cluster asc, unit asc, work asc, framework asc, x asc, nodes asc
),

counted as (
    select
        *,
        count(*) over (partition by axis, cluster, unit, work, framework) as places
    from points
)

select
    axis,
    cluster,
    unit,
    work,
    framework,
    x,
    throughput,
    case_id
from counted
where places > 1
order by axis desc, cluster asc, unit asc, work asc, framework asc, x asc;

-- name: ui_roofline(case_id, cluster, run_id)
-- The limit of a step of a case in a run.
select *
from marts.roofline
where case_id = :case_id and cluster = :cluster and run_id = :run_id;

-- name: ui_choices()
-- The axes of all series, for filters: an axis, a value as text, and how many cases have it.
with latest as (
    select
        case_id,
        cluster,
        suite,
        axes
    from marts.latest_median
),

named as (
    select
        a.axis,
        a.value
    from latest
    cross join lateral jsonb_each_text(axes) as a (axis, value)
    where a.value is not null
    union all
    select
        'cluster' as axis,
        cluster as value
    from latest
    union all
    select
        'suite' as axis,
        suite as value
    from latest
)

select
    axis,
    value,
    count(*) as series
from named
group by axis, value
order by axis asc, value asc;

-- name: ui_series_points(case_id, cluster, since, until)
-- All results of one series, oldest first: medians, private builds among them, and nights whose
-- verdict says that there is none. Null bounds do not constrain.
with measured as (
    select *
    from marts.fct_measurement
    where
        case_id = :case_id
        and cluster = :cluster
        and run_kind not in ('drill', 'confirm', 'acceptance')
        -- On both sides of the join, where they choose the months that are read.
        and (:since::timestamptz is null or started_at >= :since)
        and (:until::timestamptz is null or started_at < :until)
),

judged as (
    select *
    from marts.fct_verdict
    where
        case_id = :case_id
        and cluster = :cluster
        and run_kind not in ('drill', 'confirm', 'acceptance')
        and (:since::timestamptz is null or started_at >= :since)
        and (:until::timestamptz is null or started_at < :until)
)

select
    m.throughput,
    m.throughput_min as low,
    m.throughput_max as high,
    m.n,
    m.spread,
    m.peak_resident_bytes,
    m.tokens_per_s_per_device,
    m.tflops_per_device,
    m.device,
    m.mfu,
    m.mfu_absent,
    m.power_w,
    m.joules_per_unit,
    m.energy_absent,
    m.reported,
    m.peak_allocator_bytes,
    m.build_id,
    m.definition_digest,
    m.fingerprint_id,
    m.node_names,
    v.verdict,
    case
        when v.training = 'changed' and not starts_with(v.sentence, v.training_sentence)
            then v.training_sentence || ' ' || v.sentence
        else v.sentence
    end as sentence,
    v.metric,
    case when v.metric = 'throughput' then v.baseline end as baseline,
    v.change,
    v.level_change,
    v.low as change_low,
    v.high as change_high,
    v.smallest_slowdown,
    r.code_digest,
    coalesce(m.run_id, v.run_id) as run_id,
    coalesce(m.suite, v.suite) as suite,
    coalesce(m.run_kind, v.run_kind) as run_kind,
    coalesce(m.started_at, v.started_at) as started_at,
    coalesce(m.framework_version, v.framework_version) as framework_version,
    coalesce(m.unit, v.unit) as unit,
    coalesce(m.is_private_build, false) as is_private_build,
    coalesce(v.is_quarantined, false) as is_quarantined
from measured as m
full join judged as v on m.run_id = v.run_id
left join raw.run as r on coalesce(m.run_id, v.run_id) = r.run_id
order by coalesce(m.started_at, v.started_at) asc, coalesce(m.run_id, v.run_id) asc;

-- name: ui_fingerprint_fields(fingerprint_ids)
-- Some states of nodes, field by field.
select
    fingerprint_id,
    field,
    value
from marts.fingerprint_field
where fingerprint_id = any(:fingerprint_ids);

-- name: ui_series_references(case_id, cluster)
-- Published values of a series' cell; other hardware measured them.
select *
from marts.fct_reference
where
    case_id = :case_id
    and cluster = :cluster
    and published_value is not null
order by metric asc, source_document asc, reference_id asc;

-- name: ui_repeats(run_id, case_id)
-- Every launch of a case in a run, good or not, in their order.
select *
from marts.fct_repeat
where run_id = :run_id and case_id = :case_id
order by generation asc, repeat asc;

-- name: ui_clusters()
-- The clusters that runs were planned on.
select *
from marts.dim_cluster
order by cluster;

-- name: ui_controls()
-- The newest control measurement of each node, metric, device and backend.
select h.*
from staging.control_series as s
cross join
    lateral (
        select c.at
        from raw.control as c
        where
            c.cluster = s.cluster
            and c.node = s.node
            and c.metric = s.metric
            and c.device = s.device
            and c.backend = s.backend
        order by c.at desc
        limit 1
    ) as newest
cross join
    lateral (
        -- The newest alone, by its time from the lateral before: without that one the medians before
        -- are looked up for each row of all history, which takes 1,000 times longer.
        select c.*
        from marts.control_history as c
        where
            c.cluster = s.cluster
            and c.node = s.node
            and c.metric = s.metric
            and c.device = s.device
            and c.backend = s.backend
            and c.at = newest.at
        order by c.at desc
        limit 1
    ) as h
order by h.cluster asc, h.node asc, h.metric asc, h.device asc, h.backend asc;

-- name: ui_unloaded_runs(since)
-- Runs that may be under way: they have begun and are not loaded, newest first.
select
    run_id,
    cluster
from raw.run
where
    loaded_at is null
    and started_at > :since
order by started_at desc
limit 50;

-- name: ui_node_use()
-- Time of each node by suite in the last night of its cluster: seconds of its cases, and those that
-- these cases usually need. The night begins twelve hours before the cluster's newest nightly run.
-- A case of several nodes counts on each, and cases that ran on a node at once count each. `busy_s`
-- is the time in which the node had any case, of all suites. Cases without a node were not
-- measured.
with last_night as (
    select
        cluster,
        max(started_at) - interval '12 hours' as since
    from raw.run
    where run_kind = 'nightly' and origin <> 'import' and loaded_at is not null
    group by cluster
),

ran as (
    select
        r.cluster,
        r.suite,
        r.run_id,
        r.started_at,
        m.series_key,
        m.elapsed_s,
        m.node_names,
        b.began_at
    from last_night as l
    inner join raw.run as r on l.cluster = r.cluster and l.since <= r.started_at
    cross join
        lateral (
            select o.*
            from raw.measurement as o
            where
                o.run_key = r.run_key
                and o.run_at = r.started_at
                and o.elapsed_s is not null
                and o.node_names is not null
            order by o.series_key asc
            -- Run by run, because each run is in one month of results.
            offset 0
        ) as m
    cross join
        lateral (
            select coalesce(min(o.started_at), r.started_at) as began_at
            from raw.repeat as o
            where
                o.run_key = r.run_key
                and o.run_at = r.started_at
                and o.series_key = m.series_key
        ) as b
),

spans as (
    select
        n.cluster,
        u.node,
        range_agg(tstzrange(n.began_at, n.began_at + make_interval(secs => n.elapsed_s))) as held
    from ran as n
    cross join unnest(n.node_names) as u (node)
    group by n.cluster, u.node
),

busy as (
    select
        s.cluster,
        s.node,
        sum(extract(epoch from upper(span) - lower(span))) as seconds
    from spans as s
    cross join unnest(s.held) as span
    group by s.cluster, s.node
),

-- All cases at once: one by one, each would open the months again.
usual as (
    select
        n.run_id,
        n.series_key,
        percentile_cont(0.5) within group (order by e.elapsed_s) as seconds
    from ran as n
    inner join raw.measurement as e
        on
            n.series_key = e.series_key
            and n.started_at > e.run_at
    where
        e.is_good
        and e.run_at > n.started_at - interval '14 days'
        and e.run_at > (select min(o.started_at) - interval '14 days' from ran as o)
    group by n.run_id, n.series_key
)

select
    n.cluster,
    u.node,
    n.suite,
    count(*) as cases,
    sum(n.elapsed_s) as used_s,
    sum(coalesce(usual.seconds, n.elapsed_s)) as planned_s,
    coalesce(min(busy.seconds), 0) as busy_s
from ran as n
cross join unnest(n.node_names) as u (node)
left join usual on n.run_id = usual.run_id and n.series_key = usual.series_key
left join busy on n.cluster = busy.cluster and u.node = busy.node
group by n.cluster, u.node, n.suite
order by n.cluster asc, u.node asc, n.suite asc;

-- name: ui_node_nights(nights)
-- Activity of each node in the last nights of its cluster, oldest first: cases that were measured
-- there, its faults, and whether it was in quarantine at any time. A night is named by the day
-- (UTC) at whose noon it ends.
with last_night as (
    select
        cluster,
        date_trunc('day', max(started_at) + interval '12 hours', 'UTC') as night
    from raw.run
    where run_kind = 'nightly' and origin <> 'import' and loaded_at is not null
    group by cluster
),

nights as (
    select
        l.cluster,
        d.night,
        d.night - interval '12 hours' as begins_at,
        d.night + interval '12 hours' as ends_at
    from last_night as l
    cross join
        lateral generate_series(
            l.night - (:nights - 1) * interval '1 day', l.night, interval '1 day'
        ) as d (night)
),

used as (
    select
        t.cluster,
        u.node,
        t.night,
        count(*) as cases
    from nights as t
    inner join raw.run as r
        on t.cluster = r.cluster and t.begins_at <= r.started_at and t.ends_at > r.started_at
    cross join
        lateral (
            select o.node_names
            from raw.measurement as o
            where
                o.run_key = r.run_key
                and o.run_at = r.started_at
                and o.elapsed_s is not null
                and o.node_names is not null
            order by o.series_key asc
            -- Run by run, because each run is in one month of results.
            offset 0
        ) as m
    cross join unnest(m.node_names) as u (node)
    group by t.cluster, u.node, t.night
),

states as (
    select
        cluster,
        node,
        state,
        since,
        lead(since, 1, 'infinity') over (
            partition by cluster, node
            order by changed_at asc
        ) as until
    from raw.node_state_change
),

quarantined as (
    select distinct
        t.cluster,
        s.node,
        t.night
    from nights as t
    inner join states as s
        on t.cluster = s.cluster and t.begins_at < s.until and t.ends_at > s.since
    where s.state = 'quarantined'
)

select
    n.cluster,
    n.node,
    min(t.night) as first_night,
    array_agg(coalesce(u.cases, 0) order by t.night asc) as cases,
    array_agg(f.faults order by t.night asc) as faults,
    array_agg(q.night is not null order by t.night asc) as quarantined
from staging.node as n
inner join nights as t on n.cluster = t.cluster
left join used as u on n.cluster = u.cluster and n.node = u.node and t.night = u.night
cross join
    lateral (
        select count(*) as faults
        from raw.node_event as e
        where
            e.cluster = n.cluster
            and e.node = n.node
            and e.at >= t.begins_at
            and e.at < t.ends_at
            and e.kind = 'fault'
    ) as f
left join quarantined as q
    on n.cluster = q.cluster and n.node = q.node and t.night = q.night
group by n.cluster, n.node
order by n.cluster asc, n.node asc;

-- name: ui_night_windows()
-- From when to when each cluster's suites were to measure in its last night.
with last_night as (
    select
        cluster,
        max(scheduled_at) - interval '12 hours' as since
    from raw.night
    where state not in ('paused', 'overtaken')
    group by cluster
)

select
    n.cluster,
    min(n.scheduled_at) as begins_at,
    max(n.due_at) as ends_at
from last_night as l
inner join raw.night as n on l.cluster = n.cluster and l.since <= n.scheduled_at
where n.state not in ('paused', 'overtaken')
group by n.cluster;

-- name: ui_compare(by, one, other, search, shown, max_rows, skipped)
-- Medians of two runs, builds, versions, clusters or frameworks that did equal work: all other axes
-- are equal. The newest median of each side counts. Clear differences come first, the largest
-- first; cases of one side only come last. Each row has the counts of all, and the geometric means
-- of all ratios: over all workloads (null) and over each. If no pair remains, one row without a
-- case has them. `shown` chooses one standing; null gives the pairs.
with wanted as (
    -- A run's results are all stored at its start.
    select
        w.side,
        coalesce(r.started_at, '-infinity') as since,
        coalesce(r.started_at, 'infinity') as until,
        b.line
    from unnest(array[:one, :other]) as w (side)
    left join raw.run as r on :by = 'run' and w.side = r.run_id
    left join raw.build as b on :by = 'build' and w.side = b.build_id
),

newest as (
    select distinct on (w.side, work, place)
        w.side,
        case when :by = 'framework' then s.axes - 'framework' else s.axes end as work,
        case when :by in ('cluster', 'run') then '' else s.cluster end as place,
        s.workload,
        s.case_id,
        s.cluster,
        m.run_id,
        m.framework_version,
        m.throughput,
        m.unit,
        m.n,
        m.half_width,
        m.model_flops_per_s / s.trainers / 1e12 as tflops_per_device,
        m.mfu,
        m.reported
    from wanted as w
    inner join staging.series as s
        on case :by
            when 'framework' then w.side = s.framework
            when 'cluster' then w.side = s.cluster
            when 'version' then starts_with(w.side, s.framework || ' ')
            when 'build' then w.line = s.framework
            else true
        end
    cross join
        lateral (
            -- Stops at the newest month that has one.
            select
                n.run_at,
                r.run_id,
                n.framework_version,
                n.throughput,
                n.unit,
                n.n,
                n.half_width,
                n.model_flops_per_s,
                n.mfu,
                n.reported
            from raw.measurement as n
            inner join raw.run as r on n.run_key = r.run_key
            inner join raw.build as b on n.build_key = b.build_key
            where
                n.series_key = s.series_key
                and n.is_good
                and n.run_at >= w.since
                and n.run_at <= w.until
                and n.run_kind not in ('drill', 'confirm', 'acceptance')
                and (not n.is_private_build or :by in ('build', 'run'))
                and (
                    :by not in ('framework', 'cluster')
                    or not exists (
                        select from staging.changed_training as t
                        where t.series_key = n.series_key and n.run_at between t.since and t.until
                    )
                )
                and case :by
                    when 'version' then s.framework || ' ' || n.framework_version = w.side
                    when 'build' then b.build_id = w.side
                    when 'run' then r.run_id = w.side
                    else true
                end
            order by n.run_at desc, n.run_key desc
            limit 1
        ) as m
    order by w.side asc, work asc, place asc, m.run_at desc, m.run_id desc
),

newest_of_one as (
    select *
    from newest
    where side = :one
),

newest_of_other as (
    select *
    from newest
    where side = :other
),

compared as (
    select
        a.workload,
        a.case_id as one_case_id,
        b.case_id as other_case_id,
        a.cluster as one_cluster,
        b.cluster as other_cluster,
        a.run_id as one_run_id,
        b.run_id as other_run_id,
        a.framework_version as one_version,
        b.framework_version as other_version,
        a.throughput as one_throughput,
        b.throughput as other_throughput,
        a.n as one_n,
        b.n as other_n,
        a.tflops_per_device as one_tflops_per_device,
        b.tflops_per_device as other_tflops_per_device,
        a.mfu as one_mfu,
        b.mfu as other_mfu,
        a.reported as one_reported,
        b.reported as other_reported,
        coalesce(a.unit, b.unit) as unit,
        b.throughput / a.throughput as ratio,
        sqrt(a.half_width * a.half_width + b.half_width * b.half_width) as relative_error
    from newest_of_one as a
    full join newest_of_other as b
        on a.work = b.work and a.place = b.place and a.unit = b.unit
),

bounded as (
    select
        *,
        ratio * (1 - relative_error) as ratio_low,
        ratio * (1 + relative_error) as ratio_high
    from compared
    where
        :search::text is null
        or position(lower(:search) in lower(coalesce(one_case_id, other_case_id))) > 0
),

placed as (
    select
        *,
        case
            when other_case_id is null then 'only_one'
            when one_case_id is null then 'only_other'
            when ratio_high < 1 then 'slower'
            when ratio_low > 1 then 'faster'
            else 'unclear'
        end as standing
    from bounded
),

counted as (
    select
        count(*) filter (where standing = 'faster') as faster,
        count(*) filter (where standing = 'slower') as slower,
        count(*) filter (where standing = 'unclear') as unclear,
        count(*) filter (where standing = 'only_one') as only_one,
        count(*) filter (where standing = 'only_other') as only_other
    from placed
),

averaged as (
    select
        workload,
        count(*) as pairs,
        exp(avg(ln(ratio))) as ratio
    from placed
    where ratio is not null
    group by grouping sets ((workload), ())
    having count(*) > 0
),

-- Over every pair, whatever standing is chosen: the clear ones alone would exaggerate.
summed_up as (
    select
        coalesce(
            jsonb_agg(
                jsonb_build_object('workload', workload, 'pairs', pairs, 'ratio', ratio)
                order by workload asc nulls first
            ),
            '[]'
        ) as means
    from averaged
),

chosen as (
    select *
    from placed
    where
        standing = :shown
        or (:shown::text is null and standing in ('faster', 'slower', 'unclear'))
    order by
        standing = 'unclear' asc,
        abs(ln(ratio)) desc,
        coalesce(one_case_id, other_case_id) asc,
        coalesce(one_cluster, other_cluster) asc
    limit :max_rows offset :skipped
)

select
    counted.*,
    summed_up.means,
    chosen.*
from counted
cross join summed_up
left join chosen on true
order by
    chosen.standing = 'unclear' asc,
    abs(ln(chosen.ratio)) desc,
    coalesce(chosen.one_case_id, chosen.other_case_id) asc,
    coalesce(chosen.one_cluster, chosen.other_cluster) asc;

-- name: ui_compare_sides(by, max_rows)
-- Values of a property that can be compared, the newest first, of the last year with results.
with last_year as (
    select max(started_at) - interval '365 days' as since
    from raw.run
),

-- Grouped before they are named: they are a million.
built as (
    select
        m.build_key,
        m.framework_version,
        max(m.run_at) as started_at
    from raw.measurement as m
    where
        :by in ('framework', 'version', 'build')
        and m.is_good
        and m.run_kind not in ('drill', 'confirm', 'acceptance')
        and m.run_at >= (select y.since from last_year as y)
    group by m.build_key, m.framework_version
),

named as (
    select
        r.started_at,
        case :by when 'cluster' then r.cluster else r.run_id end as side
    from raw.run as r
    inner join last_year as y on r.started_at >= y.since
    cross join
        lateral (
            -- Looked up for each run: else the measurements of all years would be read.
            select m.run_key
            from raw.measurement as m
            where m.run_key = r.run_key and m.run_at = r.started_at and m.is_good
            order by m.run_key asc
            limit 1
        ) as brought
    where
        :by in ('cluster', 'run')
        and r.run_kind not in ('drill', 'confirm', 'acceptance')
    union all
    select
        m.started_at,
        case :by
            when 'framework' then b.line
            when 'version' then b.line || ' ' || m.framework_version
            when 'build' then b.build_id
        end as side
    from built as m
    inner join raw.build as b on m.build_key = b.build_key
)

select
    side,
    max(started_at) as newest_at
from named
where side is not null
group by side
order by newest_at desc, side asc
limit :max_rows;

-- name: ui_compare_proposal()
-- The two newest versions, within 90 days, of the framework that changed most between its two. The
-- change is the mean square over its series, each by the medians of a version's last week. No row
-- if no framework has two versions.
with built as (
    select
        m.build_key,
        m.framework_version,
        max(m.run_at) as last_at
    from raw.measurement as m
    where
        m.is_good
        and not m.is_private_build
        and m.run_kind not in ('drill', 'confirm')
        and m.run_at >= (select max(r.started_at) - interval '90 days' from raw.run as r)
    group by m.build_key, m.framework_version
),

aged as (
    select
        b.line,
        m.framework_version,
        max(m.last_at) as last_at,
        row_number() over (partition by b.line order by max(m.last_at) desc) as age
    from built as m
    inner join raw.build as b on m.build_key = b.build_key
    group by b.line, m.framework_version
),

moves as (
    select
        a.line,
        avg(case when a.age = 1 then ln(m.throughput) end)
        - avg(case when a.age = 2 then ln(m.throughput) end) as difference
    from aged as a
    inner join raw.build as b on a.line = b.line
    inner join raw.measurement as m
        on
            b.build_key = m.build_key
            and a.framework_version = m.framework_version
            and a.last_at - interval '7 days' < m.run_at
            and a.last_at >= m.run_at
    where
        a.age <= 2
        -- PostgreSQL skips older months by this bound, which the join alone does not give.
        and m.run_at > (
            select min(w.last_at) - interval '7 days'
            from aged as w
            where w.age <= 2
        )
        and m.is_good
        and not m.is_private_build
        and m.run_kind not in ('drill', 'confirm')
    group by a.line, m.series_key
),

moved as (
    select
        line,
        avg(difference * difference) as by_how_much
    from moves
    where difference is not null
    group by line
)

select
    o.line || ' ' || o.framework_version as one,
    n.line || ' ' || n.framework_version as other
from moved as m
inner join aged as n on m.line = n.line and n.age = 1
inner join aged as o on m.line = o.line and o.age = 2
order by m.by_how_much desc, m.line asc
limit 1;

-- name: ui_published_figures()
-- The documents with published values: how many values each has, how many of them match a measured
-- median, and how many cells the original leaves empty.
select
    source_document,
    figure,
    count(distinct reference_id) filter (where not is_empty) as cells,
    count(distinct reference_id) filter (
        where measured_value is not null and not is_empty
    ) as measured,
    count(distinct reference_id) filter (where is_empty) as empty
from marts.fct_reference
group by source_document, figure
order by source_document asc, figure asc;

-- name: ui_published(source_document, figure)
-- The cells of a published table, empty ones too, each with the newest measured medians that match
-- it on every axis that it states; on other hardware.
select
    reference_id,
    workload,
    framework_text as framework,
    published_version,
    strategy,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    batch_size_text as batch_size,
    precision_text as precision,
    compiler,
    variant_text as variant,
    metric,
    unit,
    is_unit_doubtful,
    published_value,
    published_device,
    published_dataset,
    remark,
    case_id,
    cluster,
    run_id,
    measured_at,
    measured_version,
    measured_value,
    measured_n,
    measured_is_synthetic
from marts.fct_reference
where
    source_document = :source_document
    and figure is not distinct from :figure
order by reference_id asc, cluster asc, case_id asc;

-- name: ui_series_losses(case_id, cluster, max_steps)
-- Losses of the newest nightly median of a series (tonight), of the newest one before it that
-- trained as before (good), and of other lines (line). The other lines did the same work in the
-- same run. A loss is the mean over the trainers of the first good repeat: the first step, then the
-- steps of the window.
with free as (
    select '{framework,compiler,execution,layout,tuning,threads,cpus,memory_mb}'::text[] as names
),

own as (
    select
        series_key,
        axes
    from staging.series
    where case_id = :case_id and cluster = :cluster
),

night as (
    select
        m.*,
        v.training,
        v.training_sentence
    from own as o
    inner join raw.measurement as m on o.series_key = m.series_key
    left join raw.verdict as v
        on m.run_key = v.run_key and m.series_key = v.series_key and m.run_at = v.run_at
    where
        m.is_good
        and m.run_kind = 'nightly'
        and not m.is_private_build
        and m.losses is not null
),

tonight as (
    select *
    from night
    order by run_at desc, run_key desc
    limit 1
),

shown as (
    select
        'tonight' as role,
        t.run_key,
        t.series_key,
        t.run_at,
        t.generation,
        t.framework_version,
        t.training,
        t.training_sentence
    from tonight as t
    union all
    (
        select
            'good' as role,
            n.run_key,
            n.series_key,
            n.run_at,
            n.generation,
            n.framework_version,
            null as training,
            null as training_sentence
        from night as n
        inner join tonight as t on n.run_at < t.run_at
        where
            not exists (
                select from staging.changed_training as d
                where d.series_key = n.series_key and n.run_at between d.since and d.until
            )
        order by n.run_at desc, n.run_key desc
        limit 1
    )
    union all
    select
        'line' as role,
        m.run_key,
        m.series_key,
        m.run_at,
        m.generation,
        m.framework_version,
        null as training,
        null as training_sentence
    from tonight as t
    inner join raw.measurement as m on t.run_key = m.run_key and t.run_at = m.run_at
    inner join staging.series as s on m.series_key = s.series_key
    cross join free as f
    inner join own as o
        on
            m.series_key <> o.series_key
            and s.axes - f.names = o.axes - f.names
    where m.is_good and m.losses is not null
),

first_repeat as (
    select
        n.run_key,
        n.series_key,
        n.run_at,
        n.generation,
        min(p.repeat) as repeat
    from shown as n
    inner join raw.repeat as p
        on
            n.run_key = p.run_key
            and n.series_key = p.series_key
            and n.run_at = p.run_at
            and n.generation = p.generation
    where p.status = 'ok' and p.quarantine_reasons is null
    group by n.run_key, n.series_key, n.run_at, n.generation
),

step as (
    select
        k.run_key,
        k.series_key,
        l.place,
        nullif(avg(l.loss), 'NaN') as loss,
        min(
            (
                select count(*)
                from unnest(k.step_end_s) as ended (at)
                where ended.at <= k.window_open_s
            )
        ) as warmup
    from first_repeat as f
    inner join raw.repeat_rank as k
        on
            f.run_key = k.run_key
            and f.series_key = k.series_key
            and f.run_at = k.run_at
            and f.generation = k.generation
            and f.repeat = k.repeat
    cross join
        lateral unnest(array_prepend(k.loss_first, k.loss_window))
        with ordinality as l (loss, place)
    where k.loss_window <> '{}' and l.place <= :max_steps
    group by k.run_key, k.series_key, l.place
),

curve as (
    select
        run_key,
        series_key,
        min(warmup) as warmup,
        array_agg(loss order by place) as losses
    from step
    group by run_key, series_key
)

select
    n.role,
    r.run_id,
    r.started_at,
    s.case_id,
    s.framework,
    n.framework_version,
    n.training,
    n.training_sentence,
    c.warmup,
    c.losses
from shown as n
inner join raw.run as r on n.run_key = r.run_key
inner join staging.series as s on n.series_key = s.series_key
inner join curve as c on n.run_key = c.run_key and n.series_key = c.series_key
order by array_position('{line,good,tonight}'::text[], n.role) desc, s.framework asc;
