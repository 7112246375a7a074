-- Both builds of a requested comparison once more under a profiler: with it, or once it has ended.
alter table raw.compare_request add column profile text;
alter table raw.compare_request
add constraint compare_request_profile_check check (profile in ('with', 'after')) not valid;
comment on column raw.compare_request.profile is
'Profile that is to be made. with: behind the last round; after: alone, the result is there';
alter table raw.compare_request add column spent_at timestamptz;
comment on column raw.compare_request.spent_at is
'When it measured last; for 24 hours from then spent_s counts against budgets';
update raw.compare_request
set spent_at = coalesce(ended_at, now())
where started_at is not null;

-- The same request again, of a call or a task that is tried again, gives the number it has.
create or replace function triage.request_compare(p_by text, p_origin text, p_request jsonb)
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

create or replace function triage.move_compare(
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
