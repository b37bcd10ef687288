-- A night's work of a shop, as a pipeline.
--
--   rallypoint exec --explain nightly.sql    shows its orders
--   rallypoint exec nightly.sql              runs those of one order side by side
--   psql -f nightly.sql                      runs it from top to bottom, with the same effect
\set ON_ERROR_STOP on

-- Ahead of the first order: one after the other.
create table if not exists shop_sale (region text, id int, day date, amount numeric(12, 2), primary key (region, id));
create table if not exists day_total (region text, day date, amount numeric(14, 2), primary key (region, day));
create table if not exists report (title text primary key, body text);

-- The regions are loaded side by side. A run that is lost is repeated, so a repetition does nothing.
-- @order 100

-- @name load north
-- @retries 3
-- @timeout 10m
insert into shop_sale
select 'north', n, date '2026-03-01' + n % 7, n * 1.25 from generate_series(1, 700) n
on conflict do nothing;

-- @name load south
-- @retries 3
-- @timeout 10m
insert into shop_sale
select 'south', n, date '2026-03-01' + n % 7, n * 0.75 from generate_series(1, 900) n
on conflict do nothing;

-- One task of several statements, in one session: a temporary table, and all or nothing.
-- @order 200

-- @name close the days
-- @isolation repeatable read
-- @task
begin;
create temporary table closing on commit drop as
select region, day, sum(amount) as amount from shop_sale group by region, day;
insert into day_total select * from closing
on conflict (region, day) do update set amount = excluded.amount;
commit;
-- @end

-- Reports need the totals, and not each other.
-- @order 300

-- @name report by region
-- @label for=management
insert into report
select 'by region', string_agg(format('%s: %s', region, amount), E'\n' order by region)
from (select region, sum(amount) as amount from day_total group by region) by_region
on conflict (title) do update set body = excluded.body;

-- @name best day
insert into report
select 'best day', day::text from day_total group by day order by sum(amount) desc, day limit 1
on conflict (title) do update set body = excluded.body;

-- Waits for nobody, and nobody waits for it.
-- @order none
comment on schema public is 'the shop; see nightly.sql';
