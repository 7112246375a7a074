-- How a night stands. What was told of it is written apart.
insert into raw.night as t (
    suite, cluster, scheduled_at, until, due_at, why, state, sentence, run_id, without,
    is_empty, was_paused, is_silence, missing_at, ended_at, checked_at
)
values (
    %(suite)s,
    %(cluster)s,
    %(scheduled_at)s,
    %(until)s,
    %(due_at)s,
    %(why)s,
    %(state)s,
    %(sentence)s,
    %(run_id)s,
    %(without)s,
    %(is_empty)s,
    %(was_paused)s,
    %(is_silence)s,
    case when %(state)s = 'missing' then %(now)s::timestamptz end,
    case when %(state)s = 'late' then %(now)s::timestamptz end,
    %(now)s
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
