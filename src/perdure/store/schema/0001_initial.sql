-- The first released schema. `events` is the truth; everything else is what is asked for by column.

create table state_meta (
    key text primary key,
    value text not null
) without rowid;

-- One row a run. `owner` is the identity of the process that executes it, null when nobody does; `epoch` counts the claims, so
-- that an owner who was taken over can no longer write. `record` is JSON: what is shown and never searched.
create table runs (
    id integer primary key,
    run_id text not null unique,
    name text not null,
    kind text not null,
    status text not null,
    created_at integer not null,
    started_at integer,
    settled_at integer,
    run_dir text not null,
    owner text,
    epoch integer not null default 0,
    record text not null
);

-- `key` is run * 2^32 + seq: an integer key appends without reordering pages, and refuses a second event with one number.
create table events (
    key integer primary key,
    id blob not null,
    ts integer not null,
    event text not null,
    step text,
    body blob not null
);

create table questions (
    question_id text primary key,
    run integer not null,
    step text not null,
    asked_at integer not null,
    question text not null,
    answer text,
    answered_at integer,
    closed integer not null default 0
) without rowid;

create index questions_open on questions (run) where closed = 0;

create table requests (
    id integer primary key,
    run integer not null,
    kind text not null,
    body text not null,
    made_at integer not null,
    taken_at integer
);

create index requests_open on requests (run) where taken_at is null;
