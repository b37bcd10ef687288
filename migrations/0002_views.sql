-- For people with psql.

-- Bytes as text, whatever they hold.
create function readable(raw bytea) returns text
language plpgsql immutable strict as $$
begin
    return convert_from(raw, 'UTF8');
exception when others then
    return encode(raw, 'escape');
end $$;

-- The item of a packed value that lies between two ends; null when it is empty.
create function packed_item(packed bytea, starts int4, ends int4) returns bytea
language sql immutable as $$
    select case when ends > starts then substring(packed from starts + 1 for ends - starts) end
$$;

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
    case coalesce(t.kind, 1) when 1 then 'sql' when 2 then 'noop' end as kind,
    coalesce(t.spec, 0) as spec,
    p.specs,
    packed_item(p.bodies, t.body_start, t.body_end) as body,
    packed_item(p.params, t.params_start, t.params_end) as params
from submission s
-- unpacked once a row, not once a task; left out when no column of it is asked for
cross join lateral (
    select s.bodies || ''::bytea as bodies, s.params || ''::bytea as params, s.specs || ''::bytea as specs offset 0
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
    coalesce(t.truncated, 0) = 1 as truncated
from completion c
cross join lateral (select c.errors || ''::bytea as errors, c.results || ''::bytea as results offset 0) p
cross join lateral rows from (
    generate_series(1, c.count), unnest(c.seq), unnest(c.task_order), unnest(c.outcome), unnest(c.attempt), unnest(c.started),
    unnest(c.ended), unnest(c.slot), unnest(c.backend_pid), unnest(c.error_ends), unnest(0 || c.error_ends),
    unnest(c.rows_affected), unnest(c.result_ends), unnest(0 || c.result_ends), unnest(c.truncated)
) as t (i, seq, task_order, outcome, attempt, started, ended, slot, backend_pid, error_end, error_start, rows_affected,
        result_end, result_start, truncated)
where t.i is not null;

-- A row per task: the log (the seed's ExecutionLog). Its id is (handle, seq).
create view execution_log as
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
    l.rows_affected
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
        select seq, started_at, ended_at, outcome, done_no, attempt, slot, backend_pid, error, rows_affected
        from task_outcome
        where shard = r.shard and handle = r.handle
    ) o using (seq)
    offset 0
) l;

-- What runs where, as far as the database knows (the seed's ExecutionStatus): the registered sessions, with their task
-- when the target lies on this server, and the attempts that have a row (those that outlive 100 ms) and no outcome.
-- `rallypoint status` asks the service itself. What the sessions of other roles do is shown only to a role that may read
-- it: grant pg_read_all_stats.
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
           substring(p.application_name from '^rallypoint/([0-9a-f-]{36})/')::uuid as handle,
           substring(p.application_name from '^rallypoint/[0-9a-f-]{36}/([0-9]{1,18})$')::int8 as seq
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
