-- What was planned: clusters, runs, builds, and one row for each case of a run.
create table raw.cluster (
    cluster text primary key check (cluster <> ''),
    description text not null default '',
    device_kind text not null,
    devices_per_node integer not null check (devices_per_node >= 1),
    nodes text[] not null check (cardinality(nodes) >= 1),
    shared boolean not null
);
comment on table raw.cluster is 'Clusters as their YAML last described them';
comment on column raw.cluster.nodes is 'Names of the nodes';
comment on column raw.cluster.shared is
'Nodes share hardware: spread, drift and efficiency only warn';

create table raw.run (
    run_id text primary key check (run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$'),
    suite text not null check (suite <> ''),
    cluster text not null check (cluster <> ''),
    run_kind text not null default 'nightly'
    check (run_kind in ('nightly', 'on_demand', 'confirm', 'backfill', 'drill')),
    started_at timestamptz not null,
    requested_by text not null default '',
    dag_id text,
    dag_run_id text,
    code_digest text not null default '',
    origin text not null default 'nightbench' check (origin in ('nightbench', 'import')),
    loaded_at timestamptz
);
create index run_by_suite on raw.run (suite, started_at desc);
create index run_by_cluster on raw.run (cluster, started_at desc);
comment on table raw.run is 'One execution of a suite on a cluster';
comment on column raw.run.run_kind is 'Why the run was made; only nightly feeds baselines';
comment on column raw.run.code_digest is 'Digest of the benchmark code that was shipped';
comment on column raw.run.origin is 'nightbench, or import for a site''s older results';
comment on column raw.run.loaded_at is 'When results were first loaded; null while only planned';

create table raw.build (
    build_id text primary key check (build_id <> ''),
    line text not null check (line <> ''),
    variant text not null,
    source text not null check (source in ('index', 'wheel', 'path')),
    version text,
    location text,
    digest text
);
comment on table raw.build is 'Builds of framework lines: an attribute of a run, never of a case';
comment on column raw.build.location is 'Wheel''s path on the controller, or prefix on nodes';
comment on column raw.build.digest is 'sha256 of the wheel';

create table raw.planned_case (
    run_id text not null references raw.run (run_id),
    case_id text not null check (case_id <> ''),
    axes jsonb not null check (jsonb_typeof(axes) = 'object'),
    build_id text not null references raw.build (build_id),
    unit text,
    definition_digest text not null default '',
    workload text not null generated always as (axes ->> 'workload') stored,
    framework text not null generated always as (axes ->> 'framework') stored,
    strategy text not null generated always as (axes ->> 'strategy') stored
    check (strategy in ('single', 'collective', 'parameter_server')),
    nodes integer not null generated always as ((axes ->> 'nodes')::integer) stored
    check (nodes >= 1),
    devices_per_node integer not null
    generated always as ((axes ->> 'devices_per_node')::integer) stored
    check (devices_per_node >= 1),
    trainers integer not null generated always as ((axes ->> 'trainers')::integer) stored
    check (trainers >= 1),
    pservers integer not null generated always as ((axes ->> 'pservers')::integer) stored
    check (pservers >= 0),
    batch_size_per_device integer not null
    generated always as ((axes ->> 'batch_size_per_device')::integer) stored
    check (batch_size_per_device >= 1),
    precision text not null generated always as (axes ->> 'precision') stored,
    sync text not null generated always as (axes ->> 'sync') stored,
    compiler text not null generated always as (axes ->> 'compiler') stored,
    compression text not null generated always as (axes ->> 'compression') stored,
    data text not null generated always as (axes ->> 'data') stored,
    scale text not null generated always as (axes ->> 'scale') stored,
    primary key (run_id, case_id)
);
create index planned_case_by_case on raw.planned_case (case_id);
comment on table raw.planned_case is
'One row for each case that a run means to measure; without it nothing could be missing';
comment on column raw.planned_case.axes is
'Every axis that changes the work; the columns after it are taken from it';
comment on column raw.planned_case.unit is 'Unit of work counted: images, samples, tokens';
comment on column raw.planned_case.definition_digest is
'Digest of workload and protocol; a change starts a new segment of the history';
comment on column raw.planned_case.trainers is 'Data-parallel ranks';
