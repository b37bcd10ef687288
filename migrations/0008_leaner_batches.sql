-- What every batch pays for and nobody needs: checks of values that follow from how the writer counts them, since Postgres
-- reads the text of a check anew for every insert, and two indexes that no statement reads. Partitions lose theirs with the
-- table, and new ones are made like it. The rows stay as they are, so programs of before may go on beside this.
alter table submission drop constraint submission_count;
alter table completion drop constraint completion_count;
alter table attempt drop constraint attempt_kind;

drop index completion_times;
drop index attempt_times;
