-- Experiments: builds or versions that are measured in turn. Confirmations of alerts, searches for a
-- first bad version, requested comparisons, and the reference builds of nights.
create table raw.confirmation (
    confirmation_id bigint generated always as identity primary key,
    alert_id bigint not null references raw.alert (alert_id),
    run_id text not null references raw.run (run_id),
    state text not null check (state in ('wanted', 'running', 'ended', 'skipped')),
    asked_by text not null check (asked_by <> ''),
    comparison_id text not null unique check (comparison_id <> ''),
    outcome text check (outcome in ('confirmed', 'not_confirmed', 'inconclusive')),
    sentence text not null default '',
    ratio double precision check (ratio > 0),
    low double precision,
    high double precision,
    rounds integer not null default 0 check (rounds >= 0),
    asked_at timestamptz not null default now(),
    until timestamptz,
    ended_at timestamptz,
    detail jsonb not null check (jsonb_typeof(detail) = 'object'),
    check ((state = 'ended') = (outcome is not null)),
    check ((state in ('ended', 'skipped')) = (ended_at is not null)),
    check (state in ('wanted', 'running') or sentence <> '')
);
-- Whoever judges a night again asks for nothing twice; a person may ask as often as they like.
create unique index confirmation_once_for_a_night on raw.confirmation (alert_id, run_id)
where asked_by = 'nightbench';
create index confirmation_by_run on raw.confirmation (run_id);
create index confirmation_by_alert on raw.confirmation (alert_id, confirmation_id);
comment on table raw.confirmation is
'A suspected regression measured again: the last good build and the night''s, in pairs';
comment on column raw.confirmation.run_id is 'The night whose verdict is doubted';
comment on column raw.confirmation.asked_by is 'nightbench, or the person';
comment on column raw.confirmation.comparison_id is
'Its launches in the spool: <id> and <id>-other';
comment on column raw.confirmation.sentence is 'What came out, or why it was not measured';
comment on column raw.confirmation.ratio is
'Candidate / last good, throughput; its 95 % interval beside it';
comment on column raw.confirmation.rounds is
'Pairs (or launches, of one build alone) that counted';
comment on column raw.confirmation.until is
'Nothing is launched that cannot end by then, and the night''s message waits no longer';
comment on column raw.confirmation.detail is
'Builds, versions, levels, nodes, what it is expected to take; the rounds once it has ended';
comment on column raw.confirmation.confirmation_id is 'Its number';
comment on column raw.confirmation.alert_id is 'Alert of the suspected regression';
comment on column raw.confirmation.state is 'wanted, running, ended with an outcome, or skipped';
comment on column raw.confirmation.outcome is
'confirmed, not_confirmed or inconclusive; null until it has ended';
comment on column raw.confirmation.low is 'Lower end of the 95 % interval of ratio';
comment on column raw.confirmation.high is 'Upper end of the 95 % interval of ratio';
comment on column raw.confirmation.asked_at is 'When it was asked for';
comment on column raw.confirmation.ended_at is 'When it ended or was skipped; null before';

-- Which version of a framework made a series slower: what was asked, every test, what came out.
create table raw.bisect (
    bisect_id text primary key check (bisect_id <> ''),
    alert_id bigint references raw.alert (alert_id),
    case_id text not null,
    cluster text not null,
    suite text not null,
    line text not null,
    good text not null,
    bad text not null,
    versions text[] not null check (cardinality(versions) >= 2),
    state text not null check (state in ('running', 'stopped', 'ended')),
    outcome text
    check (outcome in ('found', 'range', 'spread', 'not_reproduced', 'untestable')),
    last_good text,
    first_bad text,
    suspects text[] not null default '{}',
    sentence text not null default '',
    notes text[] not null default '{}',
    ratio double precision,
    budget_s double precision not null check (budget_s > 0),
    spent_s double precision not null default 0 check (spent_s >= 0),
    requested_by text not null default '',
    started_at timestamptz not null,
    ended_at timestamptz,
    check ((outcome is null) = (state <> 'ended')),
    check ((ended_at is null) = (state <> 'ended'))
);
create index bisect_by_alert on raw.bisect (alert_id);
comment on table raw.bisect is
'A search for the first bad version of a framework line, by the paired method';
comment on column raw.bisect.versions is 'Ascending; the good one first, the bad one last';
comment on column raw.bisect.state is
'stopped: its budget is used up, or somebody ended it; it can be taken up again';
comment on column raw.bisect.suspects is
'Versions that may be the first bad one; several unless it was found';
comment on column raw.bisect.ratio is
'Throughput of the bad version over the good one, as the first test found it';
comment on column raw.bisect.bisect_id is 'Its name';
comment on column raw.bisect.alert_id is
'Alert that it is to explain; null where it was asked for by hand';
comment on column raw.bisect.case_id is 'With cluster the series';
comment on column raw.bisect.cluster is 'With case_id the series';
comment on column raw.bisect.suite is 'Suite whose protocol it measures by';
comment on column raw.bisect.line is 'Framework line that is searched';
comment on column raw.bisect.good is 'Version that is taken as good';
comment on column raw.bisect.bad is 'Version that is taken as bad';
comment on column raw.bisect.outcome is
'found; range of versions; spread over several; not_reproduced; untestable; null until it '
'has ended';
comment on column raw.bisect.last_good is 'Newest version that was good; null before one was';
comment on column raw.bisect.first_bad is
'Oldest version that was bad; the answer where outcome is found';
comment on column raw.bisect.sentence is 'The result in words';
comment on column raw.bisect.notes is 'What else is worth knowing of it';
comment on column raw.bisect.budget_s is 'Seconds that it may measure';
comment on column raw.bisect.spent_s is 'Seconds that it has measured';
comment on column raw.bisect.requested_by is 'Who asked for it';
comment on column raw.bisect.started_at is 'When it began';
comment on column raw.bisect.ended_at is 'When it ended; null before';

create table raw.bisect_step (
    bisect_id text not null references raw.bisect (bisect_id),
    number integer not null check (number > 0),
    kind text not null check (kind in ('check', 'search', 'verify')),
    version text not null,
    against text not null,
    comparison_id text not null,
    status text not null check (status in ('running', 'ended', 'void')),
    result text check (result in ('good', 'bad', 'unsure', 'skipped')),
    why text not null default '',
    ratio double precision,
    low double precision,
    high double precision,
    rounds integer not null default 0 check (rounds >= 0),
    wanted_rounds integer not null check (wanted_rounds > 0),
    min_effect double precision not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    spent_s double precision not null default 0 check (spent_s >= 0),
    primary key (bisect_id, number),
    check ((result is null) = (status <> 'ended'))
);
comment on table raw.bisect_step is 'Two versions beside each other: one test of a bisect';
comment on column raw.bisect_step.comparison_id is 'Its launches in the spool, below comparisons/';
comment on column raw.bisect_step.status is 'void: it was ended before it said anything';
comment on column raw.bisect_step.ratio is 'Throughput of version over against';
comment on column raw.bisect_step.bisect_id is 'The bisect';
comment on column raw.bisect_step.number is 'From 1, in order';
comment on column raw.bisect_step.kind is
'check of both ends, search between them, or verify of the answer';
comment on column raw.bisect_step.version is 'Version that was tested';
comment on column raw.bisect_step.against is 'Version that it was measured beside';
comment on column raw.bisect_step.result is 'good, bad, unsure or skipped; null until it has ended';
comment on column raw.bisect_step.why is 'Why it has this result';
comment on column raw.bisect_step.low is 'Lower end of the 95 % interval of ratio';
comment on column raw.bisect_step.high is 'Upper end of the 95 % interval of ratio';
comment on column raw.bisect_step.rounds is 'Pairs that counted';
comment on column raw.bisect_step.wanted_rounds is 'Pairs that were planned';
comment on column raw.bisect_step.min_effect is 'Smallest relative change that it looks for';
comment on column raw.bisect_step.started_at is 'When it began';
comment on column raw.bisect_step.ended_at is 'When it ended; null before';
comment on column raw.bisect_step.spent_s is 'Seconds that it measured';

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
    profile text check (profile in ('with', 'after')),
    spent_at timestamptz,
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
comment on column raw.compare_request.profile is
'Profile that is to be made. with: behind the last round; after: alone, the result is there';
comment on column raw.compare_request.spent_at is
'When it measured last; for 24 hours from then spent_s counts against budgets';

-- The same request again, of a call or a task that is tried again, gives the number it has.
create function triage.request_compare(p_by text, p_origin text, p_request jsonb)
returns bigint
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
        update raw.compare_request
        set
            profile = asked.profile,
            estimate_s = least(estimate_s * (rounds + 1) / rounds, budget_s)
        where request_id = found and profile is null and asked.profile is not null
            and state in ('held', 'queued', 'running');
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
    where state in ('held', 'queued') and requested_by = p_by and profile is distinct from 'after'
        and change_url = asked.change_url and change_url <> ''
        and (suite, cluster, cases) = (asked.suite, asked.cluster, asked.cases);
    insert into raw.compare_request (
        state, a, b, suite, cluster, cases, rounds, min_effect, budget_s, priority, note,
        change_url, change_commit, is_fork, requested_by, origin, queued_at, estimate_s, profile
    )
    values (
        case when asked.is_fork then 'held' else 'queued' end,
        asked.a, asked.b, asked.suite, asked.cluster, asked.cases, asked.rounds, asked.min_effect,
        asked.budget_s, asked.priority, asked.note, asked.change_url, asked.change_commit,
        asked.is_fork, p_by, p_origin, coalesce(since, now()), asked.estimate_s,
        asked.profile
    )
    returning request_id into found;
    update raw.compare_request
    set
        state = 'cancelled',
        profile = null,
        ended_at = now(),
        replaced_by = found,
        why = 'request ' || found || ' of the same change took its place'
    where state in ('held', 'queued') and requested_by = p_by and request_id <> found
        and profile is distinct from 'after'
        and change_url = asked.change_url and change_url <> ''
        and (suite, cluster, cases) = (asked.suite, asked.cluster, asked.cases);
    return found;
end
$$;
comment on function triage.request_compare is
'A person asks for a comparison; gives its number. It takes the place of their queued ones of the '
'same change, suite, cluster and cases';

create function triage.move_compare(
    p_request_id bigint, p_to text, p_by text, p_why text
) returns text
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
    elsif was.state = 'queued' and was.profile = 'after' and p_to = 'cancelled' then
        -- Its result stands.
        update raw.compare_request
        set state = 'done', profile = null, cancelled_by = p_by, why = p_why, ended_at = now()
        where request_id = p_request_id;
    elsif was.state in ('held', 'queued') and p_to = 'cancelled' then
        update raw.compare_request
        set state = p_to, profile = null, cancelled_by = p_by, why = p_why, ended_at = now()
        where request_id = p_request_id;
    elsif was.state = 'held' and p_to in ('queued', 'refused') then
        update raw.compare_request
        set
            state = p_to,
            profile = case when p_to = 'queued' then profile end,
            decided_by = p_by,
            why = p_why,
            ended_at = case when p_to = 'refused' then now() end
        where request_id = p_request_id;
    elsif was.state in ('held', 'queued', 'running') and p_to = 'profiled' then
        update raw.compare_request
        set profile = 'with', estimate_s = least(estimate_s * (rounds + 1) / rounds, budget_s)
        where request_id = p_request_id and profile is null;
    elsif was.state = 'done' and p_to = 'profiled' then
        if (
            select count(*) from raw.compare_request
            where requested_by = was.requested_by and state in ('held', 'queued')
        ) >= 20 then
            raise exception using message = was.requested_by || ' has 20 comparisons in the queue, '
                || 'which is the most: cancel one';
        end if;
        update raw.compare_request
        set
            state = 'queued',
            profile = 'after',
            queued_at = now(),
            ended_at = null,
            cancelled_by = null,
            why = '',
            -- As long as one of its rounds.
            estimate_s = spent_s + estimate_s / rounds
        where request_id = p_request_id;
    else
        raise exception using message = 'comparison ' || p_request_id || ' is ' || was.state
            || ' and cannot become ' || coalesce(p_to, 'null');
    end if;
    return was.state;
end
$$;
comment on function triage.move_compare is
'A person cancels a comparison, asks for its profile (profiled), or allows (queued) or refuses '
'one of a fork; gives the state before';

revoke execute on function triage.request_compare, triage.move_compare from public;
grant execute on function triage.request_compare, triage.move_compare
to nightbench_loader, nightbench_triage;

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
