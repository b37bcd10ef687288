-- The log says who submitted a task, and whether it waits or runs. Programs of before leave the column null.

alter table submission
    add column caller bytea compression lz4;            -- who made the calls, as the caller names itself; null: not known

comment on column submission.caller is 'Who submitted the tasks, as the caller names itself, in UTF-8; null: an earlier version accepted them.';

select set_config('search_path', 'rallypoint_log, ' || current_setting('search_path'), true);

create or replace view submission_row as
select shard, handle, first_seq, day, first_seq + count - 1 as last_seq, readable(caller) as submitted_by
from submission;

create or replace view submitted_task as
select
    s.shard,
    s.handle,
    s.first_seq + t.i - 1 as seq,
    s.day,
    case when s.call_times is null then s.submitted_at else (
        select to_timestamp(max(c.at) / 1000000.0::float8)
        from (
            select at, sum(n) over (order by k) - n as earlier
            from unnest(s.call_counts, s.call_times) with ordinality as calls (n, at, k)
        ) c
        where c.earlier < t.i
    ) end as submitted_at,
    nullif(t.asked, -1) as asked_order,
    nullif(coalesce(t.effective, t.asked), -1) as effective_order,
    case coalesce(t.kind, 1) when 1 then 'sql' when 2 then 'noop' else t.kind::text end as kind,
    p.specs -> coalesce(t.spec, 0) as spec,
    packed_item(p.bodies, t.body_start, t.body_end) as body,
    packed_item(p.params, t.params_start, t.params_end) as params,
    s.first_seq as row_first_seq,
    readable(s.caller) as submitted_by,
    nullif(t.retry_of, 0) as retry_of
from submission s
-- unpacked once a row, not once a task; left out when no column of it is asked for
cross join lateral (
    select s.bodies || ''::bytea as bodies, s.params || ''::bytea as params, as_json(s.specs) as specs offset 0
) p
cross join lateral unnest(
    s.body_ends, 0 || s.body_ends, s.params_ends, 0 || s.params_ends, s.asked_order, s.effective_order, s.kind, s.spec, s.retry_of
) with ordinality as t (body_end, body_start, params_end, params_start, asked, effective, kind, spec, retry_of, i)
where t.i <= s.count;

-- The tasks of a scheduler from one to another, as rows of the log, with outcomes written on a day or later.
create function executions_between(shard int2, handle uuid, first_seq int8, last_seq int8, from_day date)
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
            when l.begun > l.over then 'running'
            when l.over = l.failed then 'retrying'
            else 'waiting'
        end,
        l.submitted_by
    from schedulers r
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

create or replace view execution_log as
select e.*
from schedulers r
cross join lateral executions_between(r.shard, r.handle, 1, 1::int8 << 62, '-infinity') e;

create or replace view failures as
select e.*
from (
    select c.shard, c.handle, min(c.day) as day, range_agg(part) as parts
    from completion_row c
    cross join lateral unnest(c.parts) as part
    where c.failed > 0
    group by c.shard, c.handle
) f
cross join lateral unnest(f.parts) as part
cross join lateral executions_between(f.shard, f.handle, lower(part), upper(part) - 1, f.day) e
where e.outcome in ('failed', 'timed out', 'exhausted');

create or replace function task(handle uuid, seq int8) returns setof execution_log
language sql stable rows 1
begin atomic
    select e.*
    from schedulers r
    cross join lateral executions_between(r.shard, r.handle, task.seq, task.seq, '-infinity') e
    where r.handle = task.handle;
end;

create or replace function executions_since(age interval) returns setof execution_log
language sql stable
begin atomic
    select e.*
    from (
        select c.shard, c.handle, range_agg(part) as parts
        from completion_row c
        cross join lateral unnest(c.parts) as part
        where c.day >= first_day(now() - executions_since.age) and c.last_ended_at >= now() - executions_since.age
        group by c.shard, c.handle
    ) f
    cross join lateral unnest(f.parts) as part
    cross join lateral executions_between(
        f.shard, f.handle, lower(part), upper(part) - 1, first_day(now() - executions_since.age)
    ) e
    where e.ended_at >= now() - executions_since.age;
end;

-- The function of before stays when somebody has built on it.
do $$
begin
    drop function executions_of(int2, uuid, int8, int8, date);
exception when dependent_objects_still_exist then
    raise warning 'the function executions_of stays, since others depend on it; executions_between knows more';
end $$;

create function submitted_by(handle uuid, seq int8) returns text
language sql stable
begin atomic
    select s.submitted_by
    from schedulers r
    cross join lateral (
        select s.submitted_by, s.last_seq
        from submission_row s
        where s.shard = r.shard and s.handle = r.handle and s.first_seq <= submitted_by.seq
        order by s.first_seq desc
        limit 1
    ) s
    where r.handle = submitted_by.handle and submitted_by.seq <= s.last_seq;
end;

create or replace view execution_status as
with running as (
    select a.shard, a.handle, a.seq, max(a.attempt) as attempt, max(a.at) filter (where a.kind = 1) as started_at, max(a.day) as day
    from attempt a
    join scheduler r on r.shard = a.shard and r.handle = a.handle and r.state <> 3
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

comment on column execution_log.started_at is 'When its last attempt started, or the one that runs; null: it never did, or waits.';
comment on column execution_log.attempt is 'Number of the last attempt that began; 0: none did; null: none has begun yet. Earlier ones: attempts.';
comment on column execution_log.state is 'done: see outcome; running: an attempt has begun, at least 100 ms ago or not for the first time; retrying: an attempt failed or was lost, and the next one has not begun; waiting: none has begun.';
comment on column execution_log.submitted_by is 'Who submitted it (ExecAsync, RetryTask, RetryFailed), as the caller named itself; null: not known, an earlier version accepted it.';
comment on column failures.state is 'done.';
comment on column failures.submitted_by is 'Who submitted it (ExecAsync, RetryTask, RetryFailed), as the caller named itself; null: not known, an earlier version accepted it.';
comment on column submission_row.last_seq is 'Last task of the row.';
comment on column submission_row.submitted_by is 'Who submitted its tasks, as the caller named itself; null: not known, an earlier version accepted them.';
comment on column submitted_task.submitted_by is 'Who submitted it, as the caller named itself; null: not known, an earlier version accepted it.';
comment on column submitted_task.retry_of is 'The task of which this one is a copy; null: it is none.';
comment on column execution_status.state is 'running; idle; unknown: what the session runs is not seen here, since its target lies on another server or the statement is long.';
comment on column execution_status.submitted_by is 'Who submitted the task, as the caller named itself; null: idle, not known, or not seen here.';
comment on function executions_between(int2, uuid, int8, int8, date) is 'The rows of execution_log of one scheduler, from one task to another, with the events written on a day or later.';
comment on function submitted_by(uuid, int8) is 'Who submitted a task, as the caller named itself; null: there is no such task, or an earlier version accepted it.';
