-- The state of nodes. No foreign key to raw.run: a look may be stored while the plan of its run
-- still waits in the spool, and a person looks without a run.
create table raw.node_preflight (
    cluster text not null check (cluster <> ''),
    node text not null check (node <> ''),
    at timestamptz not null,
    run_id text not null default '',
    address text not null,
    is_reachable boolean not null,
    level text not null check (level in ('ok', 'info', 'warn', 'fail')),
    findings jsonb not null check (jsonb_typeof(findings) = 'array'),
    problem text,
    document jsonb check (jsonb_typeof(document) = 'object'),
    clock_offset_s double precision,
    clock_error_s double precision check (clock_error_s >= 0),
    wall_error_s double precision check (wall_error_s >= 0),
    orphans_ended integer not null default 0 check (orphans_ended >= 0),
    primary key (cluster, node, at)
);
create index node_preflight_by_time on raw.node_preflight (cluster, at);
create index node_preflight_by_run on raw.node_preflight (run_id) where run_id <> '';
comment on table raw.node_preflight is 'Check of a node before a night, with its findings';
comment on column raw.node_preflight.at is 'Time of the check, by the controller''s clock';
comment on column raw.node_preflight.run_id is
'Run of the preflight; empty if a user requested the check';
comment on column raw.node_preflight.level is
'Level of the most severe finding; ok without findings';
comment on column raw.node_preflight.findings is
'Findings, each with level, what, found, expected, advice and device';
comment on column raw.node_preflight.document is
'nightbench.preflight/1; null if the node could not be looked at';
comment on column raw.node_preflight.clock_offset_s is
'The node''s monotonic clock minus the controller''s, seconds';
comment on column raw.node_preflight.wall_error_s is
'Smallest possible difference between the node''s wall clock and the controller''s, seconds';
comment on column raw.node_preflight.cluster is 'The cluster';
comment on column raw.node_preflight.node is 'The node';
comment on column raw.node_preflight.address is 'Address of the node';
comment on column raw.node_preflight.is_reachable is 'Whether the node answered over SSH';
comment on column raw.node_preflight.problem is
'Why the node could not be checked; null if it could';
comment on column raw.node_preflight.clock_error_s is
'Largest possible error of clock_offset_s, seconds';
comment on column raw.node_preflight.orphans_ended is 'Processes of dead runs that were ended';

create table raw.control (
    cluster text not null check (cluster <> ''),
    node text not null check (node <> ''),
    metric text not null
    check (
        metric in (
            'matrix_product', 'matrix_product_tf32', 'matrix_product_bf16', 'matrix_product_fp16',
            'memory_copy', 'all_reduce', 'all_reduce_in_node', 'all_reduce_gpus'
        )
    ),
    device text not null check (device <> ''),
    backend text not null check (backend <> ''),
    at timestamptz not null,
    run_id text not null default '',
    unit text not null check (unit <> ''),
    median double precision not null check (median > 0 and median < 'infinity'),
    minimum double precision not null check (minimum > 0),
    maximum double precision not null check (maximum < 'infinity'),
    n integer not null check (n >= 1),
    primary key (cluster, node, metric, device, backend, at),
    constraint median_in_range check (median between minimum and maximum)
);
create index control_by_time on raw.control (cluster, at);
create index control_by_run on raw.control (run_id) where run_id <> '';
comment on table raw.control is
'Short control measurements with their own series; they distinguish a slow node from a slow '
'framework';
comment on column raw.control.node is 'The node; n1+n2 where it is between nodes';
comment on column raw.control.device is 'cpu, gpu-0, gpus or network';
comment on column raw.control.backend is
'Software that computed the measurement; values of different backends are not comparable';
comment on column raw.control.median is 'Median in `unit`; higher is better';
comment on column raw.control.cluster is 'The cluster';
comment on column raw.control.metric is
'matrix_product (float32) or matrix_product_tf32, _bf16, _fp16 (tensor cores), memory_copy, '
'all_reduce (between nodes, TCP), all_reduce_in_node (NCCL) or all_reduce_gpus (NCCL, all nodes)';
comment on column raw.control.at is 'Time of the measurement, by the controller''s clock';
comment on column raw.control.run_id is
'Run for which it was measured; empty if a user requested it';
comment on column raw.control.unit is 'Unit of the values';
comment on column raw.control.minimum is 'Smallest value, in `unit`';
comment on column raw.control.maximum is 'Largest value, in `unit`';
comment on column raw.control.n is 'Values that the median is computed from';

create table raw.node_event (
    cluster text not null check (cluster <> ''),
    node text not null check (node <> ''),
    run_id text not null default '',
    subject text not null check (subject <> ''),
    at timestamptz not null,
    kind text not null check (kind in ('clean', 'worked', 'fault', 'quarantined', 'released')),
    reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array'),
    by_whom text not null check (by_whom <> '' and raw.is_plain(by_whom, 200)),
    -- A run may be loaded again: what it says of a node is counted once.
    primary key (cluster, node, at, run_id, subject)
);
create index node_event_of_fault on raw.node_event (run_id) where kind = 'fault';
create index node_event_of_person on raw.node_event (cluster, node)
where kind in ('quarantined', 'released');
comment on table raw.node_event is
'Evidence for and against a node, from which raw.node_state is derived';
comment on column raw.node_event.subject is
'preflight, person, or the case that was measured there with its generation';
comment on column raw.node_event.reasons is
'Reasons, each {code, node, subject, observed, expected}; empty if there is no fault';
comment on column raw.node_event.by_whom is 'nightbench, or the user';
comment on column raw.node_event.cluster is 'The cluster';
comment on column raw.node_event.node is 'The node';
comment on column raw.node_event.run_id is
'Run in which the event happened; empty outside of a run';
comment on column raw.node_event.at is 'When it happened';
comment on column raw.node_event.kind is
'clean, worked or fault; or quarantined or released, by a user';

create table raw.node_state (
    cluster text not null check (cluster <> ''),
    node text not null check (node <> ''),
    state text not null check (state in ('ok', 'quarantined')),
    since timestamptz,
    reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array'),
    by_whom text not null default 'nightbench',
    faults integer not null default 0 check (faults >= 0),
    primary key (cluster, node)
);
comment on table raw.node_state is 'Present state of each node; a quarantined one is left out';
comment on column raw.node_state.reasons is
'Reasons for its state, each {code, node, subject, observed, expected}';
comment on column raw.node_state.faults is 'Faults in a row up to now';
comment on column raw.node_state.cluster is 'The cluster';
comment on column raw.node_state.node is 'The node';
comment on column raw.node_state.state is 'ok or quarantined';
comment on column raw.node_state.since is
'Time since which the node is in this state; null if it was never quarantined';
comment on column raw.node_state.by_whom is 'nightbench, or the user';

create table raw.node_state_change (
    cluster text not null,
    node text not null,
    changed_at timestamptz not null default clock_timestamp(),
    state text not null check (state in ('ok', 'quarantined')),
    since timestamptz not null,
    reasons jsonb not null check (jsonb_typeof(reasons) = 'array'),
    by_whom text not null,
    primary key (cluster, node, changed_at)
);
comment on table raw.node_state_change is 'Every change of a node''s state: when, why, by whom';
comment on column raw.node_state_change.reasons is
'Reasons, each {code, node, subject, observed, expected}';
comment on column raw.node_state_change.since is
'Time of the event that changed the state; a run that is loaded late reports it late';
comment on column raw.node_state_change.cluster is 'The cluster';
comment on column raw.node_state_change.node is 'The node';
comment on column raw.node_state_change.changed_at is 'When the change was stored';
comment on column raw.node_state_change.state is 'State since then: ok or quarantined';
comment on column raw.node_state_change.by_whom is 'nightbench, or the user';
