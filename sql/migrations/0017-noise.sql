-- A series that varies too much runs on and alerts no more until it is steady again.
create table raw.noise_event (
    case_id text not null check (case_id <> ''),
    cluster text not null check (cluster <> ''),
    run_id text not null references raw.run (run_id),
    at timestamptz not null,
    what text not null check (what in ('noisy', 'steady')),
    spread double precision not null check (spread >= 0 and spread < 'infinity'),
    max_spread double precision not null check (max_spread > 0),
    sentence text not null check (sentence <> ''),
    by_whom text not null default 'nightbench' check (by_whom <> ''),
    told_at timestamptz,
    stored_at timestamptz not null default clock_timestamp(),
    -- A run that is judged again says what it said: one turn for each series and night.
    primary key (case_id, cluster, run_id)
);
create index noise_event_by_run on raw.noise_event (run_id);
comment on table raw.noise_event is
'When a series became noisy and when it was steady again: only ever added to';
comment on column raw.noise_event.at is 'When the night began';
comment on column raw.noise_event.spread is
'Relative standard deviation, from night to night or within a night, the larger one';
comment on column raw.noise_event.max_spread is 'The suite''s limit then';
comment on column raw.noise_event.told_at is
'When a channel took the message that tells of it, or there was no channel';

create function triage.refuse_noise_rewriting() returns trigger
language plpgsql as $$
begin
    raise exception using message = 'the history of noisy series is only ever added to';
end
$$;
create trigger no_removing before delete or truncate on raw.noise_event
for each statement execute function triage.refuse_noise_rewriting();
-- That it was told is the one thing that is written afterwards.
create trigger no_rewriting before update of
case_id, cluster, run_id, at, what, spread, max_spread, sentence, by_whom, stored_at
on raw.noise_event
for each statement execute function triage.refuse_noise_rewriting();
revoke execute on function triage.refuse_noise_rewriting from public;
revoke update on raw.noise_event from nightbench_loader;
grant update (told_at) on raw.noise_event to nightbench_loader;
