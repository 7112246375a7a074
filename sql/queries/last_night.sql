-- The newest night that was ever looked at.
select max(scheduled_at) as scheduled_at
from raw.night
where suite = %(suite)s and cluster = %(cluster)s;
