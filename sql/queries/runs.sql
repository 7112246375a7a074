-- Runs: what a run plans to measure, with its cluster and its builds.

-- name: ensure_month(at)
-- Makes the partitions of a month where they are missing.
select raw.ensure_month(:at) as is_new;

-- name: drop_old_details(kept_days)
-- Empties months of details that are older than they are kept; returns their names.
select dropped
from raw.drop_old_details(:kept_days);

-- name: refresh_statistics()
-- Analyses the tables of results, once a day.
select raw.refresh_statistics() as is_done;

-- name: run_keys(run_ids)
-- Keys of some runs.
select
    run_id,
    run_key,
    started_at
from raw.run
where run_id = any(:run_ids);

-- name: build_keys(build_ids)
-- Keys of some builds.
select
    build_id,
    build_key
from raw.build
where build_id = any(:build_ids);

-- name: series_keys(cluster, case_ids)
-- Keys of some cases' series on a cluster, with their axes and configuration.
select
    s.case_id,
    s.series_key,
    c.axes,
    c.mode
from raw.series as s
inner join raw."case" as c on s.case_key = c.case_key
where
    s.cluster = :cluster
    and s.case_id = any(:case_ids);

-- name: store_series(cluster, case_ids)
-- Series of some cases on a cluster.
insert into raw.series (case_key, case_id, cluster)
select
    case_key,
    case_id,
    :cluster as cluster
from raw."case"
where case_id = any(:case_ids)
order by case_id
on conflict do nothing
returning series_key;

-- name: supersede_generations*!
-- Marks all generations of a run's cases but the last one. Writes only if something differs.
update raw.measurement as m set is_superseded = m.generation < l.generation
from (
    select
        series_key,
        max(generation) as generation
    from raw.measurement
    where
        run_key = :run_key
        and run_at = (
            select r.started_at from raw.run as r
            where r.run_key = :run_key
        )
    group by series_key
) as l
where
    m.run_key = :run_key
    and m.run_at = (
        select r.started_at from raw.run as r
        where r.run_key = :run_key
    )
    and m.series_key = l.series_key
    and m.is_superseded <> (m.generation < l.generation);

-- name: mark_loaded*!
-- Sets the time of the first load of a run's results, which a second load keeps, and by which checks
-- they were judged in this one.
update raw.run
set loaded_at = coalesce(loaded_at, now()), checks_digest = :checks_digest
where
    run_id = :run_id
    and (loaded_at is null or checks_digest <> :checks_digest);

-- name: runs(run_ids, suite, cluster, imported, max_rows, skipped)
-- Runs, newest first, with how many of their cases were planned, and what became of each: one of
-- measured, failed, quarantined, left out, without a result.
-- A null parameter does not filter.
with chosen as (
    select *
    from staging.run
    where
        (:run_ids::text[] is null or run_id = any(:run_ids))
        and (:suite::text is null or suite = :suite)
        and (:cluster::text is null or cluster = :cluster)
        and (:imported or not is_imported)
    order by started_at desc, run_id desc
    limit :max_rows offset :skipped
)

select
    r.run_id,
    r.suite,
    r.cluster,
    r.run_kind,
    r.started_at,
    r.requested_by,
    r.dag_id,
    r.dag_run_id,
    r.code_digest,
    r.env,
    r.loaded_at,
    r.is_imported,
    c.planned,
    c.measured,
    c.failed,
    c.left_out,
    c.quarantined,
    c.planned - c.measured - c.failed - c.left_out - c.quarantined as without_result
from chosen as r
cross join
    lateral (
        select
            count(*) as planned,
            count(*) filter (where m.is_good) as measured,
            count(*) filter (where m.status not in ('ok', 'left_out')) as failed,
            count(*) filter (where p.left_out is not null or m.status = 'left_out') as left_out,
            -- A failed case is refused as well, and counted once.
            count(*) filter (where m.quarantine_reasons is not null and m.status = 'ok')
                as quarantined
        from raw.planned_case as p
        left join raw.measurement as m
            on
                p.run_key = m.run_key
                and p.series_key = m.series_key
                and r.started_at = m.run_at
                and not m.is_superseded
        where p.run_key = r.run_key
    ) as c
order by r.started_at desc, r.run_id desc;

-- name: cluster_heard(cluster)
-- Start of the newest run of a cluster that yielded a result.
select r.started_at as at
from raw.run as r
where
    r.cluster = :cluster
    and r.origin <> 'import'
    and exists (
        select from raw.measurement as m
        where
            m.run_key = r.run_key
            and m.run_at = r.started_at
            and m.status = 'ok'
            and not m.is_superseded
    )
order by r.started_at desc
limit 1;

-- name: planned_cases(run_id)
-- The cases that a run means to measure, with their builds.
select
    s.case_id,
    c.axes,
    p.unit,
    p.definition_digest,
    p.left_out,
    p.is_private_build as private_build,
    p.untried,
    b.line,
    b.variant,
    b.source,
    b.version,
    b.location,
    b.digest
from raw.run as r
inner join raw.planned_case as p on r.run_key = p.run_key
inner join raw.series as s on p.series_key = s.series_key
inner join raw."case" as c on s.case_key = c.case_key
inner join raw.build as b on p.build_key = b.build_key
where r.run_id = :run_id
order by s.case_id;

-- name: case_past(cluster)
-- Durations of each case on a cluster: the median seconds of its good runs among the last 20, as a
-- whole and for one repeat. Only runs of the newest definition count, because another protocol has
-- another duration. Also the time when a scheduled run last tried the case, among its last 60 runs.
-- A failed case counts as tried, or it would come first in every night; a case that was left out
-- before its first launch does not. Also the night-to-night noise of the case, and the reference
-- build that was last measured next to it.
with tried as (
    select
        s.case_id,
        m.status,
        m.elapsed_s,
        m.elapsed_s / greatest(m.n, 1) as repeat_s,
        m.definition_digest,
        m.run_kind,
        m.run_at as started_at,
        m.throughput / lag(m.throughput) over (
            partition by s.case_id, m.is_good, m.run_kind order by m.run_at
        ) as step,
        m.is_good and m.run_kind = 'nightly' as is_night,
        row_number() over (
            partition by s.case_id, m.status order by m.run_at desc, m.run_key desc
        ) as age,
        first_value(m.definition_digest) over (
            partition by s.case_id, m.status order by m.run_at desc, m.run_key desc
        ) as newest
    from raw.series as s
    cross join
        lateral (
            select n.*
            from raw.measurement as n
            where
                n.series_key = s.series_key
                and not n.is_superseded
            order by n.run_at desc
            limit 60
        ) as m
    where s.cluster = :cluster
)

select
    t.case_id,
    percentile_cont(0.5) within group (order by t.elapsed_s) filter (
        where t.status = 'ok' and t.age <= 20 and t.definition_digest is not distinct from t.newest
    ) as seconds,
    percentile_cont(0.5) within group (order by t.repeat_s) filter (
        where t.status = 'ok' and t.age <= 20 and t.definition_digest is not distinct from t.newest
    ) as repeat_s,
    max(t.newest) filter (where t.status = 'ok') as definition_digest,
    max(t.started_at) filter (
        where
        t.run_kind = 'nightly'
        and (t.status in ('ok', 'failed', 'unavailable') or t.elapsed_s is not null)
    ) as last_at,
    percentile_cont(0.5) within group (order by abs(t.step - 1)) filter (
        where t.is_night
    ) as noise,
    (
        select p.build
        from raw.night_pair as p
        inner join raw.run as r on p.run_id = r.run_id
        where p.case_id = t.case_id and r.cluster = :cluster and p.n > 0 and not p.is_bridge
        order by r.started_at desc
        limit 1
    ) as reference
from tried as t
group by t.case_id
order by t.case_id;

-- name: case_states(case_id, run_ids)
-- Conditions of a case in some runs: build, code, environment variables, definition,
-- configuration, its nodes' fingerprints.
select
    p.run_id,
    p.started_at,
    p.code_digest,
    r.env,
    b.build_id,
    b.line,
    b.variant,
    b.source,
    b.version as build_version,
    b.location,
    p.framework_version,
    p.definition_digest,
    p.throughput,
    p.tokens_per_s_per_device,
    p.tflops_per_device,
    p.mfu,
    p.joules_per_unit,
    p.peak_resident_bytes,
    p.untried,
    (
        select jsonb_object_agg(n.node, f.document)
        from raw.measurement_node as n
        inner join raw.fingerprint as f on n.fingerprint_id = f.fingerprint_id
        where
            n.run_key = p.run_key
            and n.series_key = p.series_key
            and n.run_at = p.run_at
            and n.generation = p.generation
    ) as nodes
from staging.result as p
inner join raw.run as r on p.run_key = r.run_key
inner join raw.build as b on p.build_id = b.build_id
where
    p.case_id = :case_id
    and p.run_id = any(:run_ids);
