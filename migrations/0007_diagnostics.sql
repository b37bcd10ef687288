-- What a target said of the last attempt of a task besides its result: a JSON object for each event, packed one behind the
-- other, with the replica that ran it, notices, and the parts of an error. Null: nothing was said.

alter table completion
    add column diagnostics_ends int4[],
    add column diagnostics bytea compression lz4;

-- A row per AsyncDone event.
create or replace view task_outcome as
select
    c.shard,
    c.handle,
    coalesce(t.seq, c.min_seq + t.i - 1) as seq,
    c.first_done_no + t.i - 1 as done_no,
    c.day,
    nullif(t.task_order, -1) as task_order,
    coalesce(t.outcome, 1::int2) as outcome,
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
    packed_item(p.diagnostics, t.diagnostics_start, t.diagnostics_end) as diagnostics
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

-- A row per task: the log (the seed's ExecutionLog). Its id is (handle, seq).
create or replace view execution_log as
select
    r.shard,
    r.handle,
    l.seq,
    readable(r.namespace) as namespace,
    readable(r.caller) as caller,
    l.effective_order as task_order,
    l.asked_order,
    l.kind,
    case l.kind when 'sql' then readable(l.body) end as statement,
    l.submitted_at,
    l.started_at,
    l.ended_at,
    case l.outcome
        when 1 then 'succeeded' when 2 then 'failed' when 3 then 'cancelled' when 4 then 'timed out' when 5 then 'exhausted'
    end as outcome,
    l.done_no,
    l.attempt,
    l.slot,
    l.backend_pid,
    readable(substring(l.error from 2 for get_byte(l.error, 0))) as error_code,
    readable(substring(l.error from 2 + get_byte(l.error, 0))) as error_message,
    l.rows_affected,
    readable(l.diagnostics)::json ->> 'replica' as replica,
    readable(l.diagnostics)::json ->> 'notices' as notices,
    readable(l.diagnostics)::json as diagnostics
from scheduler r
-- A full join, though no outcome lacks its task, since it is never done by unpacking all outcomes anew for each task: the
-- planner cannot know how much is packed in a row. The offset keeps conditions from turning it into another join.
cross join lateral (
    select *
    from (
        select seq, effective_order, asked_order, kind, body, submitted_at
        from submitted_task
        where shard = r.shard and handle = r.handle
    ) t
    full join (
        select seq, started_at, ended_at, outcome, done_no, attempt, slot, backend_pid, error, rows_affected, diagnostics
        from task_outcome
        where shard = r.shard and handle = r.handle
    ) o using (seq)
    offset 0
) l;
