-- Series with nightly results: the suite that measured them last, and how many nights they have.
select
    case_id,
    cluster,
    (array_agg(suite order by is_imported asc, started_at desc))[1] as suite,
    count(*) as nights
from marts.fct_measurement
where
    run_kind = 'nightly'
    and (%(cluster)s::text is null or cluster = %(cluster)s)
group by case_id, cluster
having
    %(suite)s::text is null
    or (array_agg(suite order by is_imported asc, started_at desc))[1] = %(suite)s
order by case_id, cluster;
