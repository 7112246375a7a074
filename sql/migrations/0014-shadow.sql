-- The detector grades itself: what it says of shadow series, and the grades that follow. Nothing
-- here is a measurement, a verdict on a real series, or an alert.
create table raw.shadow_verdict (
    suite text not null check (suite <> ''),
    case_id text not null check (case_id <> ''),
    cluster text not null check (cluster <> ''),
    month date not null,
    shadow text not null check (shadow <> ''),
    night integer not null check (night >= 0),
    run_id text not null references raw.run (run_id),
    at timestamptz not null,
    size double precision check (size > 0 and size < 1),
    kind text not null check (kind in ('ok', 'regressed', 'improved', 'insufficient_data')),
    change double precision,
    since timestamptz,
    outcome text check (outcome in ('caught', 'missed', 'spoiled', 'alarm')),
    primary key (suite, cluster, case_id, month, shadow, night),
    check ((size is null) = starts_with(shadow, 'quiet-')),
    check (outcome is null or (outcome = 'alarm') = (size is null))
);
create index shadow_verdict_by_night on raw.shadow_verdict (suite, cluster, at);
comment on table raw.shadow_verdict is
'One night of one shadow: a copy of a real series with a planted slowdown, or with no change';
comment on column raw.shadow_verdict.month is 'First day of the month that the shadow belongs to';
comment on column raw.shadow_verdict.shadow is 'Size class of the slowdown, or quiet-1, ...';
comment on column raw.shadow_verdict.night is
'From 0: since the first slow night, or since the first judged night of a quiet copy';
comment on column raw.shadow_verdict.run_id is 'Run of the real night that it copies';
comment on column raw.shadow_verdict.size is 'Share by which it was made slower; null where quiet';
comment on column raw.shadow_verdict.outcome is
'On the night that decided it; spoiled: the real series changed there, it says nothing';

create table raw.detector_grade (
    run_id text not null references raw.run (run_id),
    measure text not null check (measure <> ''),
    trials integer not null check (trials >= 0),
    hits integer not null check (hits >= 0),
    rate double precision,
    low double precision,
    high double precision,
    median_delay double precision,
    spoiled integer not null default 0 check (spoiled >= 0),
    limit_value double precision,
    below text not null default '',
    is_news boolean not null default false,
    told_at timestamptz,
    primary key (run_id, measure)
);
comment on table raw.detector_grade is 'How well a suite''s detector did up to a night';
comment on column raw.detector_grade.measure is 'Size class of planted slowdowns, or false alarms';
comment on column raw.detector_grade.trials is
'Planted slowdowns that were decided, or nights of quiet copies';
comment on column raw.detector_grade.hits is 'Slowdowns that were told, or false alarms';
comment on column raw.detector_grade.rate is 'hits / trials; false alarms: in 1,000 nights';
comment on column raw.detector_grade.median_delay is
'Nights after the first slow one until a slowdown was told; 0 on that night';
comment on column raw.detector_grade.below is 'Why it is not good enough; empty where it is';
comment on column raw.detector_grade.is_news is 'It was good enough the night before';
comment on column raw.detector_grade.told_at is 'When a message said so';
