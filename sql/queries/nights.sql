-- Nights that schedules promise, and the check of their deadlines.

-- name: watched_suite(suite)
-- A suite's cluster and schedule as the last deadline check found them.
select *
from raw.suite_watch
where suite = :suite;

-- name: store_night*!
-- State of a night.
insert into raw.night as t (
    suite, cluster, scheduled_at, until, due_at, why, state, sentence, run_id, without,
    is_empty, was_paused, is_silence, missing_at, ended_at, checked_at
)
values (
    :suite,
    :cluster,
    :scheduled_at,
    :until,
    :due_at,
    :why,
    :state,
    :sentence,
    :run_id,
    :without,
    :is_empty,
    :was_paused,
    :is_silence,
    case when :state = 'missing' then :now::timestamptz end,
    case when :state = 'late' then :now::timestamptz end,
    :now
)
on conflict (suite, cluster, scheduled_at) do update set
    until = excluded.until,
    due_at = excluded.due_at,
    why = excluded.why,
    state = excluded.state,
    sentence = excluded.sentence,
    run_id = excluded.run_id,
    without = excluded.without,
    is_empty = excluded.is_empty,
    was_paused = t.was_paused or excluded.was_paused,
    is_silence = t.is_silence or excluded.is_silence,
    missing_at = coalesce(t.missing_at, excluded.missing_at),
    ended_at = coalesce(t.ended_at, excluded.ended_at),
    checked_at = excluded.checked_at;

-- name: deadline_check()
-- When deadlines were last checked.
select
    checked_at,
    suites,
    missing
from raw.deadline_check;

-- name: stored_nights(suite, cluster, since)
-- Nights of a suite as they were stored.
select *
from raw.night
where
    suite = :suite
    and cluster = :cluster
    and scheduled_at >= :since;

-- name: night_runs(suite, cluster, since)
-- Scheduled runs of a suite, each with the planned cases that have no result.
select
    r.run_id,
    r.started_at,
    r.loaded_at,
    c.planned,
    -- Few are: names of all cases would be sorted.
    array(
        select s.case_id
        from raw.series as s
        where s.series_key = any(c.without)
        order by s.case_id
    ) as without,
    c.is_judged
from raw.run as r
cross join
    lateral (
        select
            count(*) filter (where p.left_out is null) as planned,
            array_agg(p.series_key)
            filter (where p.left_out is null and m.run_key is null) as without,
            -- A night that had no room for any case has nothing to judge.
            coalesce(
                bool_or(v.run_key is not null)
                or not bool_or(p.left_out is null and coalesce(m.status, '') <> 'left_out'),
                false
            ) as is_judged
        from raw.planned_case as p
        left join raw.measurement as m
            on
                p.series_key = m.series_key
                and r.run_key = m.run_key
                and r.started_at = m.run_at
                -- Older months are not even planned.
                and m.run_at >= :since
                and not m.is_superseded
        left join raw.verdict as v
            on
                p.series_key = v.series_key
                and r.run_key = v.run_key
                and r.started_at = v.run_at
                and v.run_at >= :since
        where p.run_key = r.run_key
    ) as c
where
    r.suite = :suite
    and r.cluster = :cluster
    and r.run_kind = 'nightly'
    and r.origin <> 'import'
    and r.started_at >= :since
order by r.started_at;

-- name: nights(suite, cluster, states, since, max_rows)
-- Nights that schedules promised, newest first. A null parameter does not filter.
select *
from marts.fct_night
where
    (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:states::text[] is null or state = any(:states))
    and (:since::timestamptz is null or scheduled_at >= :since)
order by scheduled_at desc, suite asc
limit :max_rows;
