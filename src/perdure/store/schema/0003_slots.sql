-- Which agents are at work on this machine, and which wait for it. One row from the asking to the end: `taken_at` is null while it
-- waits. `owner` is the identity of the process that asks, so that the rows of a dead one can be told. `place` is the row's place in
-- the line, null for the one that its id gives it; ids are never given twice, so that whoever lets go late takes nothing from a newer row.

create table slots (
    id integer primary key autoincrement,
    backend text not null,
    owner text not null,
    run_id text not null,
    step text not null,
    tags text not null,
    remaining integer not null,
    place integer,
    asked_at integer not null,
    taken_at integer
);
