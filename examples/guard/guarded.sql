select rallypoint.guard('orders', :token);
insert into orders values (:'who', :token);
