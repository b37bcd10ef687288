-- Operators pause targets, and resume them. Programs of before start tasks there all the same, and leave the rows as they are.

-- One row: somebody has paused a target or resumed it. The last row of a target says what holds. Rows stay.
create table target_pause (
    shard int2 not null,
    change_no int8 generated always as identity,
    target bytea,                                       -- null: all of them, and work without one
    mode int2 not null,                                 -- 0 it is resumed, 1 what runs goes on, 2 what runs is stopped
    changed_at timestamptz not null,
    changed_by bytea not null,                          -- the caller, as it names itself
    reason bytea not null,                              -- as the caller gave it
    constraint target_pause_pkey primary key (shard, change_no)
);

comment on table target_pause is 'One row a pause of a target, or its end. The last row of a target says what holds. Rows stay.';
comment on column target_pause.shard is 'Number of the shard; there is one, 0.';
comment on column target_pause.change_no is 'Rises from change to change.';
comment on column target_pause.target is 'Name of the target, in UTF-8; null: all of them, and work without one.';
comment on column target_pause.mode is '0 it is resumed, 1 what runs goes on, 2 what runs is stopped and runs again after the pause.';
comment on column target_pause.changed_at is 'When, by the time of the service.';
comment on column target_pause.changed_by is 'The caller, as it names itself, in UTF-8.';
comment on column target_pause.reason is 'As the caller gave it, in UTF-8.';

create view rallypoint_log.target_pauses as
select
    coalesce(rallypoint_log.readable(p.target), '(all)') as target,
    case p.mode when 0 then 'resumed' when 1 then 'paused, what runs goes on' when 2 then 'paused, what runs is stopped' else p.mode::text end
        as change,
    p.changed_at,
    rallypoint_log.readable(p.changed_by) as changed_by,
    rallypoint_log.readable(p.reason) as reason,
    p.mode <> 0 and not exists (
        select
        from target_pause later
        where later.shard = p.shard and later.change_no > p.change_no and later.target is not distinct from p.target
    ) as in_force,
    p.shard
from target_pause p;

comment on view rallypoint_log.target_pauses is 'A row per pause of a target, and per resume.';
comment on column rallypoint_log.target_pauses.target is 'Name of the target; (all): everything that runs.';
comment on column rallypoint_log.target_pauses.change is 'Paused, and what became of the tasks that ran; or resumed.';
comment on column rallypoint_log.target_pauses.changed_at is 'When, by the time of the service.';
comment on column rallypoint_log.target_pauses.changed_by is 'The caller, as it names itself.';
comment on column rallypoint_log.target_pauses.reason is 'As the caller gave it.';
comment on column rallypoint_log.target_pauses.in_force is 'True: nothing starts there now.';
comment on column rallypoint_log.target_pauses.shard is 'Number of the shard; there is one, 0.';
