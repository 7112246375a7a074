-- A series that creeps for weeks is told once, and again when it has crept on. No night of it is a
-- change, so it is no alert.
create table raw.drift (
    case_id text not null check (case_id <> ''),
    cluster text not null check (cluster <> ''),
    run_id text not null references raw.run (run_id),
    at timestamptz not null,
    level double precision not null check (level > 0 and level < 'infinity'),
    is_news boolean not null,
    change double precision not null check (change > -1 and change < 'infinity'),
    error double precision not null check (error >= 0 and error < 'infinity'),
    nights integer not null check (nights > 1),
    since timestamptz not null,
    seen_run_id text not null references raw.run (run_id),
    seen_at timestamptz not null,
    over_run_id text references raw.run (run_id),
    over_at timestamptz,
    told_at timestamptz,
    stored_at timestamptz not null default clock_timestamp(),
    -- A run that is judged again says what it said: one drift for each series and night.
    primary key (case_id, cluster, run_id),
    check ((over_run_id is null) = (over_at is null))
);
create unique index drift_standing on raw.drift (case_id, cluster) where over_at is null;
create index drift_by_run on raw.drift (run_id);
comment on table raw.drift is
'When a series was found to creep, and when it had crept on; at most one stands for each series';
comment on column raw.drift.at is 'When the night began that said so first';
comment on column raw.drift.level is
'Median of the last nights then: how far it has crept since is held against it';
comment on column raw.drift.is_news is
'It fell by the suite''s limit or more, so somebody is told';
comment on column raw.drift.change is
'Relative change over its nights, as the night of seen_run_id has it';
comment on column raw.drift.error is 'Standard error of change';
comment on column raw.drift.nights is 'From the first night that creeps to that of seen_run_id';
comment on column raw.drift.since is 'When the first of them began';
comment on column raw.drift.seen_at is 'When the last night began that still crept';
comment on column raw.drift.over_at is
'When the night began that ended it: it creeps no more, has crept on, or turned';
comment on column raw.drift.told_at is
'When a channel took the message that tells of it, or there was no channel';
