-- Subjects of results: clusters, runs, builds, cases, series, fingerprints. Facts refer to them by
-- integer keys; people, pages and alerts name them by their ids.
create table raw.cluster (
    cluster text primary key check (cluster <> ''),
    description text not null default '',
    device_kind text not null,
    devices_per_node integer not null check (devices_per_node >= 1),
    nodes text[] not null check (cardinality(nodes) >= 1),
    shared boolean not null
);
comment on table raw.cluster is 'Clusters as their YAML last described them';
comment on column raw.cluster.cluster is 'Name';
comment on column raw.cluster.description is 'Description in a sentence';
comment on column raw.cluster.device_kind is 'cpu or gpu';
comment on column raw.cluster.devices_per_node is 'Devices of each node';
comment on column raw.cluster.nodes is 'Names of the nodes';
comment on column raw.cluster.shared is
'Nodes share hardware: spread, drift and efficiency only warn';

create table raw.run (
    run_key integer generated always as identity primary key,
    run_id text not null unique check (run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$'),
    suite text not null check (suite <> ''),
    cluster text not null check (cluster <> ''),
    run_kind text not null default 'nightly'
    check (run_kind in ('nightly', 'on_demand', 'confirm', 'backfill', 'drill', 'acceptance')),
    started_at timestamptz not null,
    requested_by text not null default '' check (raw.is_plain(requested_by, 200)),
    dag_id text,
    dag_run_id text,
    code_digest text not null default '',
    env jsonb check (jsonb_typeof(env) = 'object'),
    origin text not null default 'nightbench' check (origin in ('nightbench', 'import')),
    loaded_at timestamptz,
    checks_digest text not null default ''
);
create index run_by_suite on raw.run (suite, started_at desc);
create index run_by_cluster on raw.run (cluster, started_at desc);
create index run_by_start on raw.run (started_at desc);
create index run_by_dag_run on raw.run (dag_id, dag_run_id);
create index run_of_acceptance on raw.run (cluster, started_at desc)
where run_kind = 'acceptance';
comment on table raw.run is 'One execution of a suite on a cluster';
comment on column raw.run.run_key is 'Key to which facts refer';
comment on column raw.run.run_id is 'Id of the run';
comment on column raw.run.suite is 'Suite that was executed';
comment on column raw.run.cluster is 'Cluster that it ran on';
comment on column raw.run.run_kind is 'Purpose of the run; only nightly runs count for baselines';
comment on column raw.run.started_at is
'Start of the run; it never changes, because it selects the monthly partition of the facts';
comment on column raw.run.requested_by is
'User who requested the run; empty for scheduled and imported runs';
comment on column raw.run.dag_id is 'Airflow''s DAG; null if it was no DAG run';
comment on column raw.run.dag_run_id is 'Airflow''s DAG run; null if it was none';
comment on column raw.run.code_digest is 'Digest of the benchmark code that was shipped';
comment on column raw.run.env is
'Environment variables that the cluster and the suite set, by name or role.name; null: unknown';
comment on column raw.run.origin is 'nightbench, or import for imported older results';
comment on column raw.run.loaded_at is 'When results were first loaded; null while only planned';
comment on column raw.run.checks_digest is
'Digest of the checks that judged it when it was loaded last; empty for imports';

create table raw.build (
    build_key integer generated always as identity primary key,
    build_id text not null unique check (build_id <> ''),
    line text not null check (line <> ''),
    variant text not null,
    source text not null check (source in ('index', 'wheel', 'path', 'image')),
    version text,
    location text,
    digest text
);
comment on table raw.build is 'Builds of framework lines: an attribute of a run, never of a case';
comment on column raw.build.build_key is 'Key to which facts refer';
comment on column raw.build.build_id is 'Id of the build';
comment on column raw.build.line is 'Framework line';
comment on column raw.build.variant is 'cpu, cuda12, ...';
comment on column raw.build.source is 'index, wheel, path of a prepared environment, or image';
comment on column raw.build.version is 'Requested version; null if the source determines it';
comment on column raw.build.location is 'Path of the wheel, prefix on the nodes, or image';
comment on column raw.build.digest is 'sha256 of the wheel or image';

-- nightbench.warehouse.columns adds a generated column for each axis, with its comment.
create table raw."case" (
    case_key integer generated always as identity primary key,
    case_id text not null unique check (case_id <> ''),
    axes jsonb not null check (jsonb_typeof(axes) = 'object'),
    mode text not null,
    unique (case_key, case_id)
);
comment on table raw."case" is 'A case: a workload in a framework, with every axis';
comment on column raw."case".case_key is 'Key to which series refer';
comment on column raw."case".case_id is 'Its name, made from the axes and nothing else';
comment on column raw."case".axes is
'Every axis of the case by name; to compare the values of one axis, all others must agree';
comment on column raw."case".mode is
'Strategy, then what is not the default of synchronisation, precision, compiler, execution, '
'layout, compression, how work is split, what is kept and tuning, such as `single bf16 xla`';

create table raw.series (
    series_key integer generated always as identity primary key,
    case_key integer not null,
    case_id text not null,
    cluster text not null check (cluster <> ''),
    unique (case_id, cluster),
    foreign key (case_key, case_id) references raw."case" (case_key, case_id)
);
create index series_by_case on raw.series (case_key);
create index series_by_cluster on raw.series (cluster);
comment on table raw.series is 'A case on a cluster: one line of history';
comment on column raw.series.series_key is 'Key to which facts refer';
comment on column raw.series.case_key is 'The case';
comment on column raw.series.case_id is 'Name of the case: with the cluster the name of the series';
comment on column raw.series.cluster is 'Cluster that it is measured on';

create table raw.fingerprint (
    fingerprint_id text primary key check (fingerprint_id <> ''),
    document jsonb not null check (jsonb_typeof(document) = 'object')
);
comment on table raw.fingerprint is 'Hardware and software of a node as found, once for each state';
comment on column raw.fingerprint.fingerprint_id is
'Digest of the fields that change only with the hardware or software of the node';
comment on column raw.fingerprint.document is 'nightbench.fingerprint/1, as the node wrote it';
