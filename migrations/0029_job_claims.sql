-- Runs of jobs that outside programs do: one row a claim.

create table job_claim (
    shard int2 not null,
    job_no int8 not null,
    due_at timestamptz not null,
    token int8 not null,
    owner bytea not null,
    caller bytea not null,
    request_id uuid,
    lease_ms int8 not null,
    claimed_at timestamptz not null,
    ended_at timestamptz,
    outcome int2,                                       -- see RunClaimOutcome
    detail bytea,
    late_at timestamptz,
    late_succeeded boolean,
    late_detail bytea,
    constraint job_claim_pkey primary key (shard, job_no, due_at, token)
);

-- What a recovery reads.
create index job_claim_open on job_claim (shard, job_no) where ended_at is null;

-- For the retention.
create index job_claim_ended on job_claim using brin (ended_at);

-- Tokens never fall, also when the rows of the claims are gone.
alter table job_state add column last_token int8 not null default 0;

comment on table job_claim is 'One row a claim: an outside program took the work of a run upon itself.';
comment on column job_claim.shard is 'Number of the shard; there is one, 0.';
comment on column job_claim.job_no is 'Which job.';
comment on column job_claim.due_at is 'Which run: its due time.';
comment on column job_claim.token is 'The fencing token; above that of every earlier claim.';
comment on column job_claim.owner is 'Who has it, in the words of the caller, in UTF-8.';
comment on column job_claim.caller is 'Who asked for it, as the caller names itself, in UTF-8.';
comment on column job_claim.request_id is 'The call that asked for it.';
comment on column job_claim.lease_ms is 'How long it lasts without a renewal.';
comment on column job_claim.claimed_at is 'When it was given.';
comment on column job_claim.ended_at is 'When it ended.';
comment on column job_claim.outcome is '1 succeeded, 2 failed, 3 lost: not renewed within its lease, 4 longer than max_runtime, 5 cancelled; null: it has not ended.';
comment on column job_claim.detail is 'What its owner said then, in UTF-8.';
comment on column job_claim.late_at is 'When its owner said, after its end, how the work had gone.';
comment on column job_claim.late_succeeded is 'What its owner said then.';
comment on column job_claim.late_detail is 'What else its owner said then, in UTF-8.';
comment on column job_state.last_token is 'The token of the last claim of a run.';

create view rallypoint_log.job_claims as
select
    rallypoint_log.readable(j.namespace) as namespace,
    rallypoint_log.readable(j.name) as job,
    c.due_at,
    c.token,
    rallypoint_log.readable(c.owner) as owner,
    rallypoint_log.readable(c.caller) as caller,
    c.claimed_at,
    c.ended_at,
    case when c.outcome is null then 'claimed' when c.outcome = 1 then 'succeeded' when c.outcome = 2 then 'failed' when c.outcome = 3 then 'lost'
        when c.outcome = 4 then 'timed out' when c.outcome = 5 then 'cancelled' else c.outcome::text end as outcome,
    rallypoint_log.readable(c.detail) as detail,
    c.late_at,
    c.late_succeeded,
    rallypoint_log.readable(c.late_detail) as late_detail,
    c.shard
from job_claim c
join job j on j.shard = c.shard and j.job_no = c.job_no;

comment on view rallypoint_log.job_claims is 'A row per claim of a run by an outside program.';
comment on column rallypoint_log.job_claims.namespace is 'Whose it is.';
comment on column rallypoint_log.job_claims.job is 'Which job.';
comment on column rallypoint_log.job_claims.due_at is 'Which run: its due time.';
comment on column rallypoint_log.job_claims.token is 'The fencing token; above that of every earlier claim.';
comment on column rallypoint_log.job_claims.owner is 'Who has it, in the words of the caller.';
comment on column rallypoint_log.job_claims.caller is 'Who asked for it, as the caller names itself.';
comment on column rallypoint_log.job_claims.claimed_at is 'When it was given.';
comment on column rallypoint_log.job_claims.ended_at is 'When it ended.';
comment on column rallypoint_log.job_claims.outcome is 'How it ended.';
comment on column rallypoint_log.job_claims.detail is 'What its owner said then.';
comment on column rallypoint_log.job_claims.late_at is 'When its owner said, after its end, how the work had gone.';
comment on column rallypoint_log.job_claims.late_succeeded is 'What its owner said then.';
comment on column rallypoint_log.job_claims.late_detail is 'What else its owner said then.';
comment on column rallypoint_log.job_claims.shard is 'Number of the shard; there is one, 0.';

create or replace view rallypoint_log.job_runs as
select
    rallypoint_log.readable(j.namespace) as namespace,
    rallypoint_log.readable(j.name) as job,
    r.due_at,
    r.last_due_at,
    r.due_count,
    case r.state when 1 then 'waits' when 2 then 'runs' when 3 then 'waits for its next attempt' when 4 then 'succeeded' when 5 then 'failed'
        when 6 then 'cancelled' when 7 then 'timed out' when 8 then 'skipped' when 9 then 'missed' when 10 then 'lost' else r.state::text end as state,
    case r.reason when 1 then 'an earlier run went on' when 2 then 'too many wait' when 3 then 'replaced by a later due time'
        when 4 then 'job paused' when 5 then 'job deleted' when 6 then 'no server' when 7 then 'agent stopped' when 8 then 'window closed'
        when 9 then 'too late' when 10 then 'max_runtime' when 11 then 'asked for' when 12 then 'steps refused' when 13 then 'scheduler gone'
        when 14 then 'claimant lost' when 15 then 'completed late' when 16 then 'not claimed' when 17 then 'reported'
        else r.reason::text end as reason,
    rallypoint_log.readable(r.detail) as detail,
    case r.cause when 1 then 'scheduled' when 2 then 'asked for' when 3 then 'follows another job' when 4 then 'backfilled'
        else r.cause::text end as cause,
    rallypoint_log.readable(r.by) as by,
    r.attempt,
    r.handle,
    r.started_at,
    r.ended_at,
    r.next_attempt_at,
    r.failed,
    r.cancelled,
    r.shard
from job_run r
join job j on j.shard = r.shard and j.job_no = r.job_no;

comment on column job_run.cause is '1 scheduled, 2 asked for, 3 follows another job, 4 backfilled.';
comment on column job_run.reason is '1 an earlier run went on, 2 too many wait, 3 replaced by a later due time, 4 job paused, 5 job deleted, 6 no server, 7 agent stopped, 8 window closed, 9 too late, 10 max_runtime, 11 asked for, 12 steps refused, 13 scheduler gone, 14 claimant lost, 15 completed late, 16 not claimed, 17 reported by the claimant.';
comment on column job_run.by is 'Who asked for it, claimed it, or cancelled it, in UTF-8.';
comment on column rallypoint_log.job_runs.by is 'Who asked for it, claimed it, or cancelled it.';
