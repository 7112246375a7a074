-- The series that are noisy now.
select *
from marts.noisy_series
where %(cluster)s::text is null or cluster = %(cluster)s
order by cluster asc, case_id asc;
