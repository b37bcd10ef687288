-- Where claimants of recurring jobs say, in the transaction that does the work of a run, that it is done.
--
-- A row a run keeps who has finished it, or which claims may not finish it any more. The table belongs to a role of its own that
-- nobody logs in with; claimants and the service reach it by the functions below. To be run by whoever may create roles and
-- schemas; to be run again after an upgrade, which keeps what is there.

set search_path = pg_catalog, pg_temp;

do $$
begin
    create role rallypoint_runs nologin;
exception when duplicate_object or unique_violation then
    null;
end $$;

-- Whoever made the role may give it a table only as a member; others who install again are members by then.
do $$
begin
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant rallypoint_runs to %I', current_user);
    end if;
exception when insufficient_privilege then
    null;
end $$;

create schema if not exists rallypoint;
revoke all on schema rallypoint from public;
grant usage on schema rallypoint to public;
grant usage, create on schema rallypoint to rallypoint_runs;

create table if not exists rallypoint.job_run (
    namespace text not null default 'default',
    job text not null,
    due timestamptz not null,
    token int8 not null,
    finished boolean not null,                          -- false: claims up to this token may not finish it any more
    changed_at timestamptz not null,
    changed_by text not null,                                   -- for people
    constraint job_run_pkey primary key (namespace, job, due)
);

-- Before, jobs of one name in two namespaces shared their rows.
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'rallypoint.job_run'::regclass and attname = 'namespace') then
        alter table rallypoint.job_run add column namespace text not null default 'default';
        alter table rallypoint.job_run drop constraint job_run_pkey;
        alter table rallypoint.job_run add constraint job_run_pkey primary key (namespace, job, due);
    end if;
end $$;
drop function if exists rallypoint.finish_run(text, timestamptz, int8);
drop function if exists rallypoint.close_run(text, timestamptz, int8);
drop function if exists rallypoint.require_finished(text, timestamptz);

-- The work of a run is done, if this transaction commits. Fails when another claim has done it, or this one is over.
create or replace function rallypoint.finish_run(job text, due timestamptz, token int8, namespace text default 'default') returns int8
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    known rallypoint.job_run;
    caller text := concat(session_user, ' (' || nullif(current_setting('application_name'), '') || ')');
begin
    if octet_length(job) between 1 and 63 and due is not null and token > 0 and namespace <> '' then
        null;
    else
        raise exception 'rallypoint.finish_run takes the name of a job, the due time of a run, the token of its claim and the namespace'
            using errcode = '22023',
                hint = 'Under `rallypoint jobs claim` they are in RALLYPOINT_JOB, RALLYPOINT_DUE, RALLYPOINT_TOKEN and RALLYPOINT_NAMESPACE.';
    end if;
    -- Waits for another transaction that is about to finish the run.
    insert into rallypoint.job_run (namespace, job, due, token, finished, changed_at, changed_by)
    values (finish_run.namespace, finish_run.job, finish_run.due, finish_run.token, true, clock_timestamp(), caller)
    on conflict do nothing;
    if found then
        return finish_run.token;
    end if;
    select run.* into known
    from rallypoint.job_run as run
    where run.namespace = finish_run.namespace and run.job = finish_run.job and run.due = finish_run.due
    for update;
    if known.finished and known.token <> finish_run.token then
        raise exception 'the run of "%" of % is done already, under token %', finish_run.job, finish_run.due, known.token
            using errcode = 'RP005',
                detail = format('It was done by %s.', known.changed_by),
                hint = 'Roll back: nothing is left to do.';
    elsif not known.finished and known.token >= finish_run.token then
        raise exception 'the claim with token % of the run of "%" of % is over', finish_run.token, finish_run.job, finish_run.due
            using errcode = 'RP005', hint = 'Roll back, and claim the run anew.';
    elsif not known.finished then
        update rallypoint.job_run as run
        set token = finish_run.token, finished = true, changed_at = clock_timestamp(), changed_by = caller
        where run.namespace = finish_run.namespace and run.job = finish_run.job and run.due = finish_run.due;
    end if;
    return finish_run.token;
end $$;

-- For the service: claims up to this token may not finish the run any more, unless one has. Waits for one that is about to.
create or replace function rallypoint.close_run(job text, due timestamptz, token int8, namespace text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into rallypoint.job_run as run (namespace, job, due, token, finished, changed_at, changed_by)
    values (namespace, job, due, token, false, clock_timestamp(), session_user)
    on conflict on constraint job_run_pkey do update
    set token = greatest(run.token, excluded.token)
    where not run.finished;
$$;

-- For the service: fails unless the run is done.
create or replace function rallypoint.require_finished(job text, due timestamptz, namespace text) returns int8
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    known int8;
begin
    select run.token into known
    from rallypoint.job_run as run
    where run.namespace = require_finished.namespace
        and run.job = require_finished.job
        and run.due = require_finished.due
        and run.finished;
    if known is null then
        raise exception 'the run of "%" of % is not done', require_finished.job, require_finished.due
            using errcode = 'RP006';
    end if;
    return known;
end $$;

alter table rallypoint.job_run owner to rallypoint_runs;
alter function rallypoint.finish_run(text, timestamptz, int8, text) owner to rallypoint_runs;
alter function rallypoint.close_run(text, timestamptz, int8, text) owner to rallypoint_runs;
alter function rallypoint.require_finished(text, timestamptz, text) owner to rallypoint_runs;
revoke all on table rallypoint.job_run from public;
revoke all on function rallypoint.finish_run(text, timestamptz, int8, text) from public;
revoke all on function rallypoint.close_run(text, timestamptz, int8, text) from public;
revoke all on function rallypoint.require_finished(text, timestamptz, text) from public;
