-- What an alert was put down to, each time that it was asked: the latest counts.
create table raw.alert_cause (
    alert_id bigint not null references raw.alert (alert_id),
    run_id text not null references raw.run (run_id),
    kind text not null
    check (
        kind in (
            'node', 'neighbour', 'thermal', 'driver', 'framework_version', 'benchmark_code',
            'unexplained'
        )
    ),
    suspect text not null default '',
    sentence text not null check (sentence <> ''),
    evidence jsonb not null default '[]' check (jsonb_typeof(evidence) = 'array'),
    group_key text not null default '',
    first_bad_run_id text,
    last_good_run_id text,
    night date not null,
    at timestamptz not null default clock_timestamp(),
    primary key (alert_id, run_id),
    check (kind <> 'unexplained' or group_key = '')
);
create index alert_cause_by_group on raw.alert_cause (group_key) where group_key <> '';
comment on table raw.alert_cause is
'What an alert was put down to, by evidence: one row for each run that asked';
comment on column raw.alert_cause.suspect is
'Who or what it was: a node, a pair of versions, changed fields; empty: nobody';
comment on column raw.alert_cause.evidence is
'Sentences: what speaks for it, against it, what else';
comment on column raw.alert_cause.group_key is
'The same for alerts of one cause: cluster, kind and suspect the same, at most a night apart; '
'empty: it stands on its own';
comment on column raw.alert_cause.night is 'Day of the first bad night';
comment on column raw.alert_cause.at is 'When it was found out';
