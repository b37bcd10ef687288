-- Comments of the log that contradicted each other.

comment on column rallypoint_log.execution_log.caller is 'Who opened the scheduler, as the caller named itself; who submitted the task: see submitted_by.';
comment on column rallypoint_log.failures.caller is 'Who opened the scheduler, as the caller named itself; who submitted the task: see submitted_by.';
comment on column rallypoint_log.execution_log.attempt is 'Number of the last attempt that began; 0: the task has ended, and none ever began; null: it has not ended, and none has begun so far. Earlier ones: attempts.';
