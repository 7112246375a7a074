-- Reasons are data: {code, node, subject, observed, expected}. A sentence is made of one where a
-- person reads it. What was written before is kept with the code `prose`.
create function raw.prose_reasons(p_text text) returns jsonb
language sql immutable as $$
    select case
        when coalesce(p_text, '') = '' then '[]'::jsonb
        else jsonb_build_array(jsonb_build_object(
            'code', 'prose', 'node', null, 'subject', null, 'observed', p_text, 'expected', ''
        ))
    end
$$;

alter table raw.repeat
add column reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array');
update raw.repeat set reasons = raw.prose_reasons(coalesce(reason, problem));
alter table raw.repeat drop column reason, drop column problem;
comment on column raw.repeat.reasons is
'Why it does not count, each {code, node, subject, observed, expected}; empty where it does';

alter table raw.measurement
add column reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array');
update raw.measurement set reasons = raw.prose_reasons(reason);
alter table raw.measurement drop column reason;
comment on column raw.measurement.reasons is
'Why it was not measured, each {code, node, subject, observed, expected}; empty where it was';

-- What a quarantine was for is told by the checks.
alter table raw.quarantine drop column reasons;
alter table raw.quarantine
add column reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array');
update raw.quarantine as q set
    reasons = (
        select
            jsonb_agg(
                jsonb_build_object(
                    'code', 'check_failed',
                    'node', null,
                    'subject', c.check_name,
                    'observed', c.observed,
                    'expected', c.expected
                )
                order by c.check_name, c.ordinal
            )
        from raw.check_result as c
        where
            c.run_id = q.run_id
            and c.case_id = q.case_id
            and c.generation = q.generation
            and c.subject = q.subject
            and c.repeat = q.repeat
            and c.severity = 'fail'
            and not c.success
    )
where exists (
    select 1
    from raw.check_result as c
    where
        c.run_id = q.run_id
        and c.case_id = q.case_id
        and c.generation = q.generation
        and c.subject = q.subject
        and c.repeat = q.repeat
        and c.severity = 'fail'
        and not c.success
);
alter table raw.quarantine alter column reasons drop default;
comment on column raw.quarantine.reasons is
'The checks that refused it, each {code, node, subject, observed, expected}';

alter table raw.planned_case drop constraint planned_case_left_out_check;
alter table raw.planned_case alter column left_out type jsonb
using raw.prose_reasons(left_out) -> 0;
alter table raw.planned_case add check (jsonb_typeof(left_out) = 'object');
comment on column raw.planned_case.left_out is
'Why the night had no room for the case; null where it was to be measured';

alter table raw.node_event alter column reason drop default;
alter table raw.node_event alter column reason type jsonb using raw.prose_reasons(reason);
alter table raw.node_event rename column reason to reasons;
alter table raw.node_event alter column reasons set default '[]';
comment on column raw.node_event.reasons is
'Why, each {code, node, subject, observed, expected}; empty where nothing is wrong';

alter table raw.node_state alter column reason drop default;
alter table raw.node_state alter column reason type jsonb using raw.prose_reasons(reason);
alter table raw.node_state rename column reason to reasons;
alter table raw.node_state alter column reasons set default '[]';
comment on column raw.node_state.reasons is
'Why it stands so, each {code, node, subject, observed, expected}';

alter table raw.node_state_change alter column reason type jsonb using raw.prose_reasons(reason);
alter table raw.node_state_change rename column reason to reasons;
comment on column raw.node_state_change.reasons is
'Why, each {code, node, subject, observed, expected}';

-- The device of a finding stands beside what was looked at.
update raw.node_preflight as p set
    findings = (
        select
            jsonb_agg(
                f.finding || case
                    when f.finding ->> 'what' ~ '^GPU [0-9]+ '
                        then
                            jsonb_build_object(
                                'device', substring(f.finding ->> 'what' from '^(GPU [0-9]+) '),
                                'what', substring(f.finding ->> 'what' from '^GPU [0-9]+ (.*)$')
                            )
                    else '{"device": null}'
                end
                order by f.ordinal
            )
        from jsonb_array_elements(p.findings) with ordinality as f (finding, ordinal)
    )
where jsonb_array_length(p.findings) > 0;
comment on column raw.node_preflight.findings is
'level, what, found, expected, advice, device of each';

drop function raw.prose_reasons(text);
