-- Programs of before own the shard without saying since when calls may be repeated: what the lease says of that may be of an owner
-- long before them.
alter table lease add column requests_epoch int8;

comment on column lease.requests_epoch is 'The epoch whose owner wrote requests_since; null: a program of before did, or nobody.';
