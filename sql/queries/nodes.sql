-- The nodes of a cluster with their state and last preflight.
select *
from marts.dim_node
where cluster = %(cluster)s
order by node;
