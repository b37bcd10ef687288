-- Markers of EXACTLY_ONCE tasks, in the database of a target.
--
-- The marker of a task is inserted before its text runs and completed behind it, in one transaction: it is there if and only
-- if what the text did is. The table belongs to a role of its own that nobody logs in with; logins reach it by the routines
-- below. To be run by whoever may create roles and schemas; to be run again after an upgrade, which changes nothing that is
-- there.

set search_path = pg_catalog, pg_temp;

do $$
begin
    create role rallypoint_markers nologin;
exception when duplicate_object or unique_violation then
    null;
end $$;

-- Whoever made the role may give it a table only as a member that may become it, which a creator is not yet from Postgres 16
-- on; others who install again are members by then.
do $$
begin
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant rallypoint_markers to %I', current_user);
    end if;
exception when insufficient_privilege then
    null;
end $$;

create schema if not exists rallypoint;
revoke all on schema rallypoint from public;
grant usage on schema rallypoint to public;
grant usage, create on schema rallypoint to rallypoint_markers;

create table if not exists rallypoint.marker (
    handle text not null,
    seq int8 not null,
    secret uuid not null,                               -- of the attempt: only it completes the marker
    begun int8 not null,                                -- microseconds, by the clock of the service
    ended int8,                                         -- likewise; null as long as the text runs
    outcome text,                                       -- JSON
    result text,                                        -- the rows of the result
    constraint marker_pkey primary key (handle, seq)
) with (fillfactor = 70);

create index if not exists marker_begun on rallypoint.marker (begun);

-- First statement of an attempt: a rival waits here until the transaction of the other one has ended.
create or replace procedure rallypoint.begin_task(task_handle text, task_seq int8, attempt_secret uuid, at int8)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into rallypoint.marker (handle, seq, secret, begun)
    values (task_handle, task_seq, attempt_secret, at)
    on conflict do nothing;
    if not found then
        raise exception 'task %/% has a marker', task_handle, task_seq using errcode = 'RP001';
    end if;
end $$;

-- Runs a text of any number of statements. None of them can end the transaction: plpgsql refuses it.
create or replace function rallypoint.run(body text) returns int8
language plpgsql as $$
declare
    affected pg_catalog.int8;                           -- whatever the search path of the text calls so
begin
    execute body;
    get diagnostics affected = row_count;
    return affected;
end $$;

-- Last statement of an attempt. It finds only the marker that this very transaction has inserted.
create or replace procedure rallypoint.complete_task(
    task_handle text,
    task_seq int8,
    attempt_secret uuid,
    at int8,
    task_outcome text,
    task_result text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update rallypoint.marker
    set ended = at, outcome = task_outcome, result = task_result
    where handle = task_handle
        and seq = task_seq
        and secret = attempt_secret
        and ended is null
        and xmin = pg_current_xact_id()::xid;
    if not found then
        raise exception 'task %/% is not in the transaction of its marker', task_handle, task_seq using errcode = 'RP002';
    end if;
    -- What is reported as done must survive a crash.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- One row: whether there is a marker, and what it says. A standby may lag behind, so it does not say.
create or replace function rallypoint.marker_of(
    task_handle text,
    task_seq int8,
    out known bool,
    out task_outcome text,
    out task_result text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if pg_is_in_recovery() then
        raise exception 'this server is a standby' using errcode = '25006';
    end if;
    select true, outcome, result into known, task_outcome, task_result
    from rallypoint.marker
    where handle = task_handle and seq = task_seq;
    known := coalesce(known, false);
end $$;

-- Deletes markers of tasks that are long on record elsewhere; returns how many.
create or replace function rallypoint.prune_markers(before int8, most int4) returns int4
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    deleted int4;
begin
    delete from rallypoint.marker
    where ctid = any (array(
        select ctid
        from rallypoint.marker
        where begun < before and coalesce(ended, begun) < before
        order by begun
        limit most
        for update skip locked
    ));
    get diagnostics deleted = row_count;
    return deleted;
end $$;

alter table rallypoint.marker owner to rallypoint_markers;
alter procedure rallypoint.begin_task(text, int8, uuid, int8) owner to rallypoint_markers;
alter function rallypoint.run(text) owner to rallypoint_markers;
alter procedure rallypoint.complete_task(text, int8, uuid, int8, text, text) owner to rallypoint_markers;
alter function rallypoint.marker_of(text, int8) owner to rallypoint_markers;
alter function rallypoint.prune_markers(int8, int4) owner to rallypoint_markers;
revoke all on table rallypoint.marker from public;
revoke all on procedure rallypoint.begin_task(text, int8, uuid, int8) from public;
revoke all on procedure rallypoint.complete_task(text, int8, uuid, int8, text, text) from public;
revoke all on function rallypoint.marker_of(text, int8) from public;
revoke all on function rallypoint.prune_markers(int8, int4) from public;
-- With the rights of whoever calls it, which is the role that a task asks for.
grant execute on function rallypoint.run(text) to public;
