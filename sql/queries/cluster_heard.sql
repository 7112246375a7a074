-- When a run last began that brought a figure of a cluster.
select max(r.started_at) as at
from staging.run as r
inner join staging.measurement as m on r.run_id = m.run_id
where r.cluster = %(cluster)s and not r.is_imported and m.status = 'ok';
