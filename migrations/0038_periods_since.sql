-- A job that comes to be due once in a period begins with the next window, as a new one does. When that was, its next change must know:
-- a window that had opened before is none of its.
alter table job_state add column periods_since timestamptz;

comment on column job_state.periods_since is 'Since when its rule has been of this kind, once in a period of this length or without periods; null: since it was created, or a program of before has changed it.';
