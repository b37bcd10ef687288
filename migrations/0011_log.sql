-- A log for people with psql, in words, in a schema of its own. No program reads it, so those of before may go on beside it.
--
-- The schema is not called `rallypoint`: a login of that name would find it first, and programs of before would make tables
-- in it.
create schema rallypoint_log;

-- The views of before stay when somebody has built on them.
do $$
begin
    drop view execution_status, execution_log, task_outcome, submitted_task;
exception when dependent_objects_still_exist then
    raise warning 'the views execution_log and execution_status stay, since others depend on them; rallypoint_log has better ones';
end $$;
alter function readable(bytea) set schema rallypoint_log;
alter function packed_item(bytea, int4, int4) set schema rallypoint_log;

-- What follows is made there. Bodies of functions are bound to the tables here and now, whatever their caller's path is.
select set_config('search_path', 'rallypoint_log, ' || current_setting('search_path'), true);

-- A lookup by handle goes through the shards, and must know that they are few.
analyze shard;

-- A plan over all days is worth no compilation: it takes seconds, the query milliseconds. A login that may not say so for
-- everybody here leaves it to those who read.
do $$
begin
    execute format('alter database %I set jit = off', current_database());
exception when insufficient_privilege then
    null;
end $$;

-- Bytes as JSON, with U+FFFD for the characters that no text can hold; null when they are none.
create function as_json(raw bytea) returns json
language plpgsql immutable strict as $$
begin
    return regexp_replace(convert_from(raw, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json;
exception when others then
    return null;
end $$;

-- The first day on which a row may lie that was written at a time or later: a day may have been missing when it began, and
-- the one before it has its rows then (LATE_DAYS in src/journal/day_partitions.rs).
create function first_day(at timestamptz) returns date
language sql stable
begin atomic
    select least(d.day, (
        select max(to_date(p.day, 'YYYY_MM_DD'))
        -- the offset keeps names of other tables from being read as days
        from (select right(inhrelid::regclass::text, 10) as day from pg_inherits where inhparent = 'completion'::regclass offset 0) p
        where to_date(p.day, 'YYYY_MM_DD') <= d.day
    ))
    from (select (first_day.at at time zone 'UTC')::date - 3 as day) d;
end;

-- Rows as they are stored, to search for those that are worth unpacking.

create view submission_row as
select shard, handle, first_seq, day
from submission;

create view completion_row as
select
    c.shard,
    c.handle,
    c.day,
    c.failed,
    greatest(c.ended_at, (select to_timestamp(max(e.at) / 1000000.0::float8) from unnest(c.ended) as e (at))) as last_ended_at,
    -- of a narrow row the tasks between its ends, of a wide one those near each of its tasks
    case when c.seq is null or c.max_seq - c.min_seq <= 10000
        then int8multirange(int8range((c.min_seq - 1) / 1024 * 1024 + 1, (c.max_seq - 1) / 1024 * 1024 + 1025))
        else (
            select range_agg(int8range((t.seq - 1) / 1024 * 1024 + 1, (t.seq - 1) / 1024 * 1024 + 1025))
            from unnest(c.seq) as t (seq)
        )
    end as parts
from completion c;

-- A row per task submitted.
create view submitted_task as
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
    s.first_seq as row_first_seq
from submission s
-- unpacked once a row, not once a task; left out when no column of it is asked for
cross join lateral (
    select s.bodies || ''::bytea as bodies, s.params || ''::bytea as params, as_json(s.specs) as specs offset 0
) p
cross join lateral unnest(
    s.body_ends, 0 || s.body_ends, s.params_ends, 0 || s.params_ends, s.asked_order, s.effective_order, s.kind, s.spec
) with ordinality as t (body_end, body_start, params_end, params_start, asked, effective, kind, spec, i)
where t.i <= s.count;

-- A row per AsyncDone event.
create view task_outcome as
select
    c.shard,
    c.handle,
    coalesce(t.seq, c.min_seq + t.i - 1) as seq,
    c.first_done_no + t.i - 1 as done_no,
    c.day,
    nullif(t.task_order, -1) as task_order,
    case coalesce(t.outcome, 1::int2)
        when 1 then 'succeeded' when 2 then 'failed' when 3 then 'cancelled' when 4 then 'timed out' when 5 then 'exhausted'
        else t.outcome::text
    end as outcome,
    coalesce(t.attempt, 1) as attempt,
    case when t.started is null then c.started_at when t.started > 0 then to_timestamp(t.started / 1000000.0::float8) end
        as started_at,
    case when t.ended is null then c.ended_at else to_timestamp(t.ended / 1000000.0::float8) end as ended_at,
    coalesce(t.slot, 0) as slot,
    nullif(coalesce(t.backend_pid, 0), 0) as backend_pid,
    packed_item(p.errors, t.error_start, t.error_end) as error,
    nullif(t.rows_affected, -1) as rows_affected,
    packed_item(p.results, t.result_start, t.result_end) as result,
    coalesce(t.truncated, 0) = 1 as truncated,
    packed_item(p.diagnostics, t.diagnostics_start, t.diagnostics_end) as diagnostics,
    c.min_seq as row_min_seq,
    c.max_seq as row_max_seq
from completion c
cross join lateral (
    select c.errors || ''::bytea as errors, c.results || ''::bytea as results, c.diagnostics || ''::bytea as diagnostics offset 0
) p
cross join lateral rows from (
    generate_series(1, c.count), unnest(c.seq), unnest(c.task_order), unnest(c.outcome), unnest(c.attempt), unnest(c.started),
    unnest(c.ended), unnest(c.slot), unnest(c.backend_pid), unnest(c.error_ends), unnest(0 || c.error_ends),
    unnest(c.rows_affected), unnest(c.result_ends), unnest(0 || c.result_ends), unnest(c.truncated), unnest(c.diagnostics_ends),
    unnest(0 || c.diagnostics_ends)
) as t (i, seq, task_order, outcome, attempt, started, ended, slot, backend_pid, error_end, error_start, rows_affected,
        result_end, result_start, truncated, diagnostics_end, diagnostics_start)
where t.i is not null;

create view schedulers as
select
    r.shard,
    r.handle,
    readable(r.namespace) as namespace,
    readable(r.caller) as caller,
    nullif(v.settings ->> 'display_name', '') as display_name,
    case r.state when 1 then 'open' when 2 then 'releasing' when 3 then 'released' else r.state::text end as state,
    case r.release_mode when 1 then 'finish' when 2 then 'cancel' else r.release_mode::text end as release_mode,
    r.paused,
    (as_json(r.halt) ->> 'order')::int8 as halted_by_order,
    -- A checkpoint of a scheduler that rests is exact; others have later rows.
    case when r.resting then r.highest_seq else greatest(r.highest_seq, (
        select s.first_seq + s.count - 1
        from submission s
        where s.shard = r.shard and s.handle = r.handle
        order by s.first_seq desc
        limit 1
    )) end as submitted,
    case when r.resting then r.done_no else greatest(r.done_no, (
        select c.first_done_no + c.count - 1
        from completion c
        where c.shard = r.shard and c.handle = r.handle
        order by c.first_done_no desc
        limit 1
    )) end as ended,
    r.opened_at,
    r.released_at,
    (v.settings ->> 'max_parallelism')::int4 as max_parallelism,
    v.settings
from shard x
join scheduler r on r.shard = x.shard
cross join lateral (select as_json(r.settings) as settings offset 0) v;

-- A row per step of an attempt that has a row of its own.
create view attempts as
select
    a.shard,
    a.handle,
    a.seq,
    a.attempt,
    case a.kind
        when 1 then 'started' when 2 then 'cancel requested' when 3 then 'lost' when 4 then 'failed' when 5 then 'handed back'
        else a.kind::text
    end as event,
    a.at,
    a.next_at,
    readable(substring(a.error from 2 for get_byte(a.error, 0))) as error_code,
    readable(substring(a.error from 2 + get_byte(a.error, 0))) as error_message
from attempt a;

-- The tasks of a scheduler from one to another, as rows of the log, with outcomes written on a day or later.
create function executions_of(shard int2, handle uuid, first_seq int8, last_seq int8, from_day date)
returns table (
    shard int2, handle uuid, seq int8, namespace text, caller text, task_order int8, asked_order int8, kind text, target text,
    statement text, submitted_at timestamptz, started_at timestamptz, ended_at timestamptz, outcome text, done_no int8,
    attempt int4, replica text, slot int4, backend_pid int4, error_code text, error_message text, rows_affected int8,
    notices text, diagnostics json
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
        l.started_at,
        l.ended_at,
        l.outcome,
        l.done_no,
        l.attempt,
        l.said ->> 'replica',
        l.slot,
        l.backend_pid,
        readable(substring(l.error from 2 for get_byte(l.error, 0))),
        readable(substring(l.error from 2 + get_byte(l.error, 0))),
        l.rows_affected,
        l.said ->> 'notices',
        l.said
    from schedulers r
    -- A full join, though no outcome lacks its task, since it is never done by unpacking all outcomes anew for each task: the
    -- planner cannot know how much is packed in a row. The offset keeps conditions from turning it into another join.
    cross join lateral (
        select *, as_json(diagnostics) as said
        from (
            select t.seq, t.effective_order, t.asked_order, t.kind, t.spec, t.body, t.submitted_at
            from submitted_task t
            where t.shard = r.shard
                and t.handle = r.handle
                and t.row_first_seq <= executions_of.last_seq
                and t.row_first_seq >= case when executions_of.first_seq <= 1 then 1 else coalesce((
                    select max(s.first_seq)
                    from submission_row s
                    where s.shard = r.shard and s.handle = r.handle and s.first_seq <= executions_of.first_seq
                ), 1) end
                and t.seq between executions_of.first_seq and executions_of.last_seq
        ) t
        full join (
            -- by the end of a narrow row; wide rows are few
            select o.seq, o.started_at, o.ended_at, o.outcome, o.done_no, o.attempt, o.slot, o.backend_pid, o.error,
                   o.rows_affected, o.diagnostics
            from task_outcome o
            where o.shard = r.shard
                and o.handle = r.handle
                and o.day >= executions_of.from_day
                and o.row_max_seq between executions_of.first_seq and least(executions_of.last_seq, 1::int8 << 62) + 10000
                and o.row_min_seq <= executions_of.last_seq
                and o.row_max_seq - o.row_min_seq <= 10000
                and o.seq between executions_of.first_seq and executions_of.last_seq
            union all
            select o.seq, o.started_at, o.ended_at, o.outcome, o.done_no, o.attempt, o.slot, o.backend_pid, o.error,
                   o.rows_affected, o.diagnostics
            from task_outcome o
            where o.shard = r.shard
                and o.handle = r.handle
                and o.day >= executions_of.from_day
                and o.row_max_seq >= executions_of.first_seq
                and o.row_min_seq <= executions_of.last_seq
                and o.row_max_seq - o.row_min_seq > 10000
                and o.seq between executions_of.first_seq and executions_of.last_seq
        ) o using (seq)
        offset 0
    ) l
    where r.shard = executions_of.shard and r.handle = executions_of.handle;
end;

-- A row per task: the log (the seed's ExecutionLog). Its id is (handle, seq).
create view execution_log as
select e.*
from schedulers r
cross join lateral executions_of(r.shard, r.handle, 1, 1::int8 << 62, '-infinity') e;

-- The tasks that failed, timed out or were exhausted: only what lies near one is unpacked.
create view failures as
select e.*
from (
    select c.shard, c.handle, min(c.day) as day, range_agg(part) as parts
    from completion_row c
    cross join lateral unnest(c.parts) as part
    where c.failed > 0
    group by c.shard, c.handle
) f
cross join lateral unnest(f.parts) as part
cross join lateral executions_of(f.shard, f.handle, lower(part), upper(part) - 1, f.day) e
where e.outcome in ('failed', 'timed out', 'exhausted');

create function task(handle uuid, seq int8) returns setof execution_log
language sql stable rows 1
begin atomic
    select e.*
    from schedulers r
    cross join lateral executions_of(r.shard, r.handle, task.seq, task.seq, '-infinity') e
    where r.handle = task.handle;
end;

create function statement(handle uuid, seq int8) returns text
language sql stable
begin atomic
    select readable(t.body)
    from schedulers r
    cross join lateral (
        select t.body
        from submitted_task t
        where t.shard = r.shard
            and t.handle = r.handle
            and t.row_first_seq = (
                select max(s.first_seq)
                from submission_row s
                where s.shard = r.shard and s.handle = r.handle and s.first_seq <= statement.seq
            )
            and t.seq = statement.seq
            and t.kind = 'sql'
        offset 0
    ) t
    where r.handle = statement.handle;
end;

create function executions_since(age interval) returns setof execution_log
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
    cross join lateral executions_of(
        f.shard, f.handle, lower(part), upper(part) - 1, first_day(now() - executions_since.age)
    ) e
    where e.ended_at >= now() - executions_since.age;
end;

-- What runs where, as far as the database knows (the seed's ExecutionStatus): the registered sessions, with their task when
-- the target lies on this server, and the attempts that have a row (those that outlive 100 ms) and no outcome.
create view execution_status as
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
    readable(r.namespace) as namespace,
    readable(r.caller) as caller,
    a.started_at,
    left(statement(coalesce(h.handle, a.handle), coalesce(h.seq, a.seq)), 200) as statement
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
