-- Channels that had a suite's message of a night on a cluster.
select channel
from raw.message
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and night = %(night)s
    and kind = 'night';
