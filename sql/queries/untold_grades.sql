-- Falls of a suite's grade that no message has told of yet, of runs up to a night.
select *
from marts.detector_grade
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and started_at <= %(until)s
    and is_news
    and told_at is null
order by started_at, measure;
