-- The guard of a database: it refuses writers whose hold of a resource is over.
--
-- A row a resource keeps the highest fencing token that a writer has shown. The table belongs to a role of its own that nobody
-- logs in with; writers reach it by the functions below. To be run by whoever may create roles and schemas; to be run again
-- after an upgrade, which keeps what was seen.

set search_path = pg_catalog, pg_temp;

do $$
begin
    create role rallypoint_guard nologin;
exception when duplicate_object or unique_violation then
    null;
end $$;

-- Whoever made the role may give it a table only as a member; others who install again are members by then.
do $$
begin
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant rallypoint_guard to %I', current_user);
    end if;
exception when insufficient_privilege then
    null;
end $$;

create schema if not exists rallypoint;
revoke all on schema rallypoint from public;
grant usage on schema rallypoint to public;
grant usage, create on schema rallypoint to rallypoint_guard;

create table if not exists rallypoint.guard_token (
    resource text not null,
    token int8 not null,                                -- 0: only readers have come so far
    seen_at timestamptz not null,
    seen_by text not null,                              -- for people
    constraint guard_token_pkey primary key (resource)
) with (fillfactor = 70);

-- Refuses a token that is lower than the highest a writer has shown, and keeps others waiting until this transaction has
-- ended: readers wait for a writer, and a writer for all.
create or replace function rallypoint.guard(resource text, token int8, shared bool default false) returns int8
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    seen rallypoint.guard_token;
begin
    if octet_length(resource) between 1 and 255 and token > 0 and shared is not null then
        null;
    else
        raise exception 'rallypoint.guard takes the name of a resource and the token of a hold, which is above 0'
            using errcode = '22023', hint = 'Under `rallypoint lock run` the token is in RALLYPOINT_TOKEN.';
    end if;
    loop
        if shared then
            select known.* into seen
            from rallypoint.guard_token as known
            where known.resource = guard.resource
            for share;
        else
            select known.* into seen
            from rallypoint.guard_token as known
            where known.resource = guard.resource
            for no key update;
        end if;
        exit when found;
        insert into rallypoint.guard_token values (guard.resource, 0, clock_timestamp(), '') on conflict do nothing;
    end loop;
    if guard.token < seen.token then
        raise exception 'stale token % for "%": % was seen', guard.token, guard.resource, seen.token
            using errcode = 'RP003',
                detail = format(
                    'Token %s was shown at %s by %s.',
                    seen.token,
                    to_char(seen.seen_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                    seen.seen_by
                ),
                hint = format('The hold of token %s is over. Roll back, and claim "%s" anew.', guard.token, guard.resource);
    end if;
    if not shared and guard.token > seen.token then
        update rallypoint.guard_token as known
        set token = guard.token,
            seen_at = clock_timestamp(),
            seen_by = concat(session_user, ' (' || nullif(current_setting('application_name'), '') || ')')
        where known.resource = guard.resource;
    end if;
    return guard.token;
end $$;

-- For triggers on tables that nobody is to write without a hold: its argument is the resource. The token is a setting.
create or replace function rallypoint.guard_writes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    shown text := nullif(current_setting('rallypoint.token', true), '');
begin
    if tg_level <> 'STATEMENT' then
        raise exception 'rallypoint.guard_writes is for triggers that run for each statement' using errcode = '39P01';
    end if;
    if shown is null then
        raise exception 'writing to %.% takes a token of "%"', tg_table_schema, tg_table_name, tg_argv[0]
            using errcode = 'RP004', hint = 'Hold the resource, and first `set local rallypoint.token = TOKEN`.';
    end if;
    -- In a case, so that only what is a number is cast, and to a type that holds it.
    if (case when shown ~ '^[ \t\n\v\f\r]*0*[0-9]{1,19}[ \t\n\v\f\r]*$' then shown::numeric > 9223372036854775807 else true end) then
        raise exception 'rallypoint.token is "%", which is no token', left(shown, 40)
            using errcode = '22023', hint = 'It is one number, that of a hold: under `rallypoint lock run` it is in RALLYPOINT_TOKEN.';
    end if;
    perform rallypoint.guard(tg_argv[0], shown::int8);
    return null;
end $$;

alter table rallypoint.guard_token owner to rallypoint_guard;
alter function rallypoint.guard(text, int8, bool) owner to rallypoint_guard;
alter function rallypoint.guard_writes() owner to rallypoint_guard;
revoke all on table rallypoint.guard_token from public;
revoke all on function rallypoint.guard(text, int8, bool) from public;
revoke all on function rallypoint.guard_writes() from public;
