-- Who changed what, and who tried to. Programs of before write none of it.

-- One row a call that changes something, or was refused. Rows come some time after the call, or before its answer where an operator made it.
create table audit (
    shard int2 not null,
    day date not null,                                  -- where it lies; the day of `at`, if there was a partition for it
    id uuid not null,                                   -- a row that is sent twice is there once
    at timestamptz not null,
    caller bytea not null,                              -- empty: nobody knows
    address bytea not null,
    namespace bytea not null,
    method bytea not null,
    object bytea not null,
    reason bytea not null,                              -- as the caller gave it
    outcome bytea not null,                             -- OK, UNKNOWN, or the reason of the error
    replica bytea not null,
    left_out int4 not null,                             -- rows of refused calls before it that were not kept
    constraint audit_pkey primary key (shard, day, id)
) partition by range (day);

create index audit_times on audit using brin (at);

comment on table audit is 'One row a call that changes something, or was refused. A partition a day, kept as long as the log.';
comment on column audit.shard is 'Number of the shard; there is one, 0.';
comment on column audit.day is 'The day of the partition: that of the call, as a rule.';
comment on column audit.id is 'Names the row; one that is sent twice is there once.';
comment on column audit.at is 'When the call was answered, by the time of the service.';
comment on column audit.caller is 'Identity of the caller, or the name it gives itself where callers are not known, in UTF-8; empty: not known.';
comment on column audit.address is 'Address from which the call came, in UTF-8.';
comment on column audit.namespace is 'Namespace of the call, in UTF-8; empty: the caller was refused before it was known.';
comment on column audit.method is 'Service and method, in UTF-8.';
comment on column audit.object is 'What the call was about, in UTF-8; empty: it was refused before it was read.';
comment on column audit.reason is 'Why, as the caller says, in UTF-8.';
comment on column audit.outcome is 'OK, UNKNOWN (the caller left before the answer), or the reason of the error, in UTF-8.';
comment on column audit.replica is 'Name of the replica that the caller called, in UTF-8.';
comment on column audit.left_out is 'So many rows before this one were not kept: more calls were refused than could be written.';

create view rallypoint_log.audit as
select
    a.at,
    rallypoint_log.readable(a.caller) as caller,
    rallypoint_log.readable(a.namespace) as namespace,
    rallypoint_log.readable(a.method) as method,
    rallypoint_log.readable(a.object) as object,
    rallypoint_log.readable(a.outcome) as outcome,
    rallypoint_log.readable(a.reason) as reason,
    rallypoint_log.readable(a.address) as address,
    rallypoint_log.readable(a.replica) as replica,
    a.left_out,
    a.shard
from audit a
union all
select
    s.opened_at,
    rallypoint_log.readable(s.caller),
    rallypoint_log.readable(s.namespace),
    'SchedulerService/GetScheduler',
    'scheduler ' || s.handle,
    'OK',
    '',
    '',
    '',
    0,
    s.shard
from scheduler s;

comment on view rallypoint_log.audit is 'A row per call that changed something, or was refused: who, what, when. Schedulers that were opened are among them; submitted tasks are in execution_log.';
comment on column rallypoint_log.audit.at is 'When the call was answered, by the time of the service.';
comment on column rallypoint_log.audit.caller is 'Identity of the caller, or the name it gives itself where callers are not known; empty: not known.';
comment on column rallypoint_log.audit.namespace is 'Namespace of the call; empty: the caller was refused before it was known.';
comment on column rallypoint_log.audit.method is 'Service and method.';
comment on column rallypoint_log.audit.object is 'What the call was about; empty: it was refused before it was read.';
comment on column rallypoint_log.audit.outcome is 'OK, UNKNOWN (the caller left before the answer), or the reason of the error.';
comment on column rallypoint_log.audit.reason is 'Why, as the caller says.';
comment on column rallypoint_log.audit.address is 'Address from which the call came; empty: not kept.';
comment on column rallypoint_log.audit.replica is 'Name of the replica that was called; empty: not kept.';
comment on column rallypoint_log.audit.left_out is 'So many rows before this one were not kept: more calls were refused than could be written.';
comment on column rallypoint_log.audit.shard is 'Number of the shard; there is one, 0.';
