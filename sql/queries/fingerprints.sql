-- Hardware and software of nodes as found, by their ids.
select
    fingerprint_id,
    document
from raw.fingerprint
where fingerprint_id = any(%(fingerprint_ids)s);
