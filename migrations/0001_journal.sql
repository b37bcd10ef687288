-- The journal: what a coordinator remembers, and recovers from.
--
-- Hot tables (submission, completion, attempt, batch) are append-only: what is old goes with its partition. The first three
-- are partitioned by the UTC day on which a row was written, the last by number; the service makes partitions ahead and
-- drops those nobody needs. Per-task values are arrays, null where every element is the default. What callers, workers and
-- targets say is bytea; the views decode it.

create table shard (
    shard int2 not null,
    epoch int8 not null,
    owner text,
    owner_id uuid,
    lease_until timestamptz,
    handover_to uuid,                                   -- may take over at once
    constraint shard_pkey primary key (shard),
    constraint shard_number check (shard between 0 and 4095),
    constraint shard_epoch check (epoch >= 0)
) with (fillfactor = 10);

create table batch (
    shard int2 not null,
    batch_no int8 not null,
    epoch int8 not null,
    at timestamptz not null,
    constraint batch_pkey primary key (shard, batch_no)
) partition by range (batch_no);

create table batch_0 partition of batch for values from (0) to (1000000);

-- Every batch needs its predecessor: this is the first one's.
insert into shard (shard, epoch) values (0, 0);
insert into batch (shard, batch_no, epoch, at) values (0, 0, 0, now());

create table replica (
    shard int2 not null,
    replica uuid not null,
    name text not null,
    address text,                                       -- where other replicas reach it
    stopping boolean not null default false,
    epoch int8 not null,
    -- its executor: what it has slots for, and how many
    works text[] not null default '{}',
    slots int4[] not null default '{}',
    incarnation int4 not null default 1,                -- rises when it begins afresh after it was fenced
    fenced int4 not null default 0,                     -- up to this one it opens no more sessions
    started_at timestamptz not null,
    seen_at timestamptz not null,
    constraint replica_pkey primary key (shard, replica)
) with (fillfactor = 50);

create table session (
    shard int2 not null,
    replica uuid not null,
    incarnation int4 not null,
    target text not null,
    slot int4 not null,
    backend_pid int4 not null,
    backend_start timestamptz not null,
    registered_at timestamptz not null default now(),
    constraint session_pkey primary key (shard, replica, incarnation, target, backend_pid, backend_start)
);

create table scheduler (
    shard int2 not null,
    handle uuid not null,
    namespace bytea not null,
    caller bytea not null,
    request_id uuid,
    request_hash int8,
    settings bytea compression lz4 not null,
    state int2 not null,
    release_mode int2,
    paused boolean not null,
    halt bytea compression lz4,
    cancel_rest bytea,
    opened_at timestamptz not null,
    released_at timestamptz,
    -- checkpoint: recovery reads what came later, and the submissions of the unfinished
    first_day date not null,                            -- and no row of an earlier partition
    highest_seq int8 not null,
    done_no int8 not null,
    unfinished int8multirange compression lz4 not null,
    resting boolean not null default false,             -- nothing is unfinished, and nothing came later
    constraint scheduler_pkey primary key (shard, handle),
    constraint scheduler_state check (state in (1, 2, 3)),
    constraint scheduler_release_mode check (release_mode in (1, 2)),
    constraint scheduler_request check ((request_id is null) = (request_hash is null))
) with (fillfactor = 50);

create index scheduler_by_namespace on scheduler (shard, namespace, handle);
create index scheduler_by_request on scheduler (shard, namespace, request_id) where request_id is not null;
create index scheduler_unfinished on scheduler (shard, handle) where state <> 3;
create index scheduler_ended on scheduler (shard, released_at) where state = 3;

-- One row: consecutive tasks of one scheduler, submitted in one batch by one or several calls. The row of a task that is
-- still unfinished when its day goes is moved to the present day; nothing else ever changes a row.
create table submission (
    shard int2 not null,
    handle uuid not null,
    first_seq int8 not null,
    day date not null,
    count int4 not null,
    submitted_at timestamptz not null,                  -- of the first call
    lowest_order int8,                                  -- effective, of the tasks that have one
    highest_order int8,
    -- per task
    asked_order int8[] compression lz4,                 -- -1: none; null: all none
    effective_order int8[] compression lz4,             -- null: as asked
    kind int2[] compression lz4,                        -- 1 sql, 2 noop; null: all sql
    spec int4[] compression lz4,                        -- index into specs, from 0; null: all 0
    specs bytea compression lz4 not null,               -- JSON array: work and options
    body_ends int4[] compression lz4 not null,          -- where each body ends in bodies
    bodies bytea compression lz4 not null,
    params_ends int4[] compression lz4,                 -- null: no parameters; an empty item: none for this task
    params bytea compression lz4,                       -- JSON arrays of text or null
    -- per call
    call_counts int4[] compression lz4,                 -- null: a single call without request
    call_times int8[] compression lz4,                  -- microseconds since 1970; null: all at submitted_at
    request_ids uuid[] compression lz4,                 -- nil: none; null: no call has one
    request_hashes int8[] compression lz4,              -- null with request_ids
    done_nos int8[] compression lz4,                    -- last event before each call; null with request_ids
    constraint submission_pkey primary key (shard, handle, first_seq, day),
    constraint submission_count check (count > 0 and first_seq > 0)
) partition by range (day);

create index submission_times on submission using brin (submitted_at) with (pages_per_range = 16);
-- tasks of one order, newest first: rows of one order by key, the others one by one, without a look at those it cannot be in
create index submission_of_one_order on submission (shard, handle, lowest_order, first_seq) where lowest_order = highest_order;
create index submission_of_many_orders on submission (shard, handle, first_seq, lowest_order, highest_order)
    where lowest_order < highest_order;

-- One row: consecutive events of one scheduler, written in one batch.
create table completion (
    shard int2 not null,
    handle uuid not null,
    first_done_no int8 not null,
    day date not null,
    count int4 not null,
    failed int4 not null,                               -- failed, timed out, exhausted
    min_seq int8 not null,
    max_seq int8 not null,
    started_at timestamptz,                             -- of the first event; null: never started
    ended_at timestamptz not null,                      -- of the first event
    -- per event
    seq int8[] compression lz4,                         -- null: min_seq, min_seq + 1, …
    task_order int8[] compression lz4,                  -- effective; -1: none; null: all none
    outcome int2[] compression lz4,                     -- 1 succeeded, 2 failed, 3 cancelled, 4 timed out, 5 exhausted; null: all 1
    attempt int4[] compression lz4,                     -- 0: never started; null: all 1
    started int8[] compression lz4,                     -- microseconds since 1970, 0: never; null: all as started_at
    ended int8[] compression lz4,                       -- microseconds since 1970; null: all as ended_at
    slot int4[] compression lz4,                        -- null: all 0
    backend_pid int4[] compression lz4,                 -- 0: none; null: all 0
    error_ends int4[] compression lz4,                  -- null: no errors; an empty item: none for this event
    errors bytea compression lz4,                       -- each: one byte, the length of the code; the code; the message
    rows_affected int8[] compression lz4,               -- -1: no result; null: no results
    result_ends int4[] compression lz4,                 -- null: no rows kept
    results bytea compression lz4,                      -- each: rows as a JSON array
    truncated int2[] compression lz4,                   -- 1: rows or bytes left out; null: all 0
    constraint completion_pkey primary key (shard, handle, first_done_no, day),
    constraint completion_count check (count > 0 and first_done_no > 0 and failed between 0 and count and min_seq <= max_seq)
) partition by range (day);

create index completion_times on completion using brin (ended_at) with (pages_per_range = 16);
-- the outcome of a task: in one of the rows that end at or little after it, or in one of the few wide ones
create index completion_by_seq on completion (shard, handle, max_seq, min_seq);
create index completion_wide on completion (shard, handle, min_seq, max_seq) where max_seq - min_seq > 10000;
create index completion_failures on completion (shard, handle, first_done_no) where failed > 0;

create table attempt (
    shard int2 not null,
    handle uuid not null,
    seq int8 not null,
    attempt int4 not null,
    kind int2 not null,                                 -- 1 start, 2 cancel requested, 3 lost, 4 failed, 5 handed back
    day date not null,
    at timestamptz not null,
    next_at timestamptz,
    error bytea compression lz4,                        -- as in completion.errors
    constraint attempt_pkey primary key (shard, handle, seq, attempt, kind, day),
    constraint attempt_kind check (kind between 1 and 5)
) partition by range (day);

create index attempt_times on attempt using brin (at) with (pages_per_range = 16);
