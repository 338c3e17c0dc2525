-- Child runs are found from their parent, and listings leave settled runs out without reading them all.

alter table runs add column parent text;

create index runs_parent on runs (parent) where parent is not null;
create index runs_open on runs (created_at) where settled_at is null;
