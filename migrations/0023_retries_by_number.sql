-- Of which task another one is a copy is asked by the number of the copy. A row per retry, and nothing for other rows.
create index attempt_retries on attempt (shard, handle, retry) where kind = 6;
