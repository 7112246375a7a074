-- Which of some series a later night of the same cluster has been judged of.
select distinct v.case_id
from raw.verdict as v
inner join raw.run as r on v.run_id = r.run_id
where
    r.cluster = %(cluster)s
    and r.run_kind = 'nightly'
    and r.started_at > %(started_at)s
    and v.case_id = any(%(case_ids)s)
order by v.case_id;
