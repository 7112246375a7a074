-- What was made of the results.
create table raw.verdict (
    run_id text not null,
    case_id text not null,
    cluster text not null,
    kind text not null
    check (
        kind in ('ok', 'regressed', 'improved', 'insufficient_data', 'failed', 'missing')
    ),
    sentence text not null,
    value double precision,
    baseline double precision,
    change double precision,
    history integer not null default 0 check (history >= 0),
    primary key (run_id, case_id),
    foreign key (run_id, case_id) references raw.planned_case (run_id, case_id)
);
comment on table raw.verdict is 'What a run says about a series, with the evidence in a sentence';
comment on column raw.verdict.value is 'Throughput of this run, units of work per second';
comment on column raw.verdict.baseline is 'What it was compared with, units of work per second';
comment on column raw.verdict.change is 'value / baseline - 1';
comment on column raw.verdict.history is 'Nights that the verdict rests on';

create table raw.alert (
    alert_id bigint generated always as identity primary key,
    case_id text not null,
    cluster text not null,
    kind text not null,
    state text not null default 'open'
    check (state in ('open', 'acknowledged', 'resolved', 'dismissed')),
    sentence text not null,
    value double precision,
    baseline double precision,
    change double precision,
    opened_run_id text not null references raw.run (run_id),
    opened_at timestamptz not null default now(),
    last_run_id text not null references raw.run (run_id),
    resolved_run_id text references raw.run (run_id),
    closed_at timestamptz,
    unique (case_id, cluster, opened_run_id),
    check ((closed_at is null) = (state in ('open', 'acknowledged')))
);
create unique index alert_one_open_for_each_series on raw.alert (case_id, cluster)
where state in ('open', 'acknowledged');
comment on table raw.alert is
'A verdict that somebody must see, and its life: one live alert for each series';
comment on column raw.alert.last_run_id is 'Latest run that said the same';
