-- What a night measured beside a reference build: both raw series, apart from the results of nights.
create table raw.night_pair (
    run_id text not null references raw.run (run_id),
    case_id text not null references raw."case" (case_id),
    reference text not null check (reference <> ''),
    build jsonb not null check (jsonb_typeof(build) = 'object'),
    is_bridge boolean not null,
    n integer not null check (n >= 0),
    night_throughput double precision check (night_throughput > 0),
    reference_throughput double precision check (reference_throughput > 0),
    ratio double precision check (ratio > 0),
    low double precision,
    high double precision,
    spread double precision check (spread >= 0),
    pairs jsonb not null check (jsonb_typeof(pairs) = 'array'),
    why text,
    machine text check (machine in ('ok', 'watched', 'regressed', 'improved', 'insufficient_data')),
    machine_sentence text,
    primary key (run_id, case_id, reference),
    check ((n > 0) = (ratio is not null))
);
create index night_pair_by_case on raw.night_pair (case_id);
comment on table raw.night_pair is
'A case of a run, launched in turn with a reference build of its line on the same nodes';
comment on column raw.night_pair.run_id is 'Run whose build is measured';
comment on column raw.night_pair.case_id is 'Case that both builds ran';
comment on column raw.night_pair.reference is 'build_id of the reference';
comment on column raw.night_pair.build is 'The reference as it can be measured again';
comment on column raw.night_pair.is_bridge is
'The reference before, measured on the night of a change of reference alone';
comment on column raw.night_pair.n is 'Pairs of launches; 0: why says the reason';
comment on column raw.night_pair.night_throughput is
'Median over the pairs of the night''s build, in units of work per second';
comment on column raw.night_pair.reference_throughput is 'The same of the reference';
comment on column raw.night_pair.ratio is
'The night''s build over the reference: geometric mean of the pairs';
comment on column raw.night_pair.low is 'With high the 95 % interval of ratio';
comment on column raw.night_pair.high is 'Its other end';
comment on column raw.night_pair.spread is '(maximum - minimum) / median of the pairs'' ratios';
comment on column raw.night_pair.pairs is
'Each pair: throughput of both builds, and which was launched first';
comment on column raw.night_pair.why is 'Why there are no pairs, or fewer than planned';
comment on column raw.night_pair.machine is
'Verdict on the reference''s own series: the machine''s';
comment on column raw.night_pair.machine_sentence is 'The same with its figures';
