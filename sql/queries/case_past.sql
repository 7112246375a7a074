-- What earlier runs say of each case on a cluster: the median seconds of its good runs among the
-- last 20, as a whole and for one repeat, as far as they were measured by the newest definition
-- (another protocol takes another time), and when a scheduled run last tried it. A failed case was
-- tried too, else it would come first in every night; what was left out before its first launch
-- was not.
with tried as (
    select
        m.case_id,
        m.status,
        m.elapsed_s,
        m.elapsed_s / greatest(m.n, 1) as repeat_s,
        m.definition_digest,
        r.run_kind,
        r.started_at,
        row_number() over (
            partition by m.case_id, m.status order by r.started_at desc, r.run_id desc
        ) as age,
        first_value(m.definition_digest) over (
            partition by m.case_id, m.status order by r.started_at desc, r.run_id desc
        ) as newest
    from staging.measurement as m
    inner join staging.run as r on m.run_id = r.run_id
    where r.cluster = %(cluster)s
)

select
    case_id,
    percentile_cont(0.5) within group (order by elapsed_s) filter (
        where status = 'ok' and age <= 20 and definition_digest is not distinct from newest
    ) as seconds,
    percentile_cont(0.5) within group (order by repeat_s) filter (
        where status = 'ok' and age <= 20 and definition_digest is not distinct from newest
    ) as repeat_s,
    max(newest) filter (where status = 'ok') as definition_digest,
    max(started_at) filter (
        where
        run_kind = 'nightly'
        and (status in ('ok', 'failed', 'unavailable') or elapsed_s is not null)
    ) as last_at
from tried
group by case_id
order by case_id;
