-- Schedulers have names by which they are found while they are open. Older programs leave the column as it is, and name none.

alter table scheduler
    add column name bytea;  -- of one open scheduler of a namespace at a time; null: it was given none

comment on column scheduler.name is 'The name by which it is found while it is open, in UTF-8; null: it was given none.';
comment on column scheduler_label.label is 'key=value in UTF-8; =value: its display name; a space before =value: its name.';

-- The log in words.

select set_config('search_path', 'rallypoint_log, ' || current_setting('search_path'), true);

create or replace view schedulers as
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
    v.settings,
    readable(r.name) as name
from shard x
join scheduler r on r.shard = x.shard
cross join lateral (select as_json(r.settings) as settings offset 0) v;

comment on column rallypoint_log.schedulers.handle is 'What identifies it.';
comment on column rallypoint_log.schedulers.name is 'The name by which it is found while it is open; null: it was given none.';
