-- A fence shows the end of a session on the very server on which it was opened, and says what it waits for.

alter table session
    -- the server, as it said itself when the session was opened; null: registered by a version that did not ask
    add column system_identifier int8,
    add column server_address text,                     -- null: a Unix socket
    add column server_port int4,
    add column postmaster_start timestamptz,
    -- its end is awaited, and could not be shown so far
    add column pending_since timestamptz,
    add column pending_why text,
    add column declared_dead boolean not null default false;

-- The session that writes the heartbeats of a replica: when it is gone, and nobody answers at the replica's address, the
-- process is gone too, and the next owner need not wait for the lease.
alter table replica
    add column heartbeat_pid int4,
    add column heartbeat_start timestamptz;

-- One row: a session of which an operator has said that it has ended, so that what it ran may be started again. Rows stay.
create table declared_dead (
    shard int2 not null,
    replica uuid not null,
    replica_name text,
    target text not null,
    backend_pid int4 not null,
    backend_start timestamptz not null,
    server_address text,
    server_port int4,
    pending_since timestamptz not null,
    pending_why text,
    declared_at timestamptz not null,
    declared_by text not null,                          -- the caller, as it names itself
    reason text not null,                               -- as the operator gave it
    constraint declared_dead_pkey primary key (shard, replica, target, backend_pid, backend_start)
);
