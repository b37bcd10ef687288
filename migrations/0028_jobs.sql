-- Recurring jobs and their runs. Programs of before leave the rows as they are: nothing fires while one of them owns the shard.

-- One row a job, whole: one that is deleted keeps its row, so that its runs can be read.
create table job (
    shard int2 not null,
    job_no int8 not null,
    namespace bytea not null,
    name bytea not null,
    version int8 not null,
    settings bytea compression lz4 not null,            -- JSON: schedule, overlap, misfire, …
    steps bytea compression lz4 not null,               -- JSON: runs of tasks that are alike, ends of texts and parameters
    bodies bytea compression lz4 not null,              -- the texts, one behind the other
    params bytea compression lz4 not null,              -- their parameters, likewise
    created_at timestamptz not null,
    changed_at timestamptz not null,
    changed_by bytea not null,
    deleted boolean not null,
    constraint job_pkey primary key (shard, job_no)
);

create index job_name on job (shard, namespace, name);

-- One row a job: where it stands. It changes with each firing, so it is apart from the definition.
create table job_state (
    shard int2 not null,
    job_no int8 not null,
    next_due timestamptz,
    time_zones bytea not null,
    last_unscheduled timestamptz not null,
    failures int4 not null,
    paused bytea,                                       -- JSON: since, by, reason
    constraint job_state_pkey primary key (shard, job_no)
) with (fillfactor = 50);

-- One row a due time, or a range of due times that had no run.
create table job_run (
    shard int2 not null,
    job_no int8 not null,
    due_at timestamptz not null,
    last_due_at timestamptz,
    due_count int8 not null,
    cause int2 not null,                                -- see RunCause
    state int2 not null,                                -- see RunState
    reason int2,                                        -- see RunReason
    detail bytea,
    by bytea,
    request_id uuid,
    from_order int8,
    closes_at timestamptz,
    catches_up boolean not null,
    attempt int4 not null,
    handle uuid,
    started_at timestamptz,
    ended_at timestamptz,
    next_attempt_at timestamptz,
    failed int8 not null,
    cancelled int8 not null,
    constraint job_run_pkey primary key (shard, job_no, due_at)
);

-- What a recovery reads.
create index job_run_open on job_run (shard, job_no) where state <= 3;
create index job_run_asked on job_run (shard, due_at) where request_id is not null;

-- For the retention.
create index job_run_ended on job_run using brin (ended_at);

-- One row a shard.
create table job_agent (
    shard int2 not null,
    stopped boolean not null,
    changed_at timestamptz not null,
    stopped_at timestamptz,
    changed_by bytea not null,
    reason bytea not null,
    constraint job_agent_pkey primary key (shard)
);

comment on table job is 'One row a recurring job. One that is deleted keeps its row.';
comment on column job.shard is 'Number of the shard; there is one, 0.';
comment on column job.job_no is 'Its number. A job that is deleted and made anew has another one.';
comment on column job.namespace is 'Whose it is, in UTF-8.';
comment on column job.name is 'Its name, in UTF-8.';
comment on column job.version is 'Rises with each change.';
comment on column job.settings is 'JSON in UTF-8: schedule, overlap, misfire, rerun, max_runtime, pause_after_failures, scheduler.';
comment on column job.steps is 'JSON in UTF-8: the tasks without their texts.';
comment on column job.bodies is 'The texts of the tasks, one behind the other.';
comment on column job.params is 'The parameters of the tasks, one behind the other.';
comment on column job.created_at is 'When, by the time of the service.';
comment on column job.changed_at is 'When it was created, changed or deleted last.';
comment on column job.changed_by is 'The caller who did that, as it names itself, in UTF-8.';
comment on column job.deleted is 'It is there no more.';
comment on table job_state is 'One row a job: where it stands.';
comment on column job_state.shard is 'Number of the shard; there is one, 0.';
comment on column job_state.job_no is 'Which job.';
comment on column job_state.next_due is 'The first due time whose fate is open; null: there is none to come.';
comment on column job_state.time_zones is 'The release of the time zone database it was computed with.';
comment on column job_state.last_unscheduled is 'The last run that no schedule names.';
comment on column job_state.failures is 'Failed runs in a row.';
comment on column job_state.paused is 'JSON in UTF-8: since when, by whom (empty: by the service, after failures) and why; null: it is not paused.';
comment on table job_run is 'One row a due time, with what became of it; of many without a run one row for a range.';
comment on column job_run.shard is 'Number of the shard; there is one, 0.';
comment on column job_run.job_no is 'Which job.';
comment on column job_run.due_at is 'The due time; of a range the first. It names the run.';
comment on column job_run.last_due_at is 'The last due time of a range; null: it is one due time.';
comment on column job_run.due_count is 'Due times of a range, counted to 10000.';
comment on column job_run.cause is '1 scheduled, 2 asked for, 3 follows another job.';
comment on column job_run.state is '1 waits, 2 runs, 3 waits for its next attempt, 4 succeeded, 5 failed, 6 cancelled, 7 timed out, 8 skipped, 9 missed, 10 lost.';
comment on column job_run.reason is '1 an earlier run went on, 2 too many wait, 3 replaced by a later due time, 4 job paused, 5 job deleted, 6 no server, 7 agent stopped, 8 window closed, 9 too late, 10 max_runtime, 11 asked for, 12 steps refused, 13 scheduler gone.';
comment on column job_run.detail is 'More about that, in UTF-8.';
comment on column job_run.by is 'Who asked for it, or cancelled it, in UTF-8.';
comment on column job_run.request_id is 'The call that asked for it.';
comment on column job_run.from_order is 'Steps of lower orders were left out.';
comment on column job_run.closes_at is 'When its window closes.';
comment on column job_run.catches_up is 'It waits for its turn whatever the rules of overlap say.';
comment on column job_run.attempt is 'Attempts begun.';
comment on column job_run.handle is 'The scheduler of the last attempt.';
comment on column job_run.started_at is 'When the last attempt began.';
comment on column job_run.ended_at is 'When it ended, or was decided not to have a run.';
comment on column job_run.next_attempt_at is 'When its next attempt begins.';
comment on column job_run.failed is 'Tasks of the last attempt that failed.';
comment on column job_run.cancelled is 'Tasks of the last attempt that were cancelled.';
comment on table job_agent is 'One row a shard: whether jobs are fired. None: they are.';
comment on column job_agent.shard is 'Number of the shard; there is one, 0.';
comment on column job_agent.stopped is 'Nothing fires.';
comment on column job_agent.changed_at is 'When it was started or stopped last.';
comment on column job_agent.stopped_at is 'When it was stopped last.';
comment on column job_agent.changed_by is 'The caller who did that, in UTF-8.';
comment on column job_agent.reason is 'Why, in UTF-8.';

create view rallypoint_log.jobs as
select
    rallypoint_log.readable(j.namespace) as namespace,
    rallypoint_log.readable(j.name) as name,
    s.next_due,
    s.failures,
    rallypoint_log.readable(s.paused) as paused,
    rallypoint_log.readable(j.settings) as settings,
    j.version,
    j.created_at,
    j.changed_at,
    rallypoint_log.readable(j.changed_by) as changed_by,
    rallypoint_log.readable(s.time_zones) as time_zones,
    j.deleted,
    j.job_no,
    j.shard
from job j
left join job_state s on s.shard = j.shard and s.job_no = j.job_no;

comment on view rallypoint_log.jobs is 'A row per recurring job: what it is, and when it is due next.';
comment on column rallypoint_log.jobs.namespace is 'Whose it is.';
comment on column rallypoint_log.jobs.name is 'Its name.';
comment on column rallypoint_log.jobs.next_due is 'Its next due time; null: there is none to come.';
comment on column rallypoint_log.jobs.failures is 'Failed runs in a row.';
comment on column rallypoint_log.jobs.paused is 'JSON: since when, by whom and why it is paused; null: it is not.';
comment on column rallypoint_log.jobs.settings is 'JSON: schedule, overlap, misfire, rerun, max_runtime, pause_after_failures, scheduler.';
comment on column rallypoint_log.jobs.version is 'Rises with each change.';
comment on column rallypoint_log.jobs.created_at is 'When, by the time of the service.';
comment on column rallypoint_log.jobs.changed_at is 'When it was created, changed or deleted last.';
comment on column rallypoint_log.jobs.changed_by is 'The caller who did that, as it names itself.';
comment on column rallypoint_log.jobs.time_zones is 'The release of the time zone database that its next due time was computed with.';
comment on column rallypoint_log.jobs.deleted is 'True: it is there no more.';
comment on column rallypoint_log.jobs.job_no is 'Its number.';
comment on column rallypoint_log.jobs.shard is 'Number of the shard; there is one, 0.';

create view rallypoint_log.job_runs as
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
        else r.reason::text end as reason,
    rallypoint_log.readable(r.detail) as detail,
    case r.cause when 1 then 'scheduled' when 2 then 'asked for' when 3 then 'follows another job' else r.cause::text end as cause,
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

comment on view rallypoint_log.job_runs is 'A row per due time of each job, with what became of it.';
comment on column rallypoint_log.job_runs.namespace is 'Whose it is.';
comment on column rallypoint_log.job_runs.job is 'Which job.';
comment on column rallypoint_log.job_runs.due_at is 'The due time; of a range the first.';
comment on column rallypoint_log.job_runs.last_due_at is 'The last due time of a range; null: it is one due time.';
comment on column rallypoint_log.job_runs.due_count is 'Due times of a range, counted to 10000.';
comment on column rallypoint_log.job_runs.state is 'What became of it.';
comment on column rallypoint_log.job_runs.reason is 'Why, where that does not go without saying.';
comment on column rallypoint_log.job_runs.detail is 'More about that.';
comment on column rallypoint_log.job_runs.cause is 'Why there is one.';
comment on column rallypoint_log.job_runs.by is 'Who asked for it, or cancelled it.';
comment on column rallypoint_log.job_runs.attempt is 'Attempts begun.';
comment on column rallypoint_log.job_runs.handle is 'The scheduler of the last attempt.';
comment on column rallypoint_log.job_runs.started_at is 'When the last attempt began.';
comment on column rallypoint_log.job_runs.ended_at is 'When it ended, or was decided not to have a run.';
comment on column rallypoint_log.job_runs.next_attempt_at is 'When its next attempt begins.';
comment on column rallypoint_log.job_runs.failed is 'Tasks of the last attempt that failed.';
comment on column rallypoint_log.job_runs.cancelled is 'Tasks of the last attempt that were cancelled.';
comment on column rallypoint_log.job_runs.shard is 'Number of the shard; there is one, 0.';
