-- A task whose outcome is past its retention does not run: outcomes go a day before the attempts, and for that day tasks of a
-- scheduler that was still open were listed as running.

select set_config('search_path', 'rallypoint_log, ' || current_setting('search_path'), true);

create or replace view execution_status as
with running as (
    select a.shard, a.handle, a.seq, max(a.attempt) as attempt, max(a.at) filter (where a.kind = 1) as started_at, max(a.day) as day
    from attempt a
    -- Outcomes go a day before the attempts: of a task that the checkpoint knows to be over none may be left. The checkpoint is
    -- unpacked once a scheduler, not once an attempt.
    join (
        select shard, handle, highest_seq, unfinished + '{}'::int8multirange as unfinished
        from scheduler
        where state <> 3
        offset 0
    ) r on r.shard = a.shard and r.handle = a.handle and (a.seq > r.highest_seq or r.unfinished @> a.seq)
    where a.kind <> 6
    group by a.shard, a.handle, a.seq
    having max(a.attempt) filter (where a.kind = 1) > coalesce(max(a.attempt) filter (where a.kind in (3, 4, 5)), 0)
),
here as (
    select s.shard, s.replica, s.target, s.slot, s.backend_pid, s.backend_start, p.state,
           case when p.state <> 'idle' then coalesce(
               substring(p.query from '/\*task=''([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})%2F[0-9]{1,18}''\*/$'),
               substring(p.application_name from '^rallypoint/([0-9a-f-]{36})/')
           )::uuid end as handle,
           case when p.state <> 'idle' then coalesce(
               substring(p.query from '/\*task=''[0-9a-f-]{36}%2F([0-9]{1,18})''\*/$'),
               substring(p.application_name from '^rallypoint/[0-9a-f-]{36}/([0-9]{1,18})$')
           )::int8 end as seq
    from session s
    left join pg_stat_activity p on p.pid = s.backend_pid and p.backend_start = s.backend_start
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
    readable(r.namespace) as namespace,
    readable(r.caller) as caller,
    a.started_at,
    left(statement(coalesce(h.handle, a.handle), coalesce(h.seq, a.seq)), 200) as statement,
    case when coalesce(h.handle, a.handle) is not null then 'running' when h.state = 'idle' then 'idle' else 'unknown' end as state,
    submitted_by(coalesce(h.handle, a.handle), coalesce(h.seq, a.seq)) as submitted_by
from here h
full join (
    select a.* from running a
    where not exists (
        select from task_outcome o
        where o.shard = a.shard and o.handle = a.handle and o.seq = a.seq and o.day >= a.day and a.seq <= o.row_max_seq
    )
) a on a.shard = h.shard and a.handle = h.handle and a.seq = h.seq
left join replica e on e.shard = h.shard and e.replica = h.replica
left join scheduler r on r.shard = coalesce(h.shard, a.shard) and r.handle = coalesce(h.handle, a.handle);

comment on view audit is 'A row per call that changed something, or was refused: who, what, when. Schedulers that were opened are among them, those of runs of jobs in the name of whoever changed the job last; submitted tasks are in execution_log.';
