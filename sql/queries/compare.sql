-- The queue of comparisons that people requested.

-- name: compare_requests(request_id, states, requested_by, max_rows)
-- Requested comparisons, newest first. A null parameter does not constrain.
select *
from marts.fct_compare_request
where
    (:request_id::bigint is null or request_id = :request_id)
    and (:states::text[] is null or state = any(:states))
    and (:requested_by::text is null or requested_by = :requested_by)
order by request_id desc
limit :max_rows;

-- name: compare_spent()
-- Seconds that comparisons which measured in the last 24 hours have taken, by cluster and person.
select
    cluster,
    requested_by,
    sum(spent_s) as spent_s
from marts.fct_compare_request
where spent_at > now() - interval '24 hours'
group by cluster, requested_by;

-- name: begin_compare*!
-- Marks a queued comparison as running. Changes no row where it is not queued any more, or another
-- one runs on its cluster.
update raw.compare_request as t
set
    state = 'running',
    dag_run_id = :dag_run_id,
    comparison_id = coalesce(t.comparison_id, :comparison_id),
    started_at = coalesce(t.started_at, now()),
    spent_at = now(),
    why = ''
where
    t.request_id = :request_id
    and t.state = 'queued'
    and not exists (
        select from raw.compare_request as other
        where other.cluster = t.cluster and other.state = 'running'
    );

-- name: adopt_compare*!
-- Goes on with a running comparison whose DAG run has ended. Changes no row where another one has
-- done so before.
update raw.compare_request
set dag_run_id = :dag_run_id
where
    request_id = :request_id
    and state = 'running'
    and dag_run_id = :was;

-- name: spend_compare*!
-- Notes that a running comparison has taken so much more.
update raw.compare_request
set spent_s = spent_s + :spent_s, spent_at = now()
where
    request_id = :request_id
    and state = 'running'
    and dag_run_id = :dag_run_id;

-- name: leave_compare*!
-- Ends a running comparison, or puts it back into the queue. What a person said who cancelled it
-- stays. One that is to be profiled runs on when it is done, with its result.
update raw.compare_request
set
    state = case
        when :state = 'done' and profile = 'with' then 'running'
        else :state
    end,
    why = case when cancelled_by is null then :why else why end,
    result = case when profile = 'after' then coalesce(:result, result) else :result end,
    spent_s = spent_s + :spent_s,
    spent_at = now(),
    -- A profile is as long as one of the rounds.
    estimate_s = case
        when :state = 'done' and profile = 'with'
            then spent_s + :spent_s + estimate_s / (rounds + 1)
        else estimate_s
    end,
    profile = case
        when :state = 'queued' then profile
        when :state = 'done' and profile = 'with' then 'after'
    end,
    ended_at = case
        when :state <> 'queued' and not (:state = 'done' and profile is not distinct from 'with')
            then now()
    end
where
    request_id = :request_id
    and state = 'running'
    and dag_run_id = :dag_run_id;
