-- Experiments: every request for a comparison, of people and of nights, in one table and one queue;
-- and the reference builds of nights.
create table raw.experiment (
    experiment_id bigint generated always as identity primary key,
    name text not null unique check (name <> ''),
    kind text not null check (kind in ('compare', 'confirm', 'bisect', 'profile', 'reference')),
    state text not null
    check (state in ('held', 'queued', 'running', 'done', 'failed', 'refused', 'cancelled')),
    request jsonb not null check (jsonb_typeof(request) = 'object'),
    suite text not null,
    cluster text not null,
    alert_id bigint references raw.alert (alert_id),
    run_id text references raw.run (run_id),
    requested_by text not null check (requested_by <> '' and raw.is_plain(requested_by, 200)),
    origin text unique check (origin <> ''),
    requested_at timestamptz not null default now(),
    queued_at timestamptz not null default now(),
    priority integer not null default 0 check (priority between -1 and 2),
    until timestamptz,
    budget_s double precision check (budget_s > 0),
    estimate_s double precision check (estimate_s >= 0),
    decided_by text check (raw.is_plain(decided_by, 200)),
    cancelled_by text check (raw.is_plain(cancelled_by, 200)),
    replaced_by bigint references raw.experiment (experiment_id),
    dag_run_id text,
    started_at timestamptz,
    ended_at timestamptz,
    spent_s double precision not null default 0 check (spent_s >= 0),
    spent_at timestamptz,
    why text not null default '',
    result jsonb,
    check ((ended_at is null) = (state in ('held', 'queued', 'running'))),
    check (result is not null or state <> 'done')
);
create unique index experiment_one_runs_on_a_cluster on raw.experiment (cluster)
where state = 'running' and dag_run_id is not null;
-- A night that is judged again requests nothing twice; a person may request as often as they like.
create unique index experiment_once_for_a_night on raw.experiment (alert_id, run_id)
where kind = 'confirm' and requested_by = 'nightbench';
create index experiment_by_time on raw.experiment (requested_at desc);
create index experiment_by_run on raw.experiment (run_id) where run_id is not null;
create index experiment_by_alert on raw.experiment (alert_id, experiment_id)
where alert_id is not null;
create index experiment_profile_of on raw.experiment ((request ->> 'of'), experiment_id)
where kind = 'profile';
comment on table raw.experiment is
'A request for a comparison of two builds, or for several: its place in the queue, and its result';
comment on column raw.experiment.experiment_id is 'Number of the experiment';
comment on column raw.experiment.name is
'Name of the experiment, and of its folder in the spool below comparisons/; names of further '
'comparisons begin with it';
comment on column raw.experiment.kind is
'compare two builds, confirm a suspected regression, bisect versions, profile a comparison, or '
'measure the reference build of a night';
comment on column raw.experiment.state is
'`held` (a fork awaits approval), queued, running; done, failed, refused or cancelled: it has '
'ended';
comment on column raw.experiment.request is 'Fields of the request, by kind';
comment on column raw.experiment.suite is 'Suite of the cases';
comment on column raw.experiment.cluster is 'Cluster that it is measured on';
comment on column raw.experiment.alert_id is
'Alert that the experiment explains; null if there is none';
comment on column raw.experiment.run_id is
'Run whose suspected regression is measured again; null if kind is not confirm';
comment on column raw.experiment.requested_by is
'Who requested it, by their login in Airflow or at a terminal; nightbench: a night';
comment on column raw.experiment.origin is
'DAG run whose form requested the experiment, so that a retry does not request it again; null '
'if no form did';
comment on column raw.experiment.requested_at is 'When it was requested';
comment on column raw.experiment.queued_at is
'Time from which the age of the request counts: that of the request that it replaced, if any';
comment on column raw.experiment.priority is '2: a night''s; 1 goes before 0, 0 before -1';
comment on column raw.experiment.until is
'Time by which every launch must end; a night''s message also waits only until then. Null '
'without a limit';
comment on column raw.experiment.budget_s is
'Limit of the measuring time, seconds; null without a limit';
comment on column raw.experiment.estimate_s is 'Expected measuring time, seconds';
comment on column raw.experiment.decided_by is 'Who allowed or refused a fork';
comment on column raw.experiment.cancelled_by is
'User who cancelled it; nightbench if its time was over or its process is gone';
comment on column raw.experiment.replaced_by is
'Request for a newer commit that replaced this request';
comment on column raw.experiment.dag_run_id is
'DAG run that measures or measured it; null before it began, and for a process at a terminal';
comment on column raw.experiment.started_at is 'When its first launch began';
comment on column raw.experiment.ended_at is 'When it ended; null before';
comment on column raw.experiment.spent_s is 'Measuring time so far, seconds';
comment on column raw.experiment.spent_at is
'Last time at which it measured; spent_s counts for budgets for 24 hours from then';
comment on column raw.experiment.why is 'Why it failed, was put back, ended early or was cancelled';
comment on column raw.experiment.result is
'The result, as the command of its kind prints it with --json; of a bisect with its tests so far';

-- Its profile is cancelled with a comparison that has no result.
create function raw.cancel_profiles() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    update raw.experiment
    set state = 'cancelled', ended_at = now(), why = new.name || ' is ' || new.state
    where kind = 'profile' and request ->> 'of' = new.name and state in ('held', 'queued');
    return null;
end
$$;
comment on function raw.cancel_profiles is 'Cancels profiles of a comparison without a result';
create trigger cancel_profiles after update of state on raw.experiment
for each row when (new.kind = 'compare' and new.state in ('failed', 'refused', 'cancelled'))
execute function raw.cancel_profiles();

-- One live profile of a comparison; a further request changes nothing.
create function triage.add_profile(p_of raw.experiment) returns void
language sql
security definer
set search_path = pg_catalog, pg_temp as $$
    insert into raw.experiment (
        name, kind, state, request, suite, cluster, requested_by, priority, estimate_s
    )
    select
        'profile-' || p_of.name || '-' || (
            select count(*) + 1 from raw.experiment
            where kind = 'profile' and request ->> 'of' = p_of.name
        ),
        'profile', 'queued', jsonb_build_object('of', p_of.name), p_of.suite, p_of.cluster,
        p_of.requested_by, p_of.priority,
        -- As long as one of the rounds.
        p_of.estimate_s / greatest(1, (p_of.request ->> 'rounds')::integer)
    where not exists (
        select from raw.experiment
        where kind = 'profile' and request ->> 'of' = p_of.name and state in ('queued', 'running')
    )
$$;
comment on function triage.add_profile is 'Requests a profile of a comparison';

create function triage.check_queue(p_by text, p_change text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
begin
    if (
        select count(*) from raw.experiment
        where requested_by = p_by and state in ('held', 'queued') and kind <> 'profile'
            and (p_change = '' or coalesce(request ->> 'change_url', '') <> p_change)
    ) >= 20 then
        raise exception using message = p_by || ' has 20 experiments in the queue, which is the '
            || 'most: cancel one';
    end if;
end
$$;
comment on function triage.check_queue is 'Refuses the 21st experiment of a user in the queue';

-- The same request again, of a call or a task that is tried again, gives the number it has.
create function triage.request_experiment(
    p_by text, p_origin text, p_profile boolean, p_experiment jsonb
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    asked raw.experiment := jsonb_populate_record(null::raw.experiment, p_experiment);
    free text[] := array['note', 'fork', 'priority', 'budget_s', 'profile'];
    change text := coalesce(asked.request ->> 'change_url', '');
    cases jsonb := asked.request -> 'cases';
    found raw.experiment;
    since timestamptz;
begin
    perform triage.check_person(p_by);
    insert into raw.lock (name) values ('queue of experiments')
    on conflict (name) do update set name = excluded.name;
    select * into found from raw.experiment
    where origin = p_origin
        or (
            p_origin is null
            and change <> ''
            and state in ('held', 'queued', 'running')
            and requested_by = p_by
            and (kind, suite, cluster) = (asked.kind, asked.suite, asked.cluster)
            and request - free = asked.request - free
        )
    order by experiment_id limit 1;
    if found.experiment_id is null then
        perform triage.check_queue(p_by, change);
        select min(queued_at) into since from raw.experiment
        where state in ('held', 'queued') and requested_by = p_by and kind = asked.kind
            and change <> '' and request ->> 'change_url' = change
            and (suite, cluster, request -> 'cases') = (asked.suite, asked.cluster, cases);
        insert into raw.experiment (
            name, kind, state, request, suite, cluster, alert_id, requested_by, origin, queued_at,
            priority, budget_s, estimate_s
        )
        values (
            asked.name, asked.kind, coalesce(asked.state, 'queued'), asked.request, asked.suite,
            asked.cluster, asked.alert_id, p_by, p_origin, coalesce(since, now()),
            coalesce(asked.priority, 0), asked.budget_s, asked.estimate_s
        )
        returning * into found;
        update raw.experiment
        set
            state = 'cancelled',
            ended_at = now(),
            replaced_by = found.experiment_id,
            why = 'request ' || found.experiment_id || ' of the same change took its place'
        where state in ('held', 'queued') and requested_by = p_by and kind = asked.kind
            and experiment_id <> found.experiment_id
            and change <> '' and request ->> 'change_url' = change
            and (suite, cluster, request -> 'cases') = (asked.suite, asked.cluster, cases);
    end if;
    if p_profile then
        perform triage.add_profile(found);
    end if;
    return found.experiment_id;
end
$$;
comment on function triage.request_experiment is
'A user requests an experiment, with or without a profile; returns its number. It replaces '
'the user''s queued requests for the same change, suite, cluster and cases';

create function triage.move_experiment(
    p_experiment_id bigint, p_to text, p_by text, p_why text
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was raw.experiment;
    live bigint;
begin
    perform triage.check_person(p_by);
    select * into was from raw.experiment where experiment_id = p_experiment_id for update;
    if was.experiment_id is null then
        raise exception using message = 'there is no experiment ' || p_experiment_id;
    end if;
    select experiment_id into live from raw.experiment
    where kind = 'profile' and request ->> 'of' = was.name and state in ('queued', 'running')
    limit 1;
    if was.state = 'running' and p_to = 'cancelled' then
        -- Its process looks at this after each launch.
        update raw.experiment set cancelled_by = p_by, why = p_why
        where experiment_id = p_experiment_id;
    elsif was.state in ('held', 'queued') and p_to = 'cancelled' then
        update raw.experiment
        set state = p_to, cancelled_by = p_by, why = p_why, ended_at = now()
        where experiment_id = p_experiment_id;
    elsif was.state = 'done' and p_to = 'cancelled' and live is not null then
        perform triage.move_experiment(live, p_to, p_by, p_why);
    elsif was.state = 'held' and p_to in ('queued', 'refused') then
        update raw.experiment
        set
            state = p_to,
            decided_by = p_by,
            why = p_why,
            ended_at = case when p_to = 'refused' then now() end
        where experiment_id = p_experiment_id;
    elsif
        was.kind = 'compare' and p_to = 'profiled'
        and was.state in ('held', 'queued', 'running', 'done')
    then
        perform triage.check_queue(was.requested_by, '');
        perform triage.add_profile(was);
    else
        raise exception using message = 'experiment ' || p_experiment_id || ' is ' || was.state
            || ' and cannot become ' || coalesce(p_to, 'null');
    end if;
    return was.state;
end
$$;
comment on function triage.move_experiment is
'A user cancels an experiment, requests its profile (profiled), or allows (queued) or refuses '
'the request of a fork; returns the previous state';

revoke execute on function
triage.add_profile, triage.check_queue, triage.request_experiment, triage.move_experiment
from public;
grant execute on function triage.request_experiment, triage.move_experiment
to nightbench_loader, nightbench_triage;


-- Measurements of a night with a reference build: both raw series, separate from results of nights.
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
'A case of a run that was launched in turn with a reference build of its line on the same nodes';
comment on column raw.night_pair.run_id is 'Run whose build is measured';
comment on column raw.night_pair.case_id is 'Case that both builds ran';
comment on column raw.night_pair.reference is 'build_id of the reference';
comment on column raw.night_pair.build is
'Reference build, with everything needed to measure it again';
comment on column raw.night_pair.is_bridge is
'Whether this is the previous reference build, which is measured only on the night of a '
'change of reference';
comment on column raw.night_pair.n is 'Number of pairs of launches; if it is 0, why has the reason';
comment on column raw.night_pair.night_throughput is
'Median over the pairs of the night''s build, in units of work per second';
comment on column raw.night_pair.reference_throughput is
'Median over the pairs of the reference build, in units of work per second';
comment on column raw.night_pair.ratio is
'The night''s build over the reference: geometric mean of the pairs';
comment on column raw.night_pair.low is 'Lower end of the 95 % interval of ratio';
comment on column raw.night_pair.high is 'Upper end of the 95 % interval of ratio';
comment on column raw.night_pair.spread is '(maximum - minimum) / median of the pairs'' ratios';
comment on column raw.night_pair.pairs is
'Each pair: throughput of both builds, and which was launched first';
comment on column raw.night_pair.why is 'Why there are no pairs, or fewer than planned';
comment on column raw.night_pair.machine is
'Verdict on the series of the reference build: a change of the node';
comment on column raw.night_pair.machine_sentence is
'Verdict on the reference build''s series in a sentence with values';
