-- Asks for a suspect to be measured again; no row where Nightbench has asked for it that night.
insert into raw.confirmation (
    alert_id,
    run_id,
    state,
    asked_by,
    comparison_id,
    sentence,
    until,
    ended_at,
    detail
)
values (
    %(alert_id)s,
    %(run_id)s,
    %(state)s,
    %(asked_by)s,
    %(comparison_id)s,
    %(sentence)s,
    now() + %(within_s)s * interval '1 second',
    case when %(state)s = 'skipped' then now() end,
    %(detail)s
)
on conflict do nothing
returning confirmation_id;
