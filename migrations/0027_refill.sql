-- Permits that come back by time: a grant keeps what it has left missing. Programs of before know no such resource.

alter table claim add column taken bytea;               -- JSON, of a grant: what was missing after it, by resource that refills

comment on column claim.taken is 'JSON in UTF-8, with a grant: of each resource whose permits come back by time the millionths of permits missing after it.';
comment on column resource.settings is 'JSON in UTF-8: capacity, lock_delay, max_hold, refill, reader_preferred.';
comment on column rallypoint_log.resources.settings is 'JSON: capacity, lock_delay, max_hold, refill, reader_preferred.';
