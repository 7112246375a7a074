-- Questions of the page of one case of a run.

-- name: case_head(run_id, case_id)
-- Values of the page in addition to the case's result: the generation that counts, its nodes, how
-- many checks its results met, and the last good run before it. That run is the one that its
-- verdict names, else the newest earlier night that was not judged slower.
select
    p.generation,
    p.node_names,
    coalesce(m.checks_met, 0) as checks_met,
    coalesce(v.last_good_run_id, good.run_id) as good_run_id
from staging.result as p
left join raw.measurement as m
    on
        p.run_key = m.run_key
        and p.series_key = m.series_key
        and p.run_at = m.run_at
        and p.generation = m.generation
left join raw.verdict as v
    on p.run_key = v.run_key and p.series_key = v.series_key and p.run_at = v.run_at
left join lateral (
    select r.run_id
    from raw.measurement as e
    inner join raw.run as r on e.run_key = r.run_key
    left join raw.verdict as w
        on e.run_key = w.run_key and e.series_key = w.series_key and e.run_at = w.run_at
    where
        e.series_key = p.series_key
        and e.run_at < p.run_at
        and e.is_good
        and e.run_kind = 'nightly'
        and not e.is_private_build
        and w.kind is distinct from 'regressed'
    order by e.run_at desc, e.run_key desc
    limit 1
) as good on true
where p.run_id = :run_id and p.case_id = :case_id;

-- name: case_failed_checks(run_id, case_id)
-- Checks that results of a case did not meet, those of the median first.
select f.*
from raw.run as r
inner join raw.series as s on r.cluster = s.cluster
inner join raw.failed_check as f
    on r.run_key = f.run_key and s.series_key = f.series_key and r.started_at = f.run_at
where r.run_id = :run_id and s.case_id = :case_id
order by f.generation desc, f.repeat asc, f.severity asc, f.check_name asc, f.ordinal asc;

-- name: case_ranks(run_id, case_id, generation, repeat)
-- The processes of a repeat with their steps, the longest window first; none if the month was
-- emptied. Step times are seconds.
select
    k.process,
    k.role,
    k.rank,
    k.node,
    k.window_open_s,
    array_remove(k.step_seconds, null) as step_seconds,
    array_remove(k.step_end_s, null) as step_end_s
from raw.run as r
inner join raw.series as s on r.cluster = s.cluster
inner join raw.repeat_rank as k
    on r.run_key = k.run_key and s.series_key = k.series_key and r.started_at = k.run_at
where
    r.run_id = :run_id
    and s.case_id = :case_id
    and k.generation = :generation
    and k.repeat = :repeat
order by k.window_wall_s desc nulls last, k.role asc, k.rank asc;
