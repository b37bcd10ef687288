-- Which due time was the last, definitions of a job do not tell: each change brings another one. A job that is due once in a period
-- must not be due again in it because its window moves.
alter table job_state add column last_due timestamptz;

comment on column job_state.last_due is 'The last due time of a schedule that has had its fate; null: none has, or a program of before wrote the row.';
