-- The task that a session runs is named in a comment behind its text, /*task='HANDLE%2FSEQ'*/, and no longer by the
-- application_name of the session, where replicas of an older version still have it. A text longer than
-- track_activity_query_size hides its label; what runs is then known from the attempts alone.
create or replace view execution_status as
with running as (
    select a.shard, a.handle, a.seq, max(a.attempt) as attempt, max(a.at) filter (where a.kind = 1) as started_at, max(a.day) as day
    from attempt a
    join scheduler r on r.shard = a.shard and r.handle = a.handle and r.state <> 3
    group by a.shard, a.handle, a.seq
    having max(a.attempt) filter (where a.kind = 1) > coalesce(max(a.attempt) filter (where a.kind in (3, 4)), 0)
),
here as (
    select s.shard, s.replica, s.target, s.slot, s.backend_pid, s.backend_start,
           coalesce(
               substring(p.query from '/\*task=''([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})%2F[0-9]{1,18}''\*/$'),
               substring(p.application_name from '^rallypoint/([0-9a-f-]{36})/')
           )::uuid as handle,
           coalesce(
               substring(p.query from '/\*task=''[0-9a-f-]{36}%2F([0-9]{1,18})''\*/$'),
               substring(p.application_name from '^rallypoint/[0-9a-f-]{36}/([0-9]{1,18})$')
           )::int8 as seq
    from session s
    left join pg_stat_activity p on p.pid = s.backend_pid and p.backend_start = s.backend_start and p.state <> 'idle'
)
select
    coalesce(h.shard, a.shard) as shard,
    e.name as replica,
    h.target,
    h.slot,
    h.backend_pid,
    coalesce(h.handle, a.handle) as handle,
    coalesce(h.seq, a.seq) as seq,
    a.attempt,
    readable(r.caller) as caller,
    a.started_at
from here h
full join (
    select a.* from running a
    where not exists (
        select from task_outcome o where o.shard = a.shard and o.handle = a.handle and o.seq = a.seq and o.day >= a.day
    )
) a on a.shard = h.shard and a.handle = h.handle and a.seq = h.seq
left join replica e on e.shard = h.shard and e.replica = h.replica
left join scheduler r on r.shard = coalesce(h.shard, a.shard) and r.handle = coalesce(h.handle, a.handle);
