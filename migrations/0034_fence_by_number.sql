-- An append no longer asks who owns the shard: an owner begins with a batch of its own, and so takes the number that the one
-- before would write next. An older version takes none, and would not keep a newer one from writing: none owns the shard any
-- more. One that owns it now writes nothing after this, and nobody waits for its lease.
update schema_version set compatible_since = 34;
update shard set epoch = epoch + 1 where epoch > 0;
update lease set owner = null, owner_id = null, lease_until = null, handover_to = null, requests_epoch = requests_epoch + 1;

comment on table shard is 'One row a shard: the epoch of its owner.';
comment on table batch is 'One row a batch: everything that was written in one transaction, or the beginning of an ownership. Partitioned by number.';
