-- Which version of a framework made a series slower: what was asked, every test, what came out.
create table raw.bisect (
    bisect_id text primary key check (bisect_id <> ''),
    alert_id bigint references raw.alert (alert_id),
    case_id text not null,
    cluster text not null,
    suite text not null,
    line text not null,
    good text not null,
    bad text not null,
    versions text[] not null check (cardinality(versions) >= 2),
    state text not null check (state in ('running', 'stopped', 'ended')),
    outcome text
    check (outcome in ('found', 'range', 'spread', 'not_reproduced', 'untestable')),
    last_good text,
    first_bad text,
    suspects text[] not null default '{}',
    sentence text not null default '',
    notes text[] not null default '{}',
    ratio double precision,
    budget_s double precision not null check (budget_s > 0),
    spent_s double precision not null default 0 check (spent_s >= 0),
    requested_by text not null default '',
    started_at timestamptz not null,
    ended_at timestamptz,
    check ((outcome is null) = (state <> 'ended')),
    check ((ended_at is null) = (state <> 'ended'))
);
create index bisect_by_alert on raw.bisect (alert_id);
comment on table raw.bisect is
'A search for the first bad version of a framework line, by the paired method';
comment on column raw.bisect.versions is 'Ascending; the good one first, the bad one last';
comment on column raw.bisect.state is
'stopped: its budget is used up, or somebody ended it; it can be taken up again';
comment on column raw.bisect.suspects is
'Versions that may be the first bad one; several unless it was found';
comment on column raw.bisect.ratio is
'Throughput of the bad version over the good one, as the first test found it';

create table raw.bisect_step (
    bisect_id text not null references raw.bisect (bisect_id),
    number integer not null check (number > 0),
    kind text not null check (kind in ('check', 'search', 'verify')),
    version text not null,
    against text not null,
    comparison_id text not null,
    status text not null check (status in ('running', 'ended', 'void')),
    result text check (result in ('good', 'bad', 'unsure', 'skipped')),
    why text not null default '',
    ratio double precision,
    low double precision,
    high double precision,
    rounds integer not null default 0 check (rounds >= 0),
    wanted_rounds integer not null check (wanted_rounds > 0),
    min_effect double precision not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    spent_s double precision not null default 0 check (spent_s >= 0),
    primary key (bisect_id, number),
    check ((result is null) = (status <> 'ended'))
);
comment on table raw.bisect_step is 'Two versions beside each other: one test of a bisect';
comment on column raw.bisect_step.comparison_id is 'Its launches in the spool, below comparisons/';
comment on column raw.bisect_step.status is 'void: it was ended before it said anything';
comment on column raw.bisect_step.ratio is 'Throughput of version over against';
