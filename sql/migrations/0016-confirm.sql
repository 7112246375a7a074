-- A suspected regression is measured again before it is told: the last good build beside tonight's.
create table raw.confirmation (
    confirmation_id bigint generated always as identity primary key,
    alert_id bigint not null references raw.alert (alert_id),
    run_id text not null references raw.run (run_id),
    state text not null check (state in ('wanted', 'running', 'ended', 'skipped')),
    asked_by text not null check (asked_by <> ''),
    comparison_id text not null unique check (comparison_id <> ''),
    outcome text check (outcome in ('confirmed', 'not_confirmed', 'inconclusive')),
    sentence text not null default '',
    ratio double precision check (ratio > 0),
    low double precision,
    high double precision,
    rounds integer not null default 0 check (rounds >= 0),
    asked_at timestamptz not null default now(),
    until timestamptz,
    ended_at timestamptz,
    detail jsonb not null check (jsonb_typeof(detail) = 'object'),
    check ((state = 'ended') = (outcome is not null)),
    check ((state in ('ended', 'skipped')) = (ended_at is not null)),
    check (state in ('wanted', 'running') or sentence <> '')
);
-- Whoever judges a night again asks for nothing twice; a person may ask as often as they like.
create unique index confirmation_once_for_a_night on raw.confirmation (alert_id, run_id)
where asked_by = 'nightbench';
create index confirmation_by_run on raw.confirmation (run_id);
comment on table raw.confirmation is
'A suspected regression measured again: the last good build and the night''s, in pairs';
comment on column raw.confirmation.run_id is 'The night whose verdict is doubted';
comment on column raw.confirmation.asked_by is 'nightbench, or the person';
comment on column raw.confirmation.comparison_id is
'Its launches in the spool: <id> and <id>-other';
comment on column raw.confirmation.sentence is 'What came out, or why it was not measured';
comment on column raw.confirmation.ratio is
'Candidate / last good, throughput; its 95 % interval beside it';
comment on column raw.confirmation.rounds is
'Pairs (or launches, of one build alone) that counted';
comment on column raw.confirmation.until is
'Nothing is launched that cannot end by then, and the night''s message waits no longer';
comment on column raw.confirmation.detail is
'Builds, versions, levels, nodes, what it is expected to take; the rounds once it has ended';
