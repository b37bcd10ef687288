insert into orders values (:'who', :token);
