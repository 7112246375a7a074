-- Scheduled nights and their outcomes. Written from the suites' files,
-- so that also a night of which nothing else exists leaves a row.
create table raw.suite_watch (
    suite text primary key check (suite <> ''),
    cluster text not null,
    timetable text not null check (timetable <> ''),
    since timestamptz not null,
    seen_at timestamptz not null
);
comment on table raw.suite_watch is 'Suites with a schedule, as the deadline check last saw them';
comment on column raw.suite_watch.timetable is
'Schedule, hours, budget and deadline, from which the expected nights are computed';
comment on column raw.suite_watch.since is
'Time since which nights of the suite are expected: it was new then, or changed its cluster '
'or schedule';
comment on column raw.suite_watch.suite is 'The suite';
comment on column raw.suite_watch.cluster is 'Cluster that runs the suite';
comment on column raw.suite_watch.seen_at is 'When its file was last read';

create table raw.night (
    suite text not null check (suite <> ''),
    cluster text not null check (cluster <> ''),
    scheduled_at timestamptz not null,
    until timestamptz not null,
    due_at timestamptz not null,
    why text not null default '',
    state text not null
    check (state in ('waiting', 'met', 'late', 'missing', 'paused', 'overtaken')),
    sentence text not null,
    run_id text,
    without text[] not null default '{}',
    is_empty boolean not null default false,
    was_paused boolean not null default false,
    is_silence boolean not null default false,
    missing_at timestamptz,
    ended_at timestamptz,
    checked_at timestamptz not null,
    primary key (suite, cluster, scheduled_at),
    check (due_at > scheduled_at and until > scheduled_at)
);
create index night_unfinished on raw.night (suite, scheduled_at)
where state in ('waiting', 'missing');
comment on table raw.night is
'Nights that are expected by schedules: one row for each suite and time';
comment on column raw.night.until is 'Time of the next run';
comment on column raw.night.run_id is
'The run of the night; no foreign key, as the run may still be in the spool';
comment on column raw.night.without is 'Cases without a result at the last check';
comment on column raw.night.was_paused is
'Whether a check found the DAG paused between start and deadline';
comment on column raw.night.is_silence is
'Whether no suite of the cluster has a result; these nights are reported in one message';
comment on column raw.night.missing_at is
'Time at which the night was found missing; null if it never was';
comment on column raw.night.ended_at is 'Time at which the late results were found';
comment on column raw.night.suite is 'The suite';
comment on column raw.night.cluster is 'Cluster that runs the suite';
comment on column raw.night.scheduled_at is 'Time of the schedule';
comment on column raw.night.due_at is 'Deadline of its results';
comment on column raw.night.why is
'Origin of due_at: the suite''s deadline, or how it was computed';
comment on column raw.night.state is
'waiting, met, missing, late (missing first), paused or overtaken by the run before';
comment on column raw.night.sentence is 'State of the night in a sentence';
comment on column raw.night.is_empty is
'Whether the night is missing and no case of it has a result';
comment on column raw.night.checked_at is 'Time of the last check';

create table raw.deadline_check (
    only_one boolean primary key default true check (only_one),
    checked_at timestamptz not null,
    suites integer not null check (suites >= 0),
    missing integer not null check (missing >= 0)
);
comment on table raw.deadline_check is
'Time of the last check of deadlines, so that the check itself can be monitored';
comment on column raw.deadline_check.only_one is 'Always true: there is one row';
comment on column raw.deadline_check.checked_at is 'When';
comment on column raw.deadline_check.suites is 'Suites with a schedule';
comment on column raw.deadline_check.missing is 'Number of missing nights at that time';
