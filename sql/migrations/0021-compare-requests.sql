-- The queue of `nightbench_compare`: two builds that somebody wants compared, and what came of it.
create table raw.compare_request (
    request_id bigint generated always as identity primary key,
    state text not null
    check (state in ('held', 'queued', 'running', 'done', 'failed', 'refused', 'cancelled')),
    a text not null check (a <> '' and raw.is_plain(a, 2000)),
    b text not null check (b <> '' and raw.is_plain(b, 2000)),
    suite text not null,
    cluster text not null,
    cases text[] not null default '{}',
    rounds integer not null check (rounds > 0),
    min_effect double precision not null check (min_effect > 0 and min_effect < 1),
    budget_s double precision check (budget_s > 0),
    priority integer not null default 0 check (priority between -1 and 1),
    note text not null default '' check (raw.is_plain(note, 2000)),
    change_url text not null default '' check (raw.is_plain(change_url, 2000)),
    change_commit text not null default '' check (raw.is_plain(change_commit, 200)),
    is_fork boolean not null default false,
    requested_by text not null check (requested_by <> '' and raw.is_plain(requested_by, 200)),
    origin text unique check (origin <> ''),
    requested_at timestamptz not null default now(),
    queued_at timestamptz not null default now(),
    estimate_s double precision check (estimate_s >= 0),
    decided_by text check (raw.is_plain(decided_by, 200)),
    cancelled_by text check (raw.is_plain(cancelled_by, 200)),
    replaced_by bigint references raw.compare_request (request_id),
    dag_run_id text,
    comparison_id text unique,
    started_at timestamptz,
    ended_at timestamptz,
    spent_s double precision not null default 0 check (spent_s >= 0),
    why text not null default '',
    result jsonb,
    check ((ended_at is null) = (state in ('held', 'queued', 'running'))),
    check ((result is not null) or (state <> 'done'))
);
create unique index compare_request_one_runs_on_a_cluster on raw.compare_request (cluster)
where state = 'running';
create index compare_request_by_time on raw.compare_request (requested_at desc);
comment on table raw.compare_request is
'Two builds that somebody wants compared before a merge: the queue, and the answers';
comment on column raw.compare_request.request_id is 'Its number';
comment on column raw.compare_request.state is
'held: a fork waits for a word; queued, running; done, failed, refused or cancelled: it has ended';
comment on column raw.compare_request.a is 'Build that the ratio is taken of, LINE=VERSION say';
comment on column raw.compare_request.b is 'The candidate, of the same line';
comment on column raw.compare_request.suite is 'Suite of the cases';
comment on column raw.compare_request.cluster is 'Cluster that it is measured on';
comment on column raw.compare_request.cases is 'Slugs; empty: all of the line in the suite';
comment on column raw.compare_request.rounds is 'Rounds of each case';
comment on column raw.compare_request.min_effect is 'Smallest relative change that matters';
comment on column raw.compare_request.budget_s is
'Seconds that it may measure at most; null: as long as its rounds take';
comment on column raw.compare_request.priority is '1 goes before 0, 0 before -1';
comment on column raw.compare_request.note is 'In words, of who asked';
comment on column raw.compare_request.change_url is 'Address of the change that B is built from';
comment on column raw.compare_request.change_commit is
'Its commit: a newer one of the same change takes the place of a queued one';
comment on column raw.compare_request.is_fork is 'The build comes from outside';
comment on column raw.compare_request.requested_by is 'Who asked, by their login in Airflow';
comment on column raw.compare_request.origin is
'DAG run whose form asked, so that a retry does not ask twice; null: asked over REST';
comment on column raw.compare_request.requested_at is 'When';
comment on column raw.compare_request.queued_at is
'What its age counts from: that of the request whose place it took, if there was one';
comment on column raw.compare_request.estimate_s is
'Seconds that it was expected to measure; null where a case was never measured there';
comment on column raw.compare_request.decided_by is 'Who allowed or refused a fork';
comment on column raw.compare_request.cancelled_by is 'Who cancelled it';
comment on column raw.compare_request.replaced_by is
'Request of a newer commit that took its place';
comment on column raw.compare_request.dag_run_id is 'DAG run that measures or measured it';
comment on column raw.compare_request.comparison_id is 'Its launches in the spool';
comment on column raw.compare_request.started_at is 'When its measuring began first';
comment on column raw.compare_request.ended_at is 'When it ended; null before';
comment on column raw.compare_request.spent_s is 'Seconds that it has measured';
comment on column raw.compare_request.why is 'Why it failed, was put back or was ended';
comment on column raw.compare_request.result is 'The result, as `nightbench ab --json` prints it';

-- The same request again, of a call or a task that is tried again, gives the number it has.
create function triage.request_compare(p_by text, p_origin text, p_request jsonb) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    asked raw.compare_request := jsonb_populate_record(null::raw.compare_request, p_request);
    found bigint;
    since timestamptz := now();
begin
    perform triage.check_person(p_by);
    insert into raw.lock (name) values ('queue of comparisons')
    on conflict (name) do update set name = excluded.name;
    select request_id into found from raw.compare_request
    where origin = p_origin
        or (
            p_origin is null
            and state in ('held', 'queued', 'running')
            and requested_by = p_by
            and change_url = asked.change_url and change_url <> ''
            and change_commit = asked.change_commit
            and (a, b, suite, cluster, cases, rounds, min_effect)
            = (asked.a, asked.b, asked.suite, asked.cluster, asked.cases, asked.rounds,
                asked.min_effect)
        )
    order by request_id limit 1;
    if found is not null then
        return found;
    end if;
    if (
        select count(*) from raw.compare_request
        where requested_by = p_by and state in ('held', 'queued')
            and (change_url = '' or change_url <> asked.change_url)
    ) >= 20 then
        raise exception using message = p_by || ' has 20 comparisons in the queue, which is the '
            || 'most: cancel one';
    end if;
    select min(queued_at) into since from raw.compare_request
    where state in ('held', 'queued') and requested_by = p_by
        and change_url = asked.change_url and change_url <> ''
        and (suite, cluster, cases) = (asked.suite, asked.cluster, asked.cases);
    insert into raw.compare_request (
        state, a, b, suite, cluster, cases, rounds, min_effect, budget_s, priority, note,
        change_url, change_commit, is_fork, requested_by, origin, queued_at, estimate_s
    )
    values (
        case when asked.is_fork then 'held' else 'queued' end,
        asked.a, asked.b, asked.suite, asked.cluster, asked.cases, asked.rounds, asked.min_effect,
        asked.budget_s, asked.priority, asked.note, asked.change_url, asked.change_commit,
        asked.is_fork, p_by, p_origin, coalesce(since, now()), asked.estimate_s
    )
    returning request_id into found;
    update raw.compare_request
    set
        state = 'cancelled',
        ended_at = now(),
        replaced_by = found,
        why = 'request ' || found || ' of the same change took its place'
    where state in ('held', 'queued') and requested_by = p_by and request_id <> found
        and change_url = asked.change_url and change_url <> ''
        and (suite, cluster, cases) = (asked.suite, asked.cluster, asked.cases);
    return found;
end
$$;
comment on function triage.request_compare is
'A person asks for a comparison; gives its number. It takes the place of their queued ones of the '
'same change, suite, cluster and cases';

create function triage.move_compare(p_request_id bigint, p_to text, p_by text, p_why text)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was raw.compare_request;
begin
    perform triage.check_person(p_by);
    select * into was from raw.compare_request where request_id = p_request_id for update;
    if was.request_id is null then
        raise exception using message = 'there is no comparison ' || p_request_id;
    end if;
    if was.state = 'running' and p_to = 'cancelled' then
        -- Whoever measures it looks at this after each launch.
        update raw.compare_request set cancelled_by = p_by, why = p_why
        where request_id = p_request_id;
    elsif was.state in ('held', 'queued') and p_to = 'cancelled' then
        update raw.compare_request
        set state = p_to, cancelled_by = p_by, why = p_why, ended_at = now()
        where request_id = p_request_id;
    elsif was.state = 'held' and p_to in ('queued', 'refused') then
        update raw.compare_request
        set
            state = p_to,
            decided_by = p_by,
            why = p_why,
            ended_at = case when p_to = 'refused' then now() end
        where request_id = p_request_id;
    else
        raise exception using message = 'comparison ' || p_request_id || ' is ' || was.state
            || ' and cannot become ' || coalesce(p_to, 'null');
    end if;
    return was.state;
end
$$;
comment on function triage.move_compare is
'A person cancels a comparison, or allows (queued) or refuses one of a fork; gives the state '
'before';

revoke execute on function triage.request_compare, triage.move_compare from public;
grant execute on function triage.request_compare, triage.move_compare
to nightbench_loader, nightbench_triage;
