-- Lists of tasks and schedulers find what is rare without a look at the rest. The indexes of tasks cost those nothing that
-- succeed and have no labels.

-- Events by outcome: which of failed, cancelled, timed out, exhausted a row has (1, 2, 4, 8). A row of successes has none.
create index completion_by_outcome on completion (shard, handle,
    ((2 = any (outcome))::int4 + 2 * (3 = any (outcome))::int4 + 4 * (4 = any (outcome))::int4 + 8 * (5 = any (outcome))::int4),
    first_done_no
) where outcome is not null;

-- The schedulers of a namespace in any state are those of each state.
create index scheduler_by_state on scheduler (shard, namespace, state, handle);
drop index scheduler_by_namespace;

-- One row: a label of tasks of one row of submission, as key=value. Without a label: the tasks have more labels than are worth
-- a row each, and may have any.
create table task_label (
    shard int2 not null,
    handle uuid not null,
    label bytea not null,
    first_seq int8 not null,
    day date not null,
    constraint task_label_pkey primary key (shard, handle, label, first_seq, day)
) partition by range (day);

do $$
declare
    of_day date;
begin
    for of_day in
        select to_date(right(inhrelid::regclass::text, 10), 'YYYY_MM_DD')
        from pg_inherits
        where inhparent = 'submission'::regclass and not inhdetachpending
    loop
        execute format('create table task_label_%s (like task_label including all)', to_char(of_day, 'YYYY_MM_DD'));
        execute format(
            'alter table task_label attach partition task_label_%s for values from (%L) to (%L)',
            to_char(of_day, 'YYYY_MM_DD'), of_day, of_day + 1
        );
    end loop;
end $$;

insert into task_label (shard, handle, label, first_seq, day)
select distinct s.shard, s.handle, convert_to(l.key || '=' || l.value, 'UTF8'), s.first_seq, s.day
from submission s
cross join lateral json_array_elements(rallypoint_log.as_json(s.specs)) as one (of_tasks)
cross join lateral json_each_text(one.of_tasks -> 'options' -> 'labels') as l
where position('"labels"'::bytea in s.specs) > 0;

-- One row: a label of a scheduler, as key=value; its display name is the value of no key. Labels that it had before have a row,
-- too: whether it has one now stands in its settings.
create table scheduler_label (
    shard int2 not null,
    namespace bytea not null,
    label bytea not null,
    handle uuid not null,
    constraint scheduler_label_pkey primary key (shard, namespace, label, handle)
);

-- They go with their scheduler.
create index scheduler_label_by_handle on scheduler_label (shard, handle);

insert into scheduler_label (shard, namespace, label, handle)
select distinct r.shard, r.namespace, convert_to(l.key || '=' || l.value, 'UTF8'), r.handle
from scheduler r
cross join lateral (select rallypoint_log.as_json(r.settings) as settings) v
cross join lateral (
    select key, value from json_each_text(v.settings -> 'labels')
    union all
    select '', v.settings ->> 'display_name' where v.settings ->> 'display_name' <> ''
) l;

comment on table task_label is 'One row a label of tasks of a row of submission: where to look for it. Partitioned by day.';
comment on column task_label.shard is 'Number of the shard; there is one, 0.';
comment on column task_label.handle is 'The scheduler of the tasks.';
comment on column task_label.label is 'key=value in UTF-8; empty: the tasks may have any label.';
comment on column task_label.first_seq is 'The row of submission.';
comment on column task_label.day is 'On which the row was written.';

comment on table scheduler_label is 'One row a label that a scheduler has or had: where to look for it.';
comment on column scheduler_label.shard is 'Number of the shard; there is one, 0.';
comment on column scheduler_label.namespace is 'Whose the scheduler is, in UTF-8.';
comment on column scheduler_label.label is 'key=value in UTF-8; =value: its display name.';
comment on column scheduler_label.handle is 'The scheduler.';
