-- Resources, and claims on them. Programs of before leave the rows as they are: nothing is granted while one of them owns the shard.

-- One row a resource, or a pattern of names.
create table resource (
    shard int2 not null,
    namespace bytea not null,
    name bytea not null,
    settings bytea not null,                            -- JSON: capacity, lock_delay, max_hold
    created_at timestamptz not null,
    changed_at timestamptz not null,
    changed_by bytea not null,                          -- the caller, as it names itself
    deleted boolean not null,
    constraint resource_pkey primary key (shard, namespace, name)
);

-- One row: something happened to a claim. Rows are never updated.
create table claim (
    shard int2 not null,
    claim_no int8 not null,                             -- place in line of the whole shard
    kind int2 not null,                                 -- 1 requested, 2 granted, 3 ended
    at timestamptz not null,
    spec bytea compression lz4,                         -- JSON: what it asks for; with its first row
    token int8,                                         -- of a grant
    ended int2,                                         -- how it ended, see ClaimEnd
    free_at timestamptz,                                -- when others may have what it held
    ended_by bytea,                                     -- the operator who ended it
    reason bytea,                                       -- as the operator gave it
    constraint claim_pkey primary key (shard, claim_no, kind)
);

-- For the retention.
create index claim_at on claim using brin (at);

-- One row a shard: which claims a recovery reads, besides all later ones.
create table claim_checkpoint (
    shard int2 not null,
    last_claim int8 not null,
    token int8 not null,                                -- the highest so far
    needed int8multirange not null,
    constraint claim_checkpoint_pkey primary key (shard)
);

comment on table resource is 'One row a resource, or a pattern of names. One that is deleted keeps its row.';
comment on column resource.shard is 'Number of the shard; there is one, 0.';
comment on column resource.namespace is 'Whose it is, in UTF-8.';
comment on column resource.name is 'Its name, in UTF-8; with /* at its end for all names below.';
comment on column resource.settings is 'JSON in UTF-8: capacity, lock_delay, max_hold.';
comment on column resource.created_at is 'When, by the time of the service.';
comment on column resource.changed_at is 'When it was created, changed or deleted last.';
comment on column resource.changed_by is 'The caller who did that, as it names itself, in UTF-8.';
comment on column resource.deleted is 'It is there no more.';
comment on table claim is 'One row for the request, the grant and the end of each claim on resources.';
comment on column claim.shard is 'Number of the shard; there is one, 0.';
comment on column claim.claim_no is 'Rises from request to request: the place in line.';
comment on column claim.kind is '1 requested, 2 granted, 3 ended. One that never waited has no row of kind 1.';
comment on column claim.at is 'When, by the time of the service.';
comment on column claim.spec is 'JSON in UTF-8: resources, owner, reason, labels, lease. With the first row of the claim.';
comment on column claim.token is 'Fencing token, with a grant: rises from grant to grant, for ever.';
comment on column claim.ended is '1 released, 2 withdrawn, 3 waited too long, 4 abandoned in waiting, 5 lease over, 6 held too long, 7 ended by an operator.';
comment on column claim.free_at is 'When others may have what it held.';
comment on column claim.ended_by is 'The operator who ended it, in UTF-8; null: none.';
comment on column claim.reason is 'As the operator gave it, in UTF-8.';
comment on table claim_checkpoint is 'One row a shard: which claims a recovery reads, besides all later ones.';
comment on column claim_checkpoint.shard is 'Number of the shard; there is one, 0.';
comment on column claim_checkpoint.last_claim is 'The last claim so far.';
comment on column claim_checkpoint.token is 'The highest fencing token so far.';
comment on column claim_checkpoint.needed is 'Claims up to the last one that were open or remembered.';

create view rallypoint_log.resources as
select
    rallypoint_log.readable(r.namespace) as namespace,
    rallypoint_log.readable(r.name) as name,
    rallypoint_log.readable(r.settings) as settings,
    r.created_at,
    r.changed_at,
    rallypoint_log.readable(r.changed_by) as changed_by,
    r.deleted,
    r.shard
from resource r;

comment on view rallypoint_log.resources is 'A row per resource, and per pattern of names.';
comment on column rallypoint_log.resources.namespace is 'Whose it is.';
comment on column rallypoint_log.resources.name is 'Its name; with /* at its end for all names below.';
comment on column rallypoint_log.resources.settings is 'JSON: capacity, lock_delay, max_hold.';
comment on column rallypoint_log.resources.created_at is 'When, by the time of the service.';
comment on column rallypoint_log.resources.changed_at is 'When it was created, changed or deleted last.';
comment on column rallypoint_log.resources.changed_by is 'The caller who did that, as it names itself.';
comment on column rallypoint_log.resources.deleted is 'True: it is there no more.';
comment on column rallypoint_log.resources.shard is 'Number of the shard; there is one, 0.';

create view rallypoint_log.claims as
select
    first.claim_no as claim,
    rallypoint_log.readable(first.spec) as asks_for,
    first.at as requested_at,
    granted.at as granted_at,
    granted.token,
    ended.at as ended_at,
    case ended.ended when 1 then 'released' when 2 then 'withdrawn' when 3 then 'waited too long' when 4 then 'abandoned in waiting'
        when 5 then 'lease over' when 6 then 'held too long' when 7 then 'ended by an operator' else ended.ended::text end as ended,
    rallypoint_log.readable(ended.ended_by) as ended_by,
    rallypoint_log.readable(ended.reason) as reason,
    first.shard
from claim first
left join claim granted on granted.shard = first.shard and granted.claim_no = first.claim_no and granted.kind = 2
left join claim ended on ended.shard = first.shard and ended.claim_no = first.claim_no and ended.kind = 3
where first.spec is not null;

comment on view rallypoint_log.claims is 'A row per claim on resources: who asked for what, when it was granted, how it ended.';
comment on column rallypoint_log.claims.claim is 'Its number, which is its place in line.';
comment on column rallypoint_log.claims.asks_for is 'JSON: namespace, resources (wants), owner, reason, labels, lease.';
comment on column rallypoint_log.claims.requested_at is 'When it was requested, by the time of the service.';
comment on column rallypoint_log.claims.granted_at is 'When it was granted; null: not (yet).';
comment on column rallypoint_log.claims.token is 'Its fencing token; null: not granted.';
comment on column rallypoint_log.claims.ended_at is 'When it ended; null: it is open.';
comment on column rallypoint_log.claims.ended is 'How it ended.';
comment on column rallypoint_log.claims.ended_by is 'The operator who ended it, if one did.';
comment on column rallypoint_log.claims.reason is 'As the operator gave it.';
comment on column rallypoint_log.claims.shard is 'Number of the shard; there is one, 0.';
