-- Causes of alerts, and the changes that many series of a night share.
create table raw.alert_cause (
    alert_id bigint not null references raw.alert (alert_id),
    run_id text not null references raw.run (run_id),
    kind text not null
    check (
        kind in (
            'node', 'network', 'neighbour', 'thermal', 'driver', 'framework_version',
            'benchmark_code', 'environment', 'unexplained'
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
    primary key (alert_id, run_id)
);
create index alert_cause_by_group on raw.alert_cause (group_key) where group_key <> '';
comment on table raw.alert_cause is
'Cause of an alert, by evidence: one row for each run that examined it';
comment on column raw.alert_cause.suspect is
'Suspect: a node, a pair of versions, changed fields; empty: none';
comment on column raw.alert_cause.evidence is
'Evidence for the cause, against it, for a rival, and other facts: each {text, is_against, rival}';
comment on column raw.alert_cause.group_key is
'Key that is equal for alerts of one cause: same cluster, kind and suspect, at most a night '
'apart. Empty if the alert is not in a group';
comment on column raw.alert_cause.night is 'Day of the first bad night';
comment on column raw.alert_cause.at is 'Time at which the cause was determined';
comment on column raw.alert_cause.alert_id is 'Number of the alert';
comment on column raw.alert_cause.run_id is 'Run whose verdicts requested the cause';
comment on column raw.alert_cause.kind is 'The cause; unexplained where none explains it';
comment on column raw.alert_cause.sentence is 'The cause in words';
comment on column raw.alert_cause.first_bad_run_id is 'First run at the new level';
comment on column raw.alert_cause.last_good_run_id is 'Last run before it';

create table raw.alert_rank (
    alert_id bigint primary key references raw.alert (alert_id),
    severity text not null check (severity in ('high', 'medium', 'low')),
    because text not null check (because <> ''),
    rank double precision not null check (rank >= 0 and rank < 'infinity'),
    place integer not null check (place >= 1)
);
comment on table raw.alert_rank is
'Severity and order of live alerts, as the night that was judged last found them';
comment on column raw.alert_rank.alert_id is 'Number of the alert';
comment on column raw.alert_rank.severity is 'Severity of the alerts of its cause';
comment on column raw.alert_rank.because is 'Reason for the severity';
comment on column raw.alert_rank.rank is
'Order of groups, the lowest first: severity, then the sum of certain losses';
comment on column raw.alert_rank.place is 'Order in its group, from 1 for the worst alert';

create table raw.shared_change (
    run_id text not null references raw.run (run_id),
    factor text not null check (factor in ('cluster', 'node', 'network', 'line', 'workload')),
    name text not null check (name <> ''),
    since date not null,
    change double precision not null check (change > -1 and change < 'infinity'),
    low double precision not null,
    high double precision not null,
    members jsonb not null check (jsonb_typeof(members) = 'object'),
    series integer not null check (series > 0),
    controls integer not null check (controls >= 0),
    controls_changed integer not null check (controls_changed between 0 and controls),
    sentence text not null check (sentence <> ''),
    alert_id bigint references raw.alert (alert_id),
    primary key (run_id, factor, name, since)
);
create index shared_change_by_alert on raw.shared_change (alert_id);
comment on table raw.shared_change is
'A change that many series of a night share by their build, node, cluster, network or workload';
comment on column raw.shared_change.run_id is 'Run of the night with the shared change';
comment on column raw.shared_change.factor is 'Kind of the property that the series share';
comment on column raw.shared_change.name is 'Name of the shared property: the line, the node';
comment on column raw.shared_change.since is 'Day of the first night at the new level';
comment on column raw.shared_change.change is 'Relative change of the level that they share';
comment on column raw.shared_change.low is 'Lower end of the 90 % interval of change';
comment on column raw.shared_change.high is 'Upper end of the 90 % interval of change';
comment on column raw.shared_change.members is
'Case_id of each series that takes part -> its own relative change';
comment on column raw.shared_change.series is
'Number of series that share the property and got a verdict';
comment on column raw.shared_change.controls is 'Control measurements of the same nodes';
comment on column raw.shared_change.controls_changed is
'Number of control measurements that changed';
comment on column raw.shared_change.sentence is 'The verdict in words';
comment on column raw.shared_change.alert_id is
'Alert of the shared change, on one of its series; null for an increase, or if all series are '
'noisy';
