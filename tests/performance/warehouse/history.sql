-- The history of the benchmark of the warehouse, made by PostgreSQL itself: straight into the
-- tables, month by month. It rests on the plans of each suite's first night. Drawn are the medians
-- of all nights, and verdicts and closed alerts of the earlier ones; the last :judged nights have
-- none here: judging.py lets the project's own code judge them, open their alerts and explain them.

-- name: prepare#
-- Tables of the generator, beside the warehouse's schemas; the same random numbers every time.
-- Some series fall in the last nights: those of one line and workload on one cluster with a new
-- release, those on one node of another cluster with its controls, and a few for no reason.
select setseed(0.5);
create schema benchmark;
grant usage on schema benchmark to nightbench_owner, nightbench_loader, nightbench_reader;
alter default privileges in schema benchmark grant select on tables
to nightbench_loader, nightbench_reader;

create table benchmark.series as
select
    p.series_key,
    s.case_id,
    r.suite,
    r.cluster,
    c.framework,
    c.trainers,
    p.unit,
    p.definition_digest,
    -- Work, line, devices and precision say how fast a case is; more ranks bring nearly as much more.
    case c.workload
        when 'bert_base' then 120 when 'transformer_base' then 4000 when 'wide_deep' then 9000
        when 'vgg16' then 220 else 380
    end
    * case c.framework
        when 'oneflow' then 1.0 when 'pytorch' then 0.96 when 'paddle3' then 0.9 else 0.78
    end
    * case r.cluster when 'h100' then 2.3 when 'cpu' then 0.04 else 1 end
    * case c.precision when 'bf16' then 1.8 else 1 end
    * case c.compiler when 'xla' then 1.08 else 1 end
    * (c.batch_size_per_device / 32.0) ^ 0.12 * (0.94 + 0.12 * random())
    * c.trainers ^ case c.framework when 'tensorflow2' then 0.85 else 0.95 end as level,
    0.003 + 0.017 * random() as sigma,
    (900 * random())::integer as changes_on,
    case when random() < 0.5 then -0.06 else 0.05 end as change,
    baseline.case_id as baseline_case_id,
    n.node_names,
    -- The cases of a run go one after another, within five hours.
    least(600, 18000 / count(*) over of_run) as elapsed_s,
    row_number() over (of_run order by p.series_key) - 1 as place,
    fall.nights as fallen_nights,
    fall.share as fallen_by,
    p.series_key % 50 = 0 as is_noisy,
    p.series_key % 70 = 0 as drifts
from raw.planned_case as p
inner join raw.run as r on p.run_key = r.run_key
inner join raw.series as s on p.series_key = s.series_key
inner join raw.case as c on s.case_key = c.case_key
inner join raw.cluster as k on r.cluster = k.cluster
left join raw.case as baseline
    on
        baseline.trainers = 1
        and c.trainers > 1
        and c.axes - '{nodes,trainers}'::text[] = baseline.axes - '{nodes,trainers}'::text[]
-- Its nodes: of the cluster's, in a circle.
cross join lateral (
    select array_agg(k.nodes[1 + (p.series_key + i) % cardinality(k.nodes)] order by i) as node_names
    from generate_series(0, c.nodes - 1) as i
) as n
cross join lateral (
    select
        case
            when r.cluster = 'h100' and c.framework = 'oneflow' and c.workload = 'vgg16' then 4
            when 'cpu-3' = any(n.node_names) then 3
            when p.series_key % 150 = 7 then 3
            else 0
        end as nights,
        case when r.cluster = 'h100' then 0.06 when r.cluster = 'cpu' then 0.11 else 0.08 end
            as share
) as fall
window of_run as (partition by p.run_key);
alter table benchmark.series add primary key (series_key);

-- What ranks of a hundred steps write: a few, each used by many ranks.
create table benchmark.steps as
select
    n as number,
    array_agg(0.02 * exp(random_normal(0, 0.01)) order by i) as step_seconds,
    array_agg(100 + 0.02 * i + 0.001 * random() order by i) as step_end_s,
    array_agg(6.9 - 0.001 * i + 0.01 * random() order by i) as loss_window
from generate_series(0, 63) as n, generate_series(1, 100) as i
group by n;

create unlogged table benchmark.result (
    run_key integer,
    series_key integer,
    run_at timestamptz,
    number integer,
    build_key integer,
    version text,
    fate text,
    level double precision,
    value double precision,
    half_spread double precision,
    is_changed boolean
);

-- name: store_runs(nights)
-- Runs of all nights, builds of all versions, fingerprints of all states of nodes.
with runs as (
    insert into raw.run (run_id, suite, cluster, started_at, code_digest, loaded_at)
    select
        format('%%s-%%s-0a1b', r.suite, to_char(at.time at time zone 'utc', 'YYYYMMDD"T"HH24MISS')),
        r.suite,
        r.cluster,
        at.time,
        'code-' || n.number / 30,
        at.time + interval '3 hours'
    from raw.run as r, generate_series(1, :nights::integer - 1) as n (number)
    cross join lateral (select r.started_at + n.number * interval '1 day' as time) as at
    order by n.number
),

builds as (
    insert into raw.build (build_id, line, variant, source, version)
    select
        format('%%s-cu126-index-2.%%s', f.line, n.number),
        f.line,
        'cu126',
        'index',
        '2.' || n.number
    from (select distinct framework as line from benchmark.series) as f,
        generate_series(0, :nights / 45 + 2) as n (number)
    on conflict do nothing
)

insert into raw.fingerprint (fingerprint_id, document)
select
    format('fp-%%s-%%s-%%s', c.cluster, n.node, s.state),
    jsonb_build_object(
        'schema', 'nightbench.fingerprint/1', 'node', n.node, 'kernel', '6.8.0-' || s.state,
        'driver', '550.' || s.state / 2, 'cpu', jsonb_build_object('model', 'Xeon', 'cores', 64)
    )
from raw.cluster as c
cross join unnest(c.nodes) as n (node)
cross join generate_series(0, :nights / 120 + 2) as s (state)
on conflict do nothing
returning 1 as is_done;

-- name: number_runs#
create table benchmark.run as
select
    run_key,
    started_at as run_at,
    suite,
    cluster,
    (dense_rank() over (order by started_at::date) - 1)::integer as number
from raw.run;
create index on benchmark.run (run_at);
analyze benchmark.run, benchmark.series, benchmark.steps;
update raw.run set loaded_at = started_at + interval '3 hours' where loaded_at is null;

-- name: months()
-- The months of the runs, oldest first.
select distinct date_trunc('month', run_at) as month
from benchmark.run
order by month;

-- name: draw_results!
-- What became of each planned case of a month. A fallen series varies less, as behind a limit.
insert into benchmark.result
select
    r.run_key,
    s.series_key,
    r.run_at,
    r.number,
    b.build_key,
    b.version,
    f.fate,
    o.level,
    case when f.fate in ('ok', 'quarantined') then
        o.level * case when o.has_fallen then 1 - s.fallen_by else 1 end
        * exp(o.sigma * random_normal())
    end,
    0.5 * (0.001 + o.sigma * abs(random_normal(2.7, 0.3))),
    o.is_changed and r.number = s.changes_on
from benchmark.run as r
inner join benchmark.series as s on r.suite = s.suite and r.cluster = s.cluster
-- A new release came with the last four nights.
inner join raw.build as b
    on
        b.build_id = format(
            '%%s-cu126-index-2.%%s', s.framework, (r.number + 45 - (:nights - 4) %% 45) / 45
        )
cross join lateral (
    -- Lateral to both: drawn for each.
    select random() as u
    where r.number >= 0 and s.series_key >= 0
) as drawn
cross join lateral (
    select
        case
            -- Of the last nights it is the falls that are to be seen.
            when r.number >= :nights - 4 and s.series_key %% 12 <> 0 then 'ok'
            when drawn.u < 0.004 then 'failed'
            when drawn.u < 0.006 then 'left_out'
            when drawn.u < 0.009 then 'missing'
            when drawn.u < 0.013 then 'quarantined'
            else 'ok'
        end as fate
) as f
cross join lateral (
    select
        -- The last forty nights have no change but the falls.
        r.number >= s.changes_on and s.changes_on < :nights - 40 as is_changed,
        r.number >= :nights - s.fallen_nights as has_fallen
) as c
cross join lateral (
    select
        c.is_changed,
        c.has_fallen,
        s.level
        * case when c.is_changed then 1 + s.change else 1 end
        * case when s.drifts then exp(-0.0004 * greatest(0, r.number - :nights + 120)) else 1 end
            as level,
        case
            when s.is_noisy and r.number >= :nights - 40 then 0.12
            when c.has_fallen then 0.3 * s.sigma
            else s.sigma
        end as sigma
) as o
where r.run_at >= :month and r.run_at < :month + interval '1 month'
order by r.run_at, r.run_key, s.series_key;

-- name: forget_results#
truncate benchmark.result;

-- name: fill_planned_case!
insert into raw.planned_case (
    run_key, series_key, run_at, build_key, unit, definition_digest, left_out
)
select
    t.run_key,
    t.series_key,
    t.run_at,
    t.build_key,
    s.unit,
    s.definition_digest,
    case when t.fate = 'left_out' then
        '{"code": "night_full", "observed": "600 s", "expected": "12 s left"}'::jsonb
    end
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
on conflict do nothing;

-- name: fill_measurement!
insert into raw.measurement (
    run_at, run_key, series_key, generation, build_key, n, throughput, minimum, maximum, mad,
    spread, half_width, speedup, efficiency, time_to_first_step_s, elapsed_s,
    peak_resident_bytes, run_kind, status, unit, framework_version, definition_digest,
    fingerprint_id, baseline_case_id, node_names, losses, reasons, quarantine_reasons
)
select
    t.run_at,
    t.run_key,
    t.series_key,
    0,
    t.build_key,
    case when t.value is null then 0 else 7 end,
    t.value,
    t.value * (1 - t.half_spread),
    t.value * (1 + t.half_spread),
    t.value * t.half_spread * 2 / 3,
    2 * t.half_spread,
    0.8 * t.half_spread,
    case when s.trainers > 1 then 0.93 * s.trainers end,
    case when s.trainers > 1 then 0.93 end,
    8.5,
    case when t.fate = 'failed' then 40 else s.elapsed_s end,
    4000000000,
    'nightly',
    case when t.fate = 'failed' then 'failed' else 'ok' end,
    s.unit,
    case when t.value is not null then t.version end,
    s.definition_digest,
    case when t.value is not null
        then format('fp-%%s-%%s-%%s', s.cluster, s.node_names[1], (t.number + 120 - (:nights - 60) %% 120) / 120)
        else ''
    end,
    s.baseline_case_id,
    s.node_names,
    -- LOSSES of night.py.
    case when t.value is not null then
        '{"first": [7.5, 7.5], "third": [7.2, 7.2], "early": [7.1, 7.1], "mean": [6.8, 6.8], "long": [6, 6], "again": [5.2, 5.2], '
        '"steps": [100, 100], "mean_of": [10, 10], "conditions": [1, 1]}'::jsonb
    end,
    case when t.fate = 'failed' then format(
        '[{"code": "process_exited", "node": "%%s", "subject": "trainer-0", "observed": "code 1", '
        '"expected": "code 0"}]', s.node_names[1]
    )::jsonb
    else '[]' end,
    case when t.fate = 'quarantined' then
        '[{"code": "check_failed", "subject": "throughput_consistent", "observed": "1.7 %% apart", "expected": "within 1 %%"}]'::jsonb
    end
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
where t.fate not in ('left_out', 'missing');

-- name: fill_measurement_node!
insert into raw.measurement_node (run_at, run_key, series_key, generation, node, fingerprint_id)
select
    t.run_at,
    t.run_key,
    t.series_key,
    0,
    n.node,
    format('fp-%%s-%%s-%%s', s.cluster, n.node, (t.number + 120 - (:nights - 60) %% 120) / 120)
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
cross join lateral unnest(s.node_names) as n (node)
where t.value is not null;

-- name: fill_repeat!
-- Seven launches around the median, in no order.
insert into raw.repeat (
    run_at, run_key, series_key, generation, repeat, started_at, throughput, step_throughput,
    window_s, samples, drift, median_step_s, time_to_first_step_s, loss_first, loss_median,
    peak_resident_bytes, steps, status, slowest_rank, error, reasons
)
select
    t.run_at,
    t.run_key,
    t.series_key,
    0,
    n.repeat,
    t.run_at + (s.place + (n.repeat - 1) / 7.5) * s.elapsed_s * interval '1 second',
    o.throughput,
    o.throughput,
    60,
    60 * o.throughput,
    0.001,
    0.02,
    8.5,
    6.9,
    6.8,
    4000000000,
    case when t.value is not null then 100 end,
    case when t.value is null then 'failed' else 'ok' end,
    'trainer-0',
    case when t.value is null
        then E'Traceback (most recent call last):\nRuntimeError: no memory left'
    end,
    case when t.value is null
        then '[{"code": "process_exited", "subject": "trainer-0", "observed": "code 1", "expected": "code 0"}]'::jsonb
        else '[]'
    end
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
cross join generate_series(1, 7) as n (repeat)
cross join lateral (
    select t.value * (1 + t.half_spread * ((3 * n.repeat) %% 7 - 3) / 3.0) as throughput
) as o
where t.fate in ('ok', 'quarantined') or (t.fate = 'failed' and n.repeat = 1);

-- name: fill_repeat_rank!
-- Ranks with their steps, as long as they are kept.
insert into raw.repeat_rank (
    run_at, run_key, series_key, generation, repeat, rank, samples_per_step, window_open_s,
    window_close_s, window_wall_s, time_to_first_step_s, loss_first, clock_offset_s,
    clock_error_s, parameters, peak_resident_bytes, process, role, node, fingerprint_id,
    weights_digest, precision, versions, step_seconds, step_end_s, loss_window
)
select
    t.run_at,
    t.run_key,
    t.series_key,
    0,
    n.repeat,
    k.rank,
    32,
    100,
    160,
    60,
    8.5,
    6.9,
    -12.5,
    0.001,
    25557032,
    4000000000,
    'trainer-' || k.rank,
    'trainer',
    s.node_names[1 + k.rank %% cardinality(s.node_names)],
    format('fp-%%s-%%s-%%s', s.cluster, s.node_names[1], (t.number + 120 - (:nights - 60) %% 120) / 120),
    repeat('ab', 32),
    'fp32',
    jsonb_build_object('python', '3.11.7', s.framework, t.version),
    p.step_seconds,
    p.step_end_s,
    p.loss_window
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
cross join generate_series(1, 7) as n (repeat)
cross join lateral generate_series(0, s.trainers - 1) as k (rank)
inner join benchmark.steps as p on p.number = (t.run_key + 7 * t.series_key + n.repeat + k.rank) %% 64
where t.value is not null and t.number >= :nights - :nights_of_ranks;

-- name: fill_failed_check!
-- Of quarantined medians.
insert into raw.failed_check (
    run_at, run_key, series_key, generation, repeat, ordinal, subject, check_name,
    severity, observed, expected
)
select
    t.run_at,
    t.run_key,
    t.series_key,
    0,
    0,
    0,
    'measurement',
    c.check_name,
    'fail',
    '0.4 %% apart',
    'within 1 %%'
from benchmark.result as t
cross join unnest('{spread}'::text[]) as c (check_name)
where t.value is not null and t.fate <> 'ok';

-- name: fill_verdict!
-- Of all but the last nights, which are judged: as a detector that knows the drawn levels would.
insert into raw.verdict (
    run_at, run_key, series_key, history, value, baseline, change, low, high,
    smallest_slowdown, since, kind, sentence, training, training_sentence
)
select
    t.run_at,
    t.run_key,
    t.series_key,
    least(t.number, 360),
    t.value,
    o.baseline,
    o.change,
    (1 + o.change) * exp(-2.5 * s.sigma) - 1,
    (1 + o.change) * exp(2.5 * s.sigma) - 1,
    2.5 * s.sigma,
    case when t.is_changed then t.run_at end,
    k.kind,
    format(
        '%%s %%s/s, median of 7, %%s percent from the baseline of %%s nights; most nights '
        'like these lie within %%s percent', round(t.value::numeric, 1), s.unit,
        round((100 * o.change)::numeric, 1), least(t.number, 360),
        round((200 * s.sigma)::numeric, 1)
    ),
    case when t.fate = 'ok' then 'same' end,
    case when t.fate = 'ok' then 'Training is the same.' end
from benchmark.result as t
inner join benchmark.series as s on t.series_key = s.series_key
cross join lateral (
    -- The night of a change is compared with the level before it.
    select t.level / case when t.is_changed then 1 + s.change else 1 end as baseline
) as before
cross join lateral (
    select
        before.baseline,
        t.value / before.baseline - 1 as change
) as o
cross join lateral (
    select
        case
            when t.fate = 'missing' then 'missing'
            when t.fate <> 'ok' then 'failed'
            when t.number < 10 then 'insufficient_data'
            -- A fall that the noise of its night hides is not seen.
            when t.is_changed and ln(1 + o.change) < -2.5 * s.sigma then 'regressed'
            when t.is_changed and ln(1 + o.change) > 2.5 * s.sigma then 'improved'
            else 'ok'
        end as kind
) as k
where t.fate <> 'left_out' and t.number < :nights - :judged;

-- name: fill_nodes!
-- Control measurements, preflights and events of every node and night; one node slows down.
insert into raw.control (
    cluster, node, metric, device, backend, at, run_id, unit, median, minimum, maximum, n
)
select
    r.cluster,
    n.node,
    m.metric,
    'gpu-0',
    'cuda',
    r.started_at,
    r.run_id,
    'GB/s',
    x.value,
    0.99 * x.value,
    1.01 * x.value,
    5
from raw.run as r
inner join benchmark.run as o on r.run_key = o.run_key
inner join raw.cluster as c on r.cluster = c.cluster
cross join unnest(c.nodes) as n (node)
cross join unnest('{matrix_product,memory_copy,all_reduce}'::text[]) as m (metric)
cross join lateral (
    select
        900 * exp(random_normal(0, 0.005)) * length(n.node || m.metric)
        * case when n.node = 'cpu-3' and o.number >= :nights - 3 then 0.88 else 1 end as value
) as x;

insert into raw.node_preflight (
    cluster, node, at, run_id, address, is_reachable, level, findings, document
)
select
    r.cluster,
    n.node,
    r.started_at,
    r.run_id,
    '10.0.0.1',
    true,
    'info',
    '[{"level": "info", "what": "clock", "found": "0.1 s", "expected": "60 s", "advice": "", "device": ""}]',
    '{"schema": "nightbench.preflight/1"}'
from raw.run as r
inner join raw.cluster as c on r.cluster = c.cluster
cross join unnest(c.nodes) as n (node);

insert into raw.node_event (cluster, node, run_id, subject, at, kind, by_whom)
select
    r.cluster,
    n.node,
    r.run_id,
    'preflight',
    r.started_at,
    'clean',
    'nightbench'
from raw.run as r
inner join raw.cluster as c on r.cluster = c.cluster
cross join unnest(c.nodes) as n (node);

insert into raw.node_event (cluster, node, run_id, subject, at, kind, reasons, by_whom)
select
    s.cluster,
    s.node_names[1],
    r.run_id,
    s.case_id || '/g0',
    m.run_at,
    'fault',
    m.reasons,
    'nightbench'
from raw.measurement as m
inner join raw.run as r on m.run_key = r.run_key
inner join benchmark.series as s on m.series_key = s.series_key
where m.status = 'failed';

insert into raw.node_state (cluster, node, state)
select
    c.cluster,
    n.node,
    'ok'
from raw.cluster as c
cross join unnest(c.nodes) as n (node);

-- One node was in quarantine for some nights.
insert into raw.node_state_change (cluster, node, changed_at, state, since, reasons, by_whom)
select
    n.cluster,
    'a100-6',
    n.at,
    n.state,
    n.at,
    '[]',
    'nightbench'
from (
    select
        r.cluster,
        r.started_at as at,
        case o.number when :nights - 12 then 'quarantined' else 'ok' end as state
    from raw.run as r
    inner join benchmark.run as o on r.run_key = o.run_key
    where r.suite = 'training_a100' and o.number in (:nights - 12, :nights - 9)
) as n;

insert into raw.night (
    suite, cluster, scheduled_at, until, due_at, state, sentence, run_id, checked_at
)
select
    suite,
    cluster,
    started_at,
    started_at + interval '1 day',
    started_at + interval '6 hours',
    case when run_key %% 50 = 0 then 'late' else 'met' end,
    'all cases have a result',
    run_id,
    started_at + interval '6 hours'
from raw.run;

-- name: fill_alerts!
-- Closed alerts on the falls of drawn verdicts, and what was noisy or drifted before.
insert into raw.alert (
    case_id, cluster, kind, state, sentence, value, baseline, change, opened_run_id, opened_at,
    last_run_id, resolved_run_id, closed_at, dismissed_as, news_run_id
)
select
    s.case_id,
    s.cluster,
    v.kind,
    x.state,
    v.sentence,
    v.value,
    v.baseline,
    v.change,
    r.run_id,
    v.run_at,
    r.run_id,
    r.run_id,
    v.run_at + interval '10 days',
    case when x.state = 'dismissed' then 'intended' end,
    r.run_id
from raw.verdict as v
inner join raw.run as r on v.run_key = r.run_key
inner join raw.series as s on v.series_key = s.series_key
cross join lateral (
    select case when v.series_key %% 3 = 0 then 'dismissed' else 'resolved' end as state
) as x
where v.kind = 'regressed';

insert into raw.delivery (kind, subject, news, channel, at)
select
    'alert',
    alert_id::text,
    news_run_id,
    '',
    opened_at + interval '1 hour'
from raw.alert
union all
select
    'alert_end',
    alert_id::text,
    resolved_run_id,
    '',
    closed_at + interval '1 day'
from raw.alert
where state = 'resolved';

insert into raw.alert_event (alert_id, what, to_state, by_whom, run_id)
select
    alert_id,
    'opened',
    'open',
    'nightbench',
    opened_run_id
from raw.alert;

insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom)
select
    alert_id,
    'moved',
    'open',
    state,
    'ada'
from raw.alert;

insert into raw.alert_cause (
    alert_id, run_id, kind, suspect, sentence, evidence, group_key, night
)
select
    alert_id,
    opened_run_id,
    'unexplained',
    '',
    'Nothing that was examined changed with it.',
    '[]',
    '',
    opened_at::date
from raw.alert;

insert into raw.noise_event (case_id, cluster, run_id, at, what, spread, max_spread, sentence)
select
    s.case_id,
    s.cluster,
    r.run_id,
    r.started_at,
    x.what,
    0.12,
    0.1,
    x.sentence
from benchmark.series as s
inner join raw.run as r on s.cluster = r.cluster and s.suite = r.suite
inner join benchmark.run as n on r.run_key = n.run_key
cross join lateral (
    values
    (30, 'noisy', 'its night-to-night noise is 12.0%%; the limit is 10.0%%'),
    (50, 'steady', 'it varied by no more than 2.0%% on 5 nights running')
) as x (number, what, sentence)
where s.is_noisy and n.number = x.number and x.number < :nights - 40;

insert into raw.drift (
    case_id, cluster, run_id, at, level, is_news, change, error, nights, since, seen_run_id,
    seen_at, over_run_id, over_at
)
select
    s.case_id,
    s.cluster,
    r.run_id,
    r.started_at,
    s.level,
    true,
    -0.04,
    0.005,
    30,
    r.started_at - interval '30 days',
    r.run_id,
    r.started_at,
    r.run_id,
    r.started_at + interval '20 days'
from benchmark.series as s
inner join raw.run as r on s.cluster = r.cluster and s.suite = r.suite
inner join benchmark.run as n on r.run_key = n.run_key
where s.drifts and n.number %% 60 = 0 and n.number > 0 and n.number < :nights - 160;

-- name: fill_grades!
-- Grades of the detector, one a week.
insert into raw.detector_grade (run_id, measure, trials, hits, rate, low, high)
select
    r.run_id,
    m.measure,
    300,
    290,
    0.967,
    0.94,
    0.98
from raw.run as r
inner join benchmark.run as n on r.run_key = n.run_key
cross join unnest('{3%%,5%%,10%%,false alarms}'::text[]) as m (measure)
where n.number %% 7 = 0;

-- name: date_alerts#
-- Gives what the judged nights did the time of its night: they were all judged just now.
update raw.alert as a set
    opened_at = opened.loaded_at,
    closed_at = case when a.closed_at is not null then ended.loaded_at end
from raw.run as opened, raw.alert as same
left join raw.run as ended on same.resolved_run_id = ended.run_id
where
    a.alert_id = same.alert_id
    and a.opened_run_id = opened.run_id
    and a.opened_at > opened.loaded_at + interval '1 hour';
update raw.alert_event as e set at = r.loaded_at from raw.run as r where e.run_id = r.run_id;
update raw.alert_cause as c set at = r.loaded_at from raw.run as r where c.run_id = r.run_id;

-- name: copy_unpartitioned#
-- Beside raw.measurement: the same rows and indexes in one table.
create table benchmark.measurement (
    like raw.measurement including all excluding generated excluding indexes
);
insert into benchmark.measurement
select * from raw.measurement order by run_at, run_key, series_key;
alter table benchmark.measurement add primary key (run_key, series_key, generation, run_at);
create index on benchmark.measurement (series_key, run_at desc);

-- name: settle#
-- What autovacuum does in time.
vacuum (analyze) raw.run, raw.build, raw.case, raw.series, raw.planned_case, raw.measurement,
raw.measurement_node, raw.repeat, raw.repeat_rank, raw.failed_check, raw.verdict, raw.alert,
raw.alert_event, raw.alert_cause, raw.control, raw.node_event, raw.node_preflight, raw.night,
raw.noise_event, raw.drift, raw.detector_grade, raw.fingerprint,
benchmark.measurement;
