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
comment on column raw.run.requested_by is 'User who requested the run';
comment on column raw.run.dag_id is 'Airflow''s DAG; null where it was no DAG run';
comment on column raw.run.dag_run_id is 'Airflow''s DAG run; null where it was none';
comment on column raw.run.code_digest is 'Digest of the benchmark code that was shipped';
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

create table raw."case" (
    case_key integer generated always as identity primary key,
    case_id text not null unique check (case_id <> ''),
    workload text not null check (workload <> ''),
    framework text not null check (framework <> ''),
    strategy text not null check (strategy in ('single', 'collective', 'parameter_server')),
    nodes integer not null check (nodes >= 1),
    devices_per_node integer not null check (devices_per_node >= 1),
    trainers integer not null check (trainers >= 1),
    pservers integer not null check (pservers >= 0),
    batch_size_per_device integer check (batch_size_per_device >= 1),
    precision text not null,
    sync text,
    compiler text not null,
    execution text not null,
    layout text not null,
    sequence_length integer check (sequence_length >= 1),
    compression text not null,
    link_bandwidth text not null,
    threads integer check (threads >= 1),
    sparsity double precision,
    cpus integer check (cpus >= 1),
    memory_mb integer check (memory_mb >= 1),
    data text not null,
    scale text not null,
    axes jsonb not null check (jsonb_typeof(axes) = 'object'),
    shard integer not null default 1 check (shard >= 1),
    shard_stage integer check (shard_stage between 1 and 3),
    tensor integer not null default 1 check (tensor >= 1),
    pipeline integer not null default 1 check (pipeline >= 1),
    schedule text check (schedule <> ''),
    micro_batches integer not null default 1 check (micro_batches >= 1),
    recompute text not null default 'none' check (recompute <> ''),
    context integer not null default 1 check (context >= 1),
    expert integer not null default 1 check (expert >= 1),
    state_precision text not null default 'fp32' check (state_precision <> ''),
    tuning text not null default 'default' check (tuning <> ''),
    unique (case_key, case_id)
);
create index case_by_work on raw."case" (workload, framework);
comment on table raw."case" is 'A case: a workload in a framework, with every axis';
comment on column raw."case".case_key is 'Key to which series refer';
comment on column raw."case".case_id is 'Its name, made from the axes and nothing else';
comment on column raw."case".workload is 'Workload that is trained';
comment on column raw."case".framework is 'Framework line that trains it';
comment on column raw."case".strategy is 'single, collective (data parallel) or parameter_server';
comment on column raw."case".nodes is 'Nodes with trainers';
comment on column raw."case".devices_per_node is 'Devices that are used on each node';
comment on column raw."case".trainers is 'Data-parallel ranks';
comment on column raw."case".pservers is 'Parameter servers; 0 without';
comment on column raw."case".batch_size_per_device is
'Samples in a step of one trainer; null: max, the largest that fits';
comment on column raw."case".precision is 'fp32, tf32, bf16 or fp16';
comment on column raw."case".sync is
'How parameter servers are updated: sync, async, half_async, geo; null without servers';
comment on column raw."case".compiler is 'none, xla, inductor, cinn';
comment on column raw."case".execution is 'default, or a way of execution of its framework';
comment on column raw."case".layout is 'Memory layout of activations; default: the framework''s';
comment on column raw."case".sequence_length is 'Tokens of a sample; null where it has none';
comment on column raw."case".compression is 'Compression of gradients: none, or dgc';
comment on column raw."case".link_bandwidth is 'Limit of the network links: full, 1gbit, ...';
comment on column raw."case".threads is 'Threads of each process; null: the framework''s choice';
comment on column raw."case".sparsity is 'Share of the gradients that a compression leaves out';
comment on column raw."case".cpus is 'CPU cores that each process may use; null: all';
comment on column raw."case".memory_mb is 'Memory that each process may use, MiB; null: all';
comment on column raw."case".data is 'synthetic, or what is read';
comment on column raw."case".scale is 'full, as published; smoke, small enough for two cores';
comment on column raw."case".axes is 'All axes in one document: compares everything but one axis';
comment on column raw."case".shard is
'Devices that share a copy of what shard_stage splits; 1: every device holds all';
comment on column raw."case".shard_stage is
'Split parts: 1 optimiser states, 2 gradients as well, 3 parameters as well; null: nothing';
comment on column raw."case".tensor is 'Devices that split each matrix; 1: matrices are not split';
comment on column raw."case".pipeline is 'Devices that split the layers; 1: layers are not split';
comment on column raw."case".schedule is
'Order in which the parts of a batch go through a pipeline, such as 1f1b; null: there is none';
comment on column raw."case".micro_batches is
'Parts of the batch of a step that are computed one after another';
comment on column raw."case".recompute is
'Part of a layer that is computed again for its backward: none, selective or full';
comment on column raw."case".context is
'Devices that split each sequence; 1: sequences are not split';
comment on column raw."case".expert is
'Devices that split the experts of each layer; 1: experts are not split';
comment on column raw."case".state_precision is
'Precision of the stored states of the optimiser: fp32 or bf16';
comment on column raw."case".tuning is
'How switches of its own framework line are set, by a name that the line has; else default';

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
'Digest of the fields that do not change while the node runs';
comment on column raw.fingerprint.document is 'nightbench.fingerprint/1, as the node wrote it';
