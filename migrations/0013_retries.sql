-- Tasks that are submitted once more after they have ended. Older programs leave these columns null, and pass over a kind of
-- attempt that they do not know.

alter table submission
    add column retry_of int8[] compression lz4,         -- per task: the one it is a copy of; null: none is a copy
    add column retried_failure int8[] compression lz4;  -- the event of the failure that the copy stands for, 0: none; null: all 0
alter table completion
    add column retry_of int8[] compression lz4;         -- per event: the task of which this one is a copy, 0: none; null: all 0
-- Kind 6, attempt 0: the task has a retry. Of one task there is one such row.
alter table attempt
    add column retry int8;                              -- kind 6: its number
alter table scheduler
    add column halt_failures bytea compression lz4;     -- JSON: how many failures a halt waits for, and the halt that this is of

comment on column submission.retry_of is 'Per task: the number of the task of which it is a copy (RetryTask, RetryFailed); null: none is a copy.';
comment on column submission.retried_failure is 'Per task: the number of the event of the failure that the copy stands for, 0: none; null: all 0.';
comment on column completion.retry_of is 'Per event: the number of the task of which its task is a copy, 0: none; null: all 0.';
comment on column attempt.retry is 'Kind 6, attempt 0: the task was submitted once more under this number.';
comment on column attempt.kind is '1 started, 2 cancel requested, 3 lost, 4 failed, 5 handed back, 6 retried; others belong to newer versions.';
comment on column scheduler.halt_failures is 'JSON: how many failures the halt waits for, by order, and the halt of which this is said.';

-- The log in words.

select set_config('search_path', 'rallypoint_log, ' || current_setting('search_path'), true);

create view retries as
select a.shard, a.handle, a.retry as seq, a.seq as retry_of, a.at
from attempt a
where a.kind = 6;

create or replace view attempts as
select
    a.shard,
    a.handle,
    a.seq,
    a.attempt,
    case a.kind
        when 1 then 'started' when 2 then 'cancel requested' when 3 then 'lost' when 4 then 'failed' when 5 then 'handed back'
        when 6 then 'retried'
        else a.kind::text
    end as event,
    a.at,
    a.next_at,
    readable(substring(a.error from 2 for get_byte(a.error, 0))) as error_code,
    readable(substring(a.error from 2 + get_byte(a.error, 0))) as error_message,
    a.retry
from attempt a;

create or replace view execution_log as
select e.*, c.retry_of, o.seq as retried_as
from schedulers r
cross join lateral executions_of(r.shard, r.handle, 1, 1::int8 << 62, '-infinity') e
left join retries c on c.shard = r.shard and c.handle = r.handle and c.seq = e.seq
left join retries o on o.shard = r.shard and o.handle = r.handle and o.retry_of = e.seq;

create or replace view failures as
select e.*, c.retry_of, o.seq as retried_as
from (
    select c.shard, c.handle, min(c.day) as day, range_agg(part) as parts
    from completion_row c
    cross join lateral unnest(c.parts) as part
    where c.failed > 0
    group by c.shard, c.handle
) f
cross join lateral unnest(f.parts) as part
cross join lateral executions_of(f.shard, f.handle, lower(part), upper(part) - 1, f.day) e
left join retries c on c.shard = f.shard and c.handle = f.handle and c.seq = e.seq
left join retries o on o.shard = f.shard and o.handle = f.handle and o.retry_of = e.seq
where e.outcome in ('failed', 'timed out', 'exhausted');

create or replace function task(handle uuid, seq int8) returns setof execution_log
language sql stable rows 1
begin atomic
    select e.*, c.retry_of, o.seq
    from schedulers r
    cross join lateral executions_of(r.shard, r.handle, task.seq, task.seq, '-infinity') e
    left join retries c on c.shard = r.shard and c.handle = r.handle and c.seq = e.seq
    left join retries o on o.shard = r.shard and o.handle = r.handle and o.retry_of = task.seq
    where r.handle = task.handle;
end;

create or replace function executions_since(age interval) returns setof execution_log
language sql stable
begin atomic
    select e.*, c.retry_of, o.seq
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
    left join retries c on c.shard = f.shard and c.handle = f.handle and c.seq = e.seq
    left join retries o on o.shard = f.shard and o.handle = f.handle and o.retry_of = e.seq
    where e.ended_at >= now() - executions_since.age;
end;

comment on view rallypoint_log.retries is 'A row per task that was submitted once more after it had ended (RetryTask, RetryFailed).';
comment on column rallypoint_log.retries.shard is 'Number of the shard; there is one, 0.';
comment on column rallypoint_log.retries.handle is 'The scheduler of both.';
comment on column rallypoint_log.retries.seq is 'Number of the retry.';
comment on column rallypoint_log.retries.retry_of is 'Number of the task of which it is a copy.';
comment on column rallypoint_log.retries.at is 'When it was asked for.';
comment on column rallypoint_log.execution_log.retry_of is 'The task of which this one is a copy; null: it is none.';
comment on column rallypoint_log.execution_log.retried_as is 'The retry of this task; null: it has none.';
comment on column rallypoint_log.failures.retry_of is 'The task of which this one is a copy; null: it is none.';
comment on column rallypoint_log.failures.retried_as is 'The retry of this task; null: it has none.';
comment on column rallypoint_log.attempts.attempt is '1, 2, …; 0: retried.';
comment on column rallypoint_log.attempts.event is 'started, cancel requested, lost (with its host or connection, or by a transient error), failed, handed back (it is not known to have begun), retried (submitted once more by a caller, after it had ended). After lost, failed and handed back another attempt follows, unless an outcome does.';
comment on column rallypoint_log.attempts.retry is 'Retried: the number of the copy.';
