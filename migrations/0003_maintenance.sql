-- Programs of different versions work on one schema at a time: a program that does not know the newest migration goes on as
-- long as it knows the one named here. A migration that an older program could not live with raises it to its own number.
create table schema_version (
    compatible_since int8 not null
);

insert into schema_version (compatible_since) values (3);

-- Who owns the shard, and until when. A row of its own, because each heartbeat rewrites it: the gate, which every batch passes,
-- reads `shard`, and would step over each version that an open snapshot keeps.
create table lease (
    shard int2 not null,
    owner text,
    owner_id uuid,
    lease_until timestamptz,
    handover_to uuid,                                   -- may take over at once
    constraint lease_pkey primary key (shard)
) with (fillfactor = 10);

insert into lease (shard, owner, owner_id, lease_until, handover_to)
select shard, owner, owner_id, lease_until, handover_to
from shard;

alter table shard
    drop column owner,
    drop column owner_id,
    drop column lease_until,
    drop column handover_to;

-- How long the service had lived when it was last on a day: the age of a day does not follow from a clock that may jump.
create table lived_day (
    shard int2 not null,
    day date not null,
    lived_us int8 not null,
    at timestamptz not null,
    constraint lived_day_pkey primary key (shard, day)
);
