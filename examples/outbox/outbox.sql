-- Tasks that are to run once the transaction has committed that wrote their rows.
create table if not exists task_outbox (
    id uuid primary key default gen_random_uuid(),  -- the request id
    statement text not null,
    params text[] not null default '{}',            -- values of $1, $2, …
    created_at timestamptz not null default now(),
    handle text,                                    -- the scheduler it was offered to, and when first
    offered_at timestamptz,
    error text                                      -- why the service refuses it; it is skipped until this is null
);
