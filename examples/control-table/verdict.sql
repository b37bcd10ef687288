-- How many of each resource ran, whether never more at a time than its limit, and whether the writer was alone.
with together as (
    select one.resource, one.token, count(*) as participants,
        bool_or('writer' in (one.how, other.how)) filter (where other.token <> one.token) as is_broken
    from participant as one
    join participant as other
        on other.resource = one.resource
        and one.began between other.began and other.ended
    group by one.resource, one.token
)
select resource, count(*) as ran, max(participants) <= max(most) as within_limit, not coalesce(bool_or(is_broken), false) as writer_alone
from together
join (values ('extract', 3), ('load', 2), ('customer-list', 4)) as limits (resource, most) using (resource)
group by resource
order by resource;
