-- A task whose outcome is past its retention does not run, and does not wait: outcomes go a day before the tasks, and for that
-- day tasks of a scheduler that was still open were listed as running or waiting.

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

create or replace function executions_between(shard int2, handle uuid, first_seq int8, last_seq int8, from_day date)
returns table (
    shard int2, handle uuid, seq int8, namespace text, caller text, task_order int8, asked_order int8, kind text, target text,
    statement text, submitted_at timestamptz, started_at timestamptz, ended_at timestamptz, outcome text, done_no int8,
    attempt int4, replica text, slot int4, backend_pid int4, error_code text, error_message text, rows_affected int8,
    notices text, diagnostics json, retry_of int8, retried_as int8, state text, submitted_by text
)
language sql stable
begin atomic
    select
        r.shard,
        r.handle,
        l.seq,
        r.namespace,
        r.caller,
        l.effective_order,
        l.asked_order,
        l.kind,
        substring(l.spec ->> 'work' from '^sql/(.*)$'),
        case l.kind when 'sql' then left(readable(l.body), 200) end,
        l.submitted_at,
        case when l.done_no is not null then l.started_at when l.begun > l.over then l.begun_at end,
        l.ended_at,
        l.outcome,
        l.done_no,
        case when l.done_no is not null then l.attempt else greatest(l.begun, l.over) end,
        l.said ->> 'replica',
        l.slot,
        l.backend_pid,
        readable(substring(l.error from 2 for get_byte(l.error, 0))),
        readable(substring(l.error from 2 + get_byte(l.error, 0))),
        l.rows_affected,
        l.said ->> 'notices',
        l.said,
        l.retry_of,
        l.retried_as,
        case
            when l.done_no is not null then 'done'
            -- its outcome is past the retention
            when l.seq <= k.highest_seq and not k.unfinished @> l.seq then 'done'
            when l.begun > l.over then 'running'
            when l.over = l.failed then 'retrying'
            else 'waiting'
        end,
        l.submitted_by
    from schedulers r
    cross join lateral (
        select k.highest_seq, k.unfinished + '{}'::int8multirange as unfinished
        from scheduler k
        where k.shard = r.shard and k.handle = r.handle
        offset 0
    ) k
    -- Full joins, though no outcome lacks its task, since they are never done by unpacking all outcomes anew for each task: the
    -- planner cannot know how much is packed in a row. The offset keeps conditions from turning them into other joins.
    cross join lateral (
        select *, as_json(diagnostics) as said
        from (
            select t.seq, t.effective_order, t.asked_order, t.kind, t.spec, t.body, t.submitted_at, t.submitted_by, t.retry_of
            from submitted_task t
            where t.shard = r.shard
                and t.handle = r.handle
                and t.row_first_seq <= executions_between.last_seq
                and t.row_first_seq >= case when executions_between.first_seq <= 1 then 1 else coalesce((
                    select max(s.first_seq)
                    from submission_row s
                    where s.shard = r.shard and s.handle = r.handle and s.first_seq <= executions_between.first_seq
                ), 1) end
                and t.seq between executions_between.first_seq and executions_between.last_seq
        ) t
        full join (
            -- by the end of a narrow row; wide rows are few
            select o.seq, o.started_at, o.ended_at, o.outcome, o.done_no, o.attempt, o.slot, o.backend_pid, o.error,
                   o.rows_affected, o.diagnostics
            from task_outcome o
            where o.shard = r.shard
                and o.handle = r.handle
                and o.day >= executions_between.from_day
                and o.row_max_seq between executions_between.first_seq and least(executions_between.last_seq, 1::int8 << 62) + 10000
                and o.row_min_seq <= executions_between.last_seq
                and o.row_max_seq - o.row_min_seq <= 10000
                and o.seq between executions_between.first_seq and executions_between.last_seq
            union all
            select o.seq, o.started_at, o.ended_at, o.outcome, o.done_no, o.attempt, o.slot, o.backend_pid, o.error,
                   o.rows_affected, o.diagnostics
            from task_outcome o
            where o.shard = r.shard
                and o.handle = r.handle
                and o.day >= executions_between.from_day
                and o.row_max_seq >= executions_between.first_seq
                and o.row_min_seq <= executions_between.last_seq
                and o.row_max_seq - o.row_min_seq > 10000
                and o.seq between executions_between.first_seq and executions_between.last_seq
        ) o using (seq)
        full join (
            -- the last attempt that began, the last one that another one follows, and the last of those that failed or were lost
            select
                a.seq,
                coalesce(max(a.attempt) filter (where a.event in ('started', 'cancel requested')), 0) as begun,
                max(a.at) filter (where a.event = 'started') as begun_at,
                coalesce(max(a.attempt) filter (where a.event in ('lost', 'failed', 'handed back')), 0) as over,
                max(a.attempt) filter (where a.event in ('lost', 'failed')) as failed,
                max(a.retry) as retried_as
            from attempts a
            where a.shard = r.shard
                and a.handle = r.handle
                and a.seq between executions_between.first_seq and executions_between.last_seq
            group by a.seq
        ) a using (seq)
        offset 0
    ) l
    where r.shard = executions_between.shard
        and r.handle = executions_between.handle
        and (l.kind is not null or l.done_no is not null);
end;

comment on column execution_log.state is 'done: see outcome, which is null when it is past its retention; running: an attempt has begun, at least 100 ms ago or not for the first time; retrying: an attempt failed or was lost, and the next one has not begun; waiting: none has begun.';
