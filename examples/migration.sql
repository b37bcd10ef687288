/* A migration, without orders: each statement waits for the one before, and a failure stops it, as
   in psql with ON_ERROR_STOP. A semicolon ends a statement where it does in psql. */
\set ON_ERROR_STOP on

create table account (
    id      int primary key,
    "owner; of it" text not null default 'nobody; yet',
    balance numeric(12, 2) not null check (balance >= 0)
);

create table transfer (source int references account, target int references account, amount numeric(12, 2));

-- A body in dollar quotes.
create function transferred() returns trigger language plpgsql as $body$
begin
    update account set balance = balance - new.amount where id = new.source;
    update account set balance = balance + new.amount where id = new.target;
    return new; -- the semicolons here end nothing
end;
$body$;

create trigger transferred after insert on transfer for each row execute function transferred();

-- A body of SQL, between BEGIN and END.
create or replace procedure transfer_all(of int, "to" int)
begin atomic
    insert into transfer
    select id, "to", case when balance > 10 then balance - 10 else 0 end from account where id = of;
end;

-- Statements in parentheses.
create view accounts as select id, balance from account;
create rule renamed as on update to accounts do instead (
    update account set "owner; of it" = 'renamed; from ' || "owner; of it" where id = new.id;
    notify accounts
);

insert into account values (1, 'ann', 100), (2, E'bob\'s; mother', 0), (3, U&'\00e4nne', 10);
call transfer_all(1, 2);
update accounts set id = id where id = 3;

-- No transaction may be around it, and there is none.
create index concurrently by_balance on account (balance); /* done; /* really; */ */
