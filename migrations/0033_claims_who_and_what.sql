-- Who claimed what, in columns of the log of claims. The columns before them are as they were.

create or replace view rallypoint_log.claims as
select
    first.claim_no as claim,
    rallypoint_log.readable(first.spec) as asks_for,
    first.at as requested_at,
    granted.at as granted_at,
    granted.token,
    ended.at as ended_at,
    case ended.ended when 1 then 'released' when 2 then 'withdrawn' when 3 then 'waited too long' when 4 then 'abandoned in waiting'
        when 5 then 'lease over' when 6 then 'held too long' when 7 then 'ended by an operator' else ended.ended::text end as ended,
    rallypoint_log.readable(ended.ended_by) as ended_by,
    rallypoint_log.readable(ended.reason) as reason,
    first.shard,
    spec.said ->> 'namespace' as namespace,
    array(
        select want.said ->> 'name'
        from json_array_elements(case json_typeof(spec.said -> 'wants') when 'array' then spec.said -> 'wants' end) as want (said)
    ) as resources,
    spec.said ->> 'owner' as owner
from claim first
-- Read once, not once for each column.
cross join lateral (select rallypoint_log.as_json(first.spec) as said offset 0) spec
left join claim granted on granted.shard = first.shard and granted.claim_no = first.claim_no and granted.kind = 2
left join claim ended on ended.shard = first.shard and ended.claim_no = first.claim_no and ended.kind = 3
where first.spec is not null;

comment on column rallypoint_log.claims.namespace is 'Whose they are.';
comment on column rallypoint_log.claims.resources is 'The names of the resources.';
comment on column rallypoint_log.claims.owner is 'Who claimed them, as the caller says.';
