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
comment on column raw.bisect.bisect_id is 'Its name';
comment on column raw.bisect.alert_id is
'Alert that it is to explain; null where it was asked for by hand';
comment on column raw.bisect.case_id is 'With cluster the series';
comment on column raw.bisect.cluster is 'With case_id the series';
comment on column raw.bisect.suite is 'Suite whose protocol it measures by';
comment on column raw.bisect.line is 'Framework line that is searched';
comment on column raw.bisect.good is 'Version that is taken as good';
comment on column raw.bisect.bad is 'Version that is taken as bad';
comment on column raw.bisect.outcome is
'found; range of versions; spread over several; not_reproduced; untestable; null until it '
'has ended';
comment on column raw.bisect.last_good is 'Newest version that was good; null before one was';
comment on column raw.bisect.first_bad is
'Oldest version that was bad; the answer where outcome is found';
comment on column raw.bisect.sentence is 'The result in words';
comment on column raw.bisect.notes is 'What else is worth knowing of it';
comment on column raw.bisect.budget_s is 'Seconds that it may measure';
comment on column raw.bisect.spent_s is 'Seconds that it has measured';
comment on column raw.bisect.requested_by is 'Who asked for it';
comment on column raw.bisect.started_at is 'When it began';
comment on column raw.bisect.ended_at is 'When it ended; null before';

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
comment on column raw.bisect_step.bisect_id is 'The bisect';
comment on column raw.bisect_step.number is 'From 1, in order';
comment on column raw.bisect_step.kind is
'check of both ends, search between them, or verify of the answer';
comment on column raw.bisect_step.version is 'Version that was tested';
comment on column raw.bisect_step.against is 'Version that it was measured beside';
comment on column raw.bisect_step.result is 'good, bad, unsure or skipped; null until it has ended';
comment on column raw.bisect_step.why is 'Why it has this result';
comment on column raw.bisect_step.low is 'Lower end of the 95 % interval of ratio';
comment on column raw.bisect_step.high is 'Upper end of the 95 % interval of ratio';
comment on column raw.bisect_step.rounds is 'Pairs that counted';
comment on column raw.bisect_step.wanted_rounds is 'Pairs that were planned';
comment on column raw.bisect_step.min_effect is 'Smallest relative change that it looks for';
comment on column raw.bisect_step.started_at is 'When it began';
comment on column raw.bisect_step.ended_at is 'When it ended; null before';
comment on column raw.bisect_step.spent_s is 'Seconds that it measured';
