-- Series: medians and verdicts over the nights, noise and drift.

-- name: histories(case_ids, cluster, kinds, before, max_nights, metric)
-- Some series of a cluster, in no order. Medians that passed the checks, of the requested run
-- kinds, with the metric; the newest of each series, up to a limit. Private builds are excluded.
-- Runs by their keys: a join of runs to hundreds of nights of thousands of series needs longer than
-- everything else.
select
    s.case_id,
    m.run_key,
    m.run_at,
    m.value,
    m.n,
    m.spread,
    m.fingerprint_id,
    m.definition_digest,
    m.framework_version
from raw.series as s
inner join raw."case" as c on s.case_key = c.case_key
cross join
    lateral (
        select
            n.*,
            case :metric
                when 'throughput' then n.throughput
                when 'tokens_per_s_per_device' then n.tokens_per_s / c.trainers
                when 'tflops_per_device' then n.model_flops_per_s / c.trainers / 1e12
                when 'mfu' then n.mfu
                when 'joules_per_unit' then n.joules_per_unit
                when 'peak_resident_bytes' then n.peak_resident_bytes
                when 'peak_allocator_bytes' then n.peak_allocator_bytes
            end as value
        from raw.measurement as n
        where
            n.series_key = s.series_key
            and n.is_good
            and n.run_kind = any(:kinds)
            and not n.is_private_build
            and (:before::timestamptz is null or n.run_at < :before)
        order by n.run_at desc, n.run_key desc
        limit :max_nights
    ) as m
where
    s.cluster = :cluster
    and s.case_id = any(:case_ids)
    and m.value > 0;

-- name: changed_nights(case_ids, cluster)
-- Nights of some series whose training changed, if no user has accepted the change.
select
    s.case_id,
    t.since as at
from staging.changed_training as t
inner join raw.series as s on t.series_key = s.series_key
where
    s.cluster = :cluster
    and s.case_id = any(:case_ids)
    and t.alert_id is null;

-- name: training_nights(case_ids, cluster, run_id, before, max_nights, max_older, max_changed)
-- The losses of some series: tonight's, and those of the newest nightly runs before that were not
-- changed, or were accepted; and the newest changed ones. A person who dismisses a training alert
-- accepts its nights: as intended, nights before it are left out; as a false alarm, they stay.
-- A run whose losses were not judged yet, or are not compared, is left out. Tonight's build is
-- looked for in older nights, too: the newest one is read.
-- Nights are read per series, from its index: a join with all wanted series would be quadratic.
-- The index has no run_key; ordering by it, too, would sort the nights.
with unjudged as (
    select coalesce(array_agg(r.run_key), '{}') as run_keys
    from raw.run as r
    -- One look at an index for each run; an anti-join could read all verdicts.
    left join lateral (
        select v.training
        from raw.verdict as v
        where
            v.run_key = r.run_key
            and v.run_at = r.started_at
            and v.training is not null
        order by v.series_key
        limit 1
    ) as judged on true
    where
        r.cluster = :cluster
        and r.run_kind = 'nightly'
        and r.started_at < :before
        and r.started_at > :before - interval '90 days'
        and judged.training is null
),

reopened as (
    select
        t.series_key,
        array_agg(t.run_key) as run_keys
    from staging.reopened_training as t
    inner join raw.series as s on t.series_key = s.series_key
    where s.cluster = :cluster and s.case_id = any(:case_ids)
    group by t.series_key
),

dismissed as (
    select
        a.series_key,
        max(a.since) filter (where a.dismissed_as <> 'false_alarm') as since,
        range_agg(tstzrange(a.since, a.until, '[]')) as accepted,
        range_agg(tstzrange(a.since, a.until, '[]'))
        filter (where a.dismissed_as = 'false_alarm') as false_alarms
    from staging.accepted_training as a
    inner join raw.series as s on a.series_key = s.series_key
    where
        s.cluster = :cluster
        and s.case_id = any(:case_ids)
        and a.since < :before
    group by a.series_key
),

wanted as (
    select
        s.series_key,
        s.case_id,
        u.run_keys as unjudged,
        coalesce(d.since, '-infinity') as since,
        coalesce(d.accepted, '{}') as accepted,
        coalesce(d.false_alarms, '{}') as false_alarms,
        coalesce(a.run_keys, '{}') as reopened
    from raw.series as s
    cross join unjudged as u
    left join dismissed as d on s.series_key = d.series_key
    left join reopened as a on s.series_key = a.series_key
    where s.cluster = :cluster and s.case_id = any(:case_ids)
)

select
    w.case_id,
    m.place,
    m.losses::text as losses,
    m.run_at as at,
    m.framework_version as version,
    b.build_id,
    nullif(m.fingerprint_id, '') as fingerprint_id,
    nullif(m.definition_digest, '') as definition_digest,
    m.is_changed,
    m.run_key,
    m.throughput,
    m.is_false_alarm
from wanted as w
-- The limit keeps this a look at the index for each series.
left join lateral (
    select n.*
    from raw.measurement as n
    where
        n.series_key = w.series_key
        and n.is_good
        and n.run_key = (
            select r.run_key from raw.run as r
            where r.run_id = :run_id
        )
        and n.run_at = (
            select r.started_at from raw.run as r
            where r.run_id = :run_id
        )
    order by n.run_at
    limit 1
) as t on true
cross join
    lateral (
        with night as not materialized (
            select
                n.run_at,
                n.run_key,
                n.build_key,
                n.losses,
                n.framework_version,
                n.fingerprint_id,
                n.definition_digest,
                n.throughput,
                n.run_key = any(w.reopened)
                or not n.run_at <@ w.accepted
                and exists (
                    select 1
                    from raw.verdict as v
                    where
                        v.training = 'changed'
                        and v.run_key = n.run_key
                        and v.series_key = n.series_key
                        and v.run_at = n.run_at
                ) as is_changed,
                n.run_at <@ w.false_alarms as is_false_alarm
            from raw.measurement as n
            where
                n.series_key = w.series_key
                and n.is_good
                and n.run_kind = 'nightly'
                and not n.is_private_build
                and n.losses is not null
                and n.run_at < :before
                and n.run_at >= w.since
                and n.run_key <> all(w.unjudged)
        )

        (
            select
                'newest' as place,
                night.*
            from night
            where not night.is_changed
            order by night.run_at desc
            limit :max_nights
        )
        union all
        (
            select
                'older' as place,
                older.*
            from (
                select *
                from night
                where not is_changed
                order by run_at desc
                limit
                    :max_older
                    offset :max_nights
            ) as older
            where older.build_key = t.build_key
            order by older.run_at desc
            limit 1
        )
        union all
        (
            select
                'changed' as place,
                night.*
            from night
            where
                night.is_changed
                -- Those before the newest reference prove nothing; the scan stops there.
                and night.run_at > coalesce(
                    (
                        select u.run_at
                        from night as u
                        where not u.is_changed
                        order by u.run_at desc
                        limit 1
                    ),
                    '-infinity'
                )
            order by night.run_at desc
            limit :max_changed
        )
        union all
        select
            'tonight' as place,
            t.run_at,
            t.run_key,
            t.build_key,
            t.losses,
            t.framework_version,
            t.fingerprint_id,
            t.definition_digest,
            t.throughput,
            false as is_changed,
            false as is_false_alarm
        where t.run_key is not null
    ) as m
inner join staging.build as b on m.build_key = b.build_key;

-- name: reference_nights(cluster, case_ids, run_id, before)
-- Nights of some series with a reference build, the newest first: nightly runs of a year, and the
-- run itself. In each run the current reference comes first, then the one before.
select
    p.case_id,
    p.run_id,
    p.reference,
    p.ratio,
    p.spread,
    p.n,
    p.reference_throughput as level,
    p.low,
    p.high
from raw.night_pair as p
inner join raw.run as r on p.run_id = r.run_id
where
    p.case_id = any(:case_ids)
    and p.n > 0
    and r.cluster = :cluster
    and (
        p.run_id = :run_id
        or (
            r.run_kind = 'nightly'
            and r.started_at < :before
            and r.started_at > :before::timestamptz - interval '1 year'
        )
    )
order by p.case_id asc, r.started_at desc, p.run_id asc, p.is_bridge asc;

-- name: store_machine*!
-- The verdict on the reference that was measured next to a case.
update raw.night_pair
set machine = :kind, machine_sentence = :sentence
where
    run_id = :run_id
    and case_id = :case_id
    and not is_bridge
    and row(machine, machine_sentence) is distinct from row(:kind, :sentence);

-- name: run_ids(run_keys)
-- Names of some runs by their keys.
select
    run_key,
    run_id
from raw.run
where run_key = any(:run_keys);

-- name: series(cluster, suite)
-- Series with nightly results, and the suite that measured them last; imported results count where
-- there are no others.
select
    s.case_id,
    s.cluster,
    coalesce(own.suite, imported.suite) as suite
from raw.series as s
left join lateral (
    select r.suite
    from raw.measurement as m
    inner join raw.run as r on m.run_key = r.run_key
    where
        m.series_key = s.series_key
        and m.is_good
        and m.run_kind = 'nightly'
        and r.origin <> 'import'
    order by m.run_at desc
    limit 1
) as own on true
left join lateral (
    select r.suite
    from raw.measurement as m
    inner join raw.run as r on m.run_key = r.run_key
    where
        m.series_key = s.series_key
        and m.is_good
        and m.run_kind = 'nightly'
    order by m.run_at desc
    limit 1
) as imported on own.suite is null
where
    coalesce(own.suite, imported.suite) is not null
    and (:cluster::text is null or s.cluster = :cluster)
    and (:suite::text is null or coalesce(own.suite, imported.suite) = :suite)
order by s.case_id, s.cluster;

-- name: planned_keys(run_ids)
-- Keys of the planned cases of some runs.
select
    r.run_id,
    s.case_id,
    p.run_key,
    p.series_key,
    p.run_at
from raw.run as r
inner join raw.planned_case as p on r.run_key = p.run_key
inner join raw.series as s on p.series_key = s.series_key
where r.run_id = any(:run_ids);

-- name: verdicts(run_id)
-- The verdicts of a run, by the names of a verdict's fields.
select
    case_id,
    cluster,
    run_id,
    verdict as kind,
    sentence,
    value,
    baseline,
    change,
    history_nights as history,
    smallest_slowdown,
    level_change,
    low,
    high,
    since,
    first_bad_run_id,
    last_good_run_id,
    metric,
    training,
    training_sentence
from marts.fct_verdict
where run_id = :run_id
order by case_id;

-- name: judged_since(cluster, started_at, case_ids)
-- Those of some series that a later nightly run of the same cluster has judged.
select distinct s.case_id
from raw.run as r
inner join raw.verdict as v on r.run_key = v.run_key and r.started_at = v.run_at
inner join raw.series as s on v.series_key = s.series_key
where
    r.cluster = :cluster
    and r.run_kind = 'nightly'
    and r.started_at > :started_at
    and v.run_at > :started_at
    and s.case_id = any(:case_ids)
order by s.case_id;

-- name: noise_events(run_id)
-- Series that became noisy or steady, newest first; of all nights if the parameter is null.
select *
from marts.fct_noise_event
where :run_id::text is null or run_id = :run_id
order by at desc, case_id asc;

-- name: noisy_before(cluster, run_id, at)
-- Series of a cluster that were noisy when a night began; what the night itself says is left out.
select case_id
from (
    select distinct on (case_id)
        case_id,
        what
    from marts.fct_noise_event
    where
        cluster = :cluster
        and run_id <> :run_id
        and at < :at
    order by case_id asc, at desc, run_id desc
) as newest
where what = 'noisy';

-- name: noisy_series(cluster)
-- The series that are noisy now.
select *
from marts.noisy_series
where :cluster::text is null or cluster = :cluster
order by cluster asc, case_id asc;

-- name: see_drift*!
-- Updates the values of a series' drift that has not ended.
update raw.drift set
    change = :change,
    error = :error,
    nights = :nights,
    since = :since,
    seen_run_id = :run_id,
    seen_at = :at
where
    case_id = :case_id
    and cluster = :cluster
    and over_at is null
    and (change, error, nights, since, seen_run_id, seen_at) is distinct from (
        :change::double precision,
        :error::double precision,
        :nights::integer,
        :since::timestamptz,
        :run_id::text,
        :at::timestamptz
    );

-- name: end_drift*!
-- Ends the drift of a series.
update raw.drift set over_run_id = :run_id, over_at = :at
where case_id = :case_id and cluster = :cluster and over_at is null;

-- name: drifts(suite, cluster, live)
-- Drifts, the largest drop first. A null parameter does not filter.
select *
from marts.fct_drift
where
    (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (not :live or over_at is null)
order by change asc, case_id asc, cluster asc, at asc;

-- name: placements(cluster, case_ids, until)
-- Nodes that some series ran on in the nightly runs of 180 days, and the runs of each set of nodes.
with placed as (
    select
        s.case_id,
        r.run_id,
        array_agg(distinct n.node order by n.node) as nodes
    from raw.run as r
    inner join raw.measurement_node as n on r.run_key = n.run_key and r.started_at = n.run_at
    inner join raw.series as s on n.series_key = s.series_key
    where
        r.cluster = :cluster
        and r.run_kind = 'nightly'
        and r.started_at <= :until
        and r.started_at > :until - interval '180 days'
        and s.case_id = any(:case_ids)
    group by s.case_id, r.run_id
)

select
    case_id,
    nodes,
    array_agg(run_id) as run_ids
from placed
group by case_id, nodes
order by case_id asc, count(*) desc;
