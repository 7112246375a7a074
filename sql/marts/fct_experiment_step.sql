-- Grain: one row per test of a bisect.
create or replace view marts.fct_experiment_step as
select
    e.experiment_id,
    e.name,
    s.number,
    s.kind,
    s.version,
    s.against,
    s.comparison_id,
    s.status,
    s.result,
    s.why,
    s.ratio,
    s.low,
    s.high,
    s.rounds,
    s.wanted_rounds,
    s.min_effect,
    s.started_at,
    s.ended_at,
    s.spent_s
from raw.experiment as e
cross join
    lateral jsonb_to_recordset(e.result -> 'steps')
        as s (
            number integer,
            kind text,
            version text,
            against text,
            comparison_id text,
            status text,
            result text,
            why text,
            ratio double precision,
            low double precision,
            high double precision,
            rounds integer,
            wanted_rounds integer,
            min_effect double precision,
            started_at timestamptz,
            ended_at timestamptz,
            spent_s double precision
        )
where e.kind = 'bisect' and e.result is not null;

comment on view marts.fct_experiment_step is
'One row per test of a bisect: two versions compared, and what the newer one is';
comment on column marts.fct_experiment_step.number is 'Number of the step, from 1, in order';
comment on column marts.fct_experiment_step.kind is
'check of both ends, search between them, or verify of the answer';
comment on column marts.fct_experiment_step.version is 'Version that was tested';
comment on column marts.fct_experiment_step.against is 'Version that it was compared with';
comment on column marts.fct_experiment_step.comparison_id is
'Folder of its launches in the spool, below comparisons/';
comment on column marts.fct_experiment_step.status is
'running, ended, or void (it ended before it had a result)';
comment on column marts.fct_experiment_step.result is
'good, bad, unsure or skipped; null until it has ended';
comment on column marts.fct_experiment_step.why is 'Why it has this result';
comment on column marts.fct_experiment_step.ratio is
'Throughput of version / throughput of against';
comment on column marts.fct_experiment_step.low is 'Lower end of the 95 % interval of ratio';
comment on column marts.fct_experiment_step.high is 'Upper end of the 95 % interval of ratio';
comment on column marts.fct_experiment_step.rounds is 'Rounds that counted';
comment on column marts.fct_experiment_step.wanted_rounds is 'Rounds that were planned';
comment on column marts.fct_experiment_step.min_effect is
'Smallest drop that makes the version bad';
comment on column marts.fct_experiment_step.started_at is 'When it began';
comment on column marts.fct_experiment_step.ended_at is 'When it ended; null before';
comment on column marts.fct_experiment_step.spent_s is 'Measuring time so far, seconds';
