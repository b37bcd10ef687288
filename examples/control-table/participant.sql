\getenv token RALLYPOINT_TOKEN
insert into participant (resource, how, token, began) values (:'resource', :'how', :token, clock_timestamp());
select pg_sleep(0.5) \g /dev/null
update participant set ended = clock_timestamp() where token = :token;
