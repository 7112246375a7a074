-- Acceptance of clusters: configurations of the lines that were tried there, and the outcomes.

-- name: accepted_modes(cluster)
-- The newest result of each configuration and shape on a cluster with each build; interrupted ones
-- do not count.
with newest as (
    select d.driver
    from raw.node_preflight as p
    left join staging.run_driver as d on p.run_id = d.run_id
    where p.cluster = :cluster and p.run_id <> '' and p.document is not null
    order by p.at desc
    limit 1
)

select
    a.*,
    coalesce(a.driver, '') = coalesce(n.driver, '') as is_driver_same
from marts.fct_acceptance as a
cross join newest as n
where a.cluster = :cluster and a.is_newest;
