-- What the results page can be filtered by: combinations that have results.
select distinct
    p.workload,
    p.framework,
    r.cluster
from staging.planned_case as p
inner join staging.run as r on p.run_id = r.run_id
where
    r.loaded_at is not null
    and r.run_kind <> 'drill'
order by p.workload, p.framework, r.cluster;
