-- When the first run of ours began.
select min(started_at) as at
from staging.run
where not is_imported;
