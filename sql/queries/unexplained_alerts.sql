-- Alerts of cases that a run says and that have no cause yet: those it opened or reopened, those
-- that nothing explained before, and its own again where it is judged again.
select
    a.alert_id,
    a.case_id,
    p.framework,
    a.value,
    a.baseline,
    v.first_bad_run_id,
    a.kind,
    coalesce(nullif(m.reasons, '[]'), m.quarantine_reasons, '[]') as reasons,
    opened.run_id as opened_run_id,
    opened.started_at as opened_at,
    opened.code_digest as opened_code,
    coalesce(b.digest, op.build_id) as opened_build
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
inner join staging.planned_case as p
    on a.last_run_id = p.run_id and a.case_id = p.case_id
left join raw.verdict as v
    on a.last_run_id = v.run_id and a.case_id = v.case_id
left join staging.measurement as m
    on a.last_run_id = m.run_id and a.case_id = m.case_id
left join raw.planned_case as op
    on a.opened_run_id = op.run_id and a.case_id = op.case_id
left join raw.build as b on op.build_id = b.build_id
left join lateral (
    select
        c.run_id,
        c.kind
    from raw.alert_cause as c
    where c.alert_id = a.alert_id
    order by c.at desc
    limit 1
) as known on true
where
    a.last_run_id = %(run_id)s
    and a.state in ('open', 'acknowledged')
    and a.kind in ('regressed', 'failed', 'missing')
    and (
        known.run_id is null
        or known.run_id = %(run_id)s
        or known.kind = 'unexplained'
        or a.news_run_id = %(run_id)s
    )
order by a.alert_id;
