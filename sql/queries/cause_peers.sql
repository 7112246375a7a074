-- What the night said of every series of a cluster: each series' newest verdict of the last hours.
-- `since` is when it fell; where the verdict does not know, when its alert was opened.
select distinct on (v.case_id)
    v.case_id,
    p.framework,
    v.kind as verdict,
    v.change,
    coalesce(v.since, opened.started_at, r.started_at) as since,
    (
        select m.framework_version
        from raw.measurement as m
        where m.run_id = v.run_id and m.case_id = v.case_id
        order by m.generation desc
        limit 1
    ) as framework_version,
    array(
        select distinct n.node
        from raw.repeat_node as n
        where n.run_id = v.run_id and n.case_id = v.case_id
        order by n.node
    ) as nodes
from raw.run as r
inner join raw.verdict as v on r.run_id = v.run_id
inner join staging.planned_case as p
    on v.run_id = p.run_id and v.case_id = p.case_id
left join raw.alert as a
    on
        v.case_id = a.case_id
        and v.cluster = a.cluster
        and a.state in ('open', 'acknowledged')
left join raw.run as opened on a.opened_run_id = opened.run_id
where
    r.cluster = %(cluster)s
    and r.run_kind = 'nightly'
    and r.started_at <= %(until)s
    and r.started_at > %(until)s - interval '20 hours'
order by v.case_id asc, r.started_at desc, v.run_id desc;
