-- name: insert_run
-- A new run. Its id is chosen by SQLite and names the run in the other tables.
insert into runs (run_id, name, kind, status, created_at, started_at, run_dir, owner, epoch, record, parent)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: run_by_id
-- One run by its whole id.
select id, run_id, name, kind, status, created_at, started_at, settled_at, run_dir, owner, epoch, record, parent
from runs where run_id = ?

-- name: runs_by_prefix
-- Runs whose id begins so, newest first.
select id, run_id, name, kind, status, created_at, started_at, settled_at, run_dir, owner, epoch, record, parent
from runs where run_id >= ?1 and run_id < ?1 || '~' order by created_at desc, id desc

-- name: all_runs
-- Every run, the last made first: nearly sorted, which costs SQLite nothing.
select id, run_id, name, kind, status, created_at, started_at, settled_at, run_dir, owner, epoch, record, parent
from runs order by id desc

-- name: open_runs
-- Runs that are not settled, newest first.
select id, run_id, name, kind, status, created_at, started_at, settled_at, run_dir, owner, epoch, record, parent
from runs where settled_at is null order by created_at desc, id desc

-- name: child_runs
-- The runs that a run started, oldest first.
select id, run_id, name, kind, status, created_at, started_at, settled_at, run_dir, owner, epoch, record, parent
from runs where parent = ? order by created_at, id

-- name: epoch_of
-- Whether a claim still holds: nobody took the run over since.
select epoch from runs where id = ?

-- name: set_owner
-- A claim: a new owner, a new epoch.
update runs set owner = ?, epoch = epoch + 1 where id = ? returning epoch

-- name: clear_owner
-- The owner lets go; only while it is the owner.
update runs set owner = null where id = ? and epoch = ?

-- name: set_status
-- A new status of a run that is not settled.
update runs set status = ?, started_at = coalesce(started_at, ?) where id = ?

-- name: settle_run
-- The end of a run: its status stays, nobody owns it, its questions are closed.
update runs set status = ?, settled_at = ?, record = ?, owner = null where id = ?

-- name: set_record
-- What is shown of a run.
update runs set record = ? where id = ?

-- name: set_run_dir
-- The run directory lies somewhere else now.
update runs set run_dir = ? where id = ?

-- name: insert_event
-- One event of the log. The key refuses a second event with the same number.
insert into events (key, id, ts, event, step, body) values (?, ?, ?, ?, ?, ?)

-- name: events_of
-- The log of a run, after a number.
select key & 0xffffffff, id, ts, event, step, body from events
where key > (?1 << 32) + ?2 and key < ((?1 + 1) << 32) order by key

-- name: last_event
-- The newest event of a run.
select key & 0xffffffff, id, ts, event, step, body from events
where key >= ?1 << 32 and key < ((?1 + 1) << 32) order by key desc limit 1

-- name: open_question
-- A question that a step asks; asking again keeps the answer that came meanwhile.
insert into questions (question_id, run, step, asked_at, question) values (?, ?, ?, ?, ?)
on conflict (question_id) do nothing

-- name: close_question
-- The step has taken the answer, or no longer waits.
update questions set closed = 1 where question_id = ?

-- name: close_questions_of
-- Nobody waits any more.
update questions set closed = 1 where run = ? and closed = 0

-- name: answer_question
-- The first answer counts.
update questions set answer = ?, answered_at = ? where question_id = ? and answer is null and closed = 0

-- name: questions_of
-- Open questions of a run, oldest first.
select q.question_id, r.run_id, q.step, q.asked_at, q.question, q.answer
from questions q join runs r on r.id = q.run where q.run = ? and q.closed = 0 order by q.asked_at, q.question_id

-- name: question_by_id
-- One question, open or not.
select q.question_id, r.run_id, q.step, q.asked_at, q.question, q.answer
from questions q join runs r on r.id = q.run where q.question_id = ?

-- name: all_open_questions
-- Everything that waits for a person, oldest first.
select q.question_id, r.run_id, q.step, q.asked_at, q.question, q.answer
from questions q join runs r on r.id = q.run where q.closed = 0 order by q.asked_at, q.question_id

-- name: insert_request
-- Something asked of whoever owns the run.
insert into requests (run, kind, body, made_at) values (?, ?, ?, ?)

-- name: open_requests
-- What was asked and not taken, oldest first.
select id, kind, body from requests where run = ? and taken_at is null order by id

-- name: take_request
-- The owner has it.
update requests set taken_at = ? where id = ?

-- name: delete_events
delete from events where key >= ?1 << 32 and key < ((?1 + 1) << 32)

-- name: delete_questions
delete from questions where run = ?

-- name: delete_requests
delete from requests where run = ?

-- name: delete_run
delete from runs where id = ?

-- name: get_meta
select value from state_meta where key = ?

-- name: set_meta
insert into state_meta (key, value) values (?, ?) on conflict (key) do nothing

-- name: all_slots
-- Who works and who waits; few rows, as each stands for an agent at this moment.
select id, backend, owner, run_id, step, tags, remaining, coalesce(place, id), asked_at, taken_at from slots order by id

-- name: ask_slot
-- At the end of the line: without a place of another, its id is its place.
insert into slots (backend, owner, run_id, step, tags, remaining, asked_at) values (?, ?, ?, ?, ?, ?, ?) returning id

-- name: place_slot
-- A place in the line.
update slots set place = ? where id = ?

-- name: take_slot
-- It waits no more.
update slots set taken_at = ? where id = ?

-- name: free_slot
-- It is done, or waits no more.
delete from slots where id = ?

-- name: has_slots
-- A state that is only read may be of an older version.
select 1 from sqlite_schema where type = 'table' and name = 'slots'
