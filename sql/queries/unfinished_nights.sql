-- Nights that are not over, and those of which something is untold.
select
    suite,
    cluster,
    scheduled_at,
    until,
    due_at,
    why,
    state,
    sentence,
    run_id,
    without,
    is_empty,
    was_paused,
    is_silence,
    missing_at,
    told_at,
    ended_at,
    end_told_at
from raw.night
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and scheduled_at >= %(since)s
    and (
        state in ('waiting', 'missing')
        or (state = 'late' and told_at is not null and end_told_at is null)
    )
order by scheduled_at;
