-- Calls accepted since then may be repeated, as of the owner's last heartbeat: the next owner goes on from there, however much
-- time lies between by its clock.
alter table lease add column requests_since timestamptz not null default now() - interval '15 minutes';
