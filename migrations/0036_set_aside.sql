-- An owner that cannot read a scheduler takes what executors report of it and keeps none of it. The next owner that can read it
-- must not conclude that what nobody reports has not begun.
alter table scheduler add column set_aside boolean not null default false;

comment on column scheduler.set_aside is
    'Whether an owner could not read its rows. A task of it that was under way may have begun, also if no executor reports it.';
