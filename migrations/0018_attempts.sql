-- What an attempt that was followed by another one leaves behind: when it started and where it ran. Null: it did not start, or is
-- of a version that did not record it.
alter table attempt
    add column started_at timestamptz,
    add column slot int4,
    add column backend_pid int4,
    add column diagnostics bytea compression lz4;

comment on column attempt.started_at is 'When the attempt started.';
comment on column attempt.slot is 'The slot it ran on; 0: none.';
comment on column attempt.backend_pid is 'Process id on the server of the target; 0: none.';
comment on column attempt.diagnostics is 'What the target said, a JSON object; with the replica that ran it.';

create or replace view rallypoint_log.attempts as
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
    rallypoint_log.readable(substring(a.error from 2 for get_byte(a.error, 0))) as error_code,
    rallypoint_log.readable(substring(a.error from 2 + get_byte(a.error, 0))) as error_message,
    a.retry,
    a.started_at,
    rallypoint_log.as_json(a.diagnostics) ->> 'replica' as replica,
    a.slot,
    nullif(a.backend_pid, 0) as backend_pid,
    rallypoint_log.as_json(a.diagnostics) as diagnostics
from attempt a;

comment on column rallypoint_log.attempts.started_at is 'When the attempt started, of one that was lost, failed or handed back; null: it did not, or an earlier version ran it.';
comment on column rallypoint_log.attempts.replica is 'The replica whose executor ran it.';
comment on column rallypoint_log.attempts.slot is 'The slot it ran on, from 1; 0: it needed none.';
comment on column rallypoint_log.attempts.backend_pid is 'Process id on the server of the target.';
comment on column rallypoint_log.attempts.diagnostics is 'Everything the target said, as JSON: also notices, detail, hint, context.';
