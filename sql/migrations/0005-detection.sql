-- Findings of nights in addition to verdicts: noise, drift, and the grades of the detector.
create table raw.noise_event (
    case_id text not null,
    cluster text not null,
    run_id text not null references raw.run (run_id),
    at timestamptz not null,
    what text not null check (what in ('noisy', 'steady')),
    spread double precision not null check (spread >= 0 and spread < 'infinity'),
    max_spread double precision not null check (max_spread > 0),
    sentence text not null check (sentence <> ''),
    by_whom text not null default 'nightbench' check (by_whom <> ''),
    -- A run that is judged again says what it said: one turn for each series and night.
    primary key (case_id, cluster, run_id),
    foreign key (case_id, cluster) references raw.series (case_id, cluster)
);
create index noise_event_by_run on raw.noise_event (run_id);
comment on table raw.noise_event is
'Times at which a series became noisy or steady; append-only';
comment on column raw.noise_event.at is 'When the night began';
comment on column raw.noise_event.spread is
'Relative standard deviation, from night to night or within a night, the larger one';
comment on column raw.noise_event.max_spread is 'The suite''s limit then';
comment on column raw.noise_event.case_id is
'Case of the series; with cluster, the key of the series';
comment on column raw.noise_event.cluster is
'Cluster of the series; with case_id, the key of the series';
comment on column raw.noise_event.run_id is 'Run of the night';
comment on column raw.noise_event.what is 'noisy, or steady (a drop opens an alert again)';
comment on column raw.noise_event.sentence is 'The evidence';
comment on column raw.noise_event.by_whom is 'nightbench, or the user';

create function triage.refuse_noise_rewriting() returns trigger
language plpgsql as $$
begin
    raise exception using message = 'the history of noisy series is only ever added to';
end
$$;
create trigger append_only before update or delete or truncate on raw.noise_event
for each statement execute function triage.refuse_noise_rewriting();
revoke execute on function triage.refuse_noise_rewriting from public;
revoke update on raw.noise_event from nightbench_loader;

-- A series that drifts for weeks is reported once, and again when it has drifted further. No night
-- of it is a change, so it is no alert.
create table raw.drift (
    case_id text not null,
    cluster text not null,
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
    -- A run that is judged again says what it said: one drift for each series and night.
    primary key (case_id, cluster, run_id),
    foreign key (case_id, cluster) references raw.series (case_id, cluster),
    check ((over_run_id is null) = (over_at is null))
);
create unique index drift_live on raw.drift (case_id, cluster) where over_at is null;
create index drift_by_run on raw.drift (run_id);
comment on table raw.drift is
'Nights on which a series was found to drift, or to drift further; at most one row of a '
'series is current';
comment on column raw.drift.at is 'Start of the first night that reported it';
comment on column raw.drift.level is
'Median of the last nights at that time; the growth of the drift is measured from it';
comment on column raw.drift.is_news is
'Whether the drop is at least the suite''s limit, so that a message is sent';
comment on column raw.drift.change is
'Relative change over the nights of the drift, as computed on the night of seen_run_id';
comment on column raw.drift.error is 'Standard error of change';
comment on column raw.drift.nights is
'Number of nights from the first night of the drift to the night of seen_run_id';
comment on column raw.drift.since is 'Start of the first night of the drift';
comment on column raw.drift.seen_at is 'Start of the last night that still drifted';
comment on column raw.drift.over_at is
'Start of the night that ended it: the series no longer drifts, has drifted further, or changed '
'direction';
comment on column raw.drift.case_id is 'Case of the series; with cluster, the key of the series';
comment on column raw.drift.cluster is 'Cluster of the series; with case_id, the key of the series';
comment on column raw.drift.run_id is 'Run of the first night that reported it';
comment on column raw.drift.seen_run_id is 'Run of the last night that still drifted';
comment on column raw.drift.over_run_id is 'Run of the night that ended it; null while it lasts';

-- The detector grades itself on synthetic series. Nothing here is a measurement, a verdict on a
-- real series, or an alert.
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
    primary key (run_id, measure)
);
comment on table raw.detector_grade is
'Quality of the detector on a suite in the 90 days up to a night';
comment on column raw.detector_grade.measure is 'Size class of injected slowdowns, or false alarms';
comment on column raw.detector_grade.trials is
'Number of injected slowdowns except spoiled slowdowns, or number of nights of copies without a '
'change';
comment on column raw.detector_grade.hits is 'Number of detected slowdowns, or of false alarms';
comment on column raw.detector_grade.rate is
'hits / trials; for false alarms, their number in 1,000 nights';
comment on column raw.detector_grade.median_delay is
'Nights after the first slow one until a slowdown was detected; 0 on that night';
comment on column raw.detector_grade.below is 'Why the grade is not good enough; empty if it is';
comment on column raw.detector_grade.is_news is
'Whether the grade is not good enough and the previous one was, or there was none: it is reported';
comment on column raw.detector_grade.run_id is 'Run of the night';
comment on column raw.detector_grade.low is 'Lower end of the 95 % interval of rate';
comment on column raw.detector_grade.high is 'Upper end of the 95 % interval of rate';
comment on column raw.detector_grade.spoiled is
'Slowdowns that do not count: the real series changed';
comment on column raw.detector_grade.limit_value is
'Smallest power, or largest rate of false alarms, that is good enough; null without a limit';
