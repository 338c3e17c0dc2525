"""read, write, edit: files of the worktree, byte for byte what the model meant.

An existing file is written only when the conversation has seen it as it now is. `edit` keeps line ends, a byte order mark and
permissions. Both find out by themselves whether a call that a kill interrupted was already done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from perdure.agents.tools import paths
from perdure.agents.tools.output import outcome_of
from perdure.agents.tools.paths import Content, Place
from perdure.agents.tools.tool import NativeTool, Seen, ToolFault, ToolOutcome

if TYPE_CHECKING:
    from perdure.agents.tools.tool import Invocation

_LINES = 2_000
_LINE_LENGTH = 2_000
_BOM = "\ufeff"
# So many places an interrupted edit is looked for, by a digest each.
_TRIES = 1_000
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")
_PATH = Meta(description="Path of the file, relative to the working folder or absolute.")


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `read` takes."""

    path: Annotated[str, _PATH]
    offset: Annotated[int, Meta(ge=1, description="First line, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines.")] = _LINES


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `write` takes."""

    path: Annotated[str, _PATH]
    content: Annotated[str, Meta(description="The whole new content.")]


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `edit` takes."""

    path: Annotated[str, _PATH]
    old_string: Annotated[str, Meta(min_length=1, description="The text to replace, exactly as it stands in the file.")]
    new_string: Annotated[str, Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


async def read_file(arguments: ReadArguments, call: Invocation) -> ToolOutcome:
    """Lines of a text file with their numbers."""
    place = paths.locate(call.context, arguments.path)
    found = paths.read(place)
    if found is None:
        raise ToolFault(f"There is no file {place.inside}.")
    text = _text_of(place, found)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    seen = (Seen(place.path, found.digest),)
    if not lines:
        return ToolOutcome(f"{place.inside} is empty.", saw=seen)
    first = arguments.offset - 1
    if first >= len(lines):
        raise ToolFault(f"{place.inside} has {len(lines)} lines; there is no line {arguments.offset}.")
    window = lines[first : first + arguments.limit]
    shown = "\n".join(f"{number:6}\t{_short(line)}" for number, line in enumerate(window, arguments.offset))
    rest = len(lines) - first - len(window)
    after = f"\n[{rest} more lines; go on with offset {first + len(window) + 1}]" if rest else ""
    outcome = outcome_of(shown, call, after=after)
    return msgspec.structs.replace(outcome, saw=seen)


async def write_file(arguments: WriteArguments, call: Invocation) -> ToolOutcome:
    """The file with this content, made with its folders when it is not there."""
    place = _writable(call, arguments.path)
    content = _encoded(arguments.content)
    found = paths.read(place)
    if call.was_interrupted:
        paths.sweep(place, _mark(call))
    if found is None or not (call.was_interrupted and found.bytes == content):
        _check_known(call, place, found)
        paths.write(place, content, None if found is None else found.mode, _mark(call))
    made = "Made" if found is None else "Wrote"
    return ToolOutcome(
        f"{made} {place.inside}: {len(content)} bytes.", saw=(Seen(place.path, paths.digest_of(content)),)
    )


async def edit_file(arguments: EditArguments, call: Invocation) -> ToolOutcome:
    """A text of the file replaced by another."""
    place = _writable(call, arguments.path)
    found = paths.read(place)
    if found is None:
        raise ToolFault(f"There is no file {place.inside}; write makes one.")
    text = _decoded(place, found)
    old, new = _with_line_ends(text, arguments.old_string), _with_line_ends(text, arguments.new_string)
    if call.was_interrupted:
        paths.sweep(place, _mark(call))
        if _is_applied(call, place, found, text, old, new, arguments.replace_all):
            return ToolOutcome(f"Edited {place.inside}.", saw=(Seen(place.path, found.digest),))
    _check_known(call, place, found)
    count = text.count(old)
    if old == new:
        raise ToolFault("old_string and new_string are the same; nothing was changed.")
    if count == 0:
        raise ToolFault(
            f"old_string is not in {place.inside}. It must be there exactly, with its spaces and line ends."
        )
    if count > 1 and not arguments.replace_all:
        raise ToolFault(
            f"old_string is {count} times in {place.inside}. Give more of the text around it, or set replace_all."
        )
    content = text.replace(old, new).encode()
    paths.write(place, content, found.mode, _mark(call))
    times = f", {count} places" if count > 1 else ""
    return ToolOutcome(f"Edited {place.inside}{times}.", saw=(Seen(place.path, paths.digest_of(content)),))


def _is_applied(
    call: Invocation, place: Place, found: Content, text: str, old: str, new: str, everywhere: bool
) -> bool:
    """Whether the interrupted call has written the file: taking its change back gives what the model had seen."""
    known = call.context.guard.known(place.path)
    if known is None or known == found.digest:
        return False
    if everywhere and old not in new:
        return bool(new) and paths.digest_of(text.replace(new, old).encode()) == known
    at = text.find(new)
    for _ in range(_TRIES):
        if at < 0:
            return False
        if paths.digest_of((text[:at] + old + text[at + len(new) :]).encode()) == known:
            return True
        at = text.find(new, at + 1) if at < len(text) else -1
    return False


def _check_known(call: Invocation, place: Place, found: Content | None) -> None:
    """Raises `ToolFault` unless the model knows what it is about to replace."""
    if found is None:
        return
    known = call.context.guard.known(place.path)
    if known is None:
        raise ToolFault(f"{place.inside} is there already and was not read in this conversation. Read it first.")
    if known != found.digest:
        raise ToolFault(f"{place.inside} has changed since it was last read. Read it again first.")


def _writable(call: Invocation, path: str) -> Place:
    place = paths.locate(call.context, path)
    paths.check_writable(place)
    return place


def _text_of(place: Place, found: Content) -> str:
    """A file as lines for the model; what is no UTF-8 is replaced. Raises `ToolFault` for what is no text."""
    head = found.bytes[:8192]
    if head.startswith(_IMAGES) and b"\0" in head:
        raise ToolFault(f"{place.inside} is an image; its content is not shown.")
    if b"\0" in head:
        raise ToolFault(f"{place.inside} is a binary file of {len(found.bytes)} bytes; its content is not shown.")
    return found.bytes.decode("utf-8", "replace").removeprefix(_BOM).replace("\r\n", "\n")


def _decoded(place: Place, found: Content) -> str:
    try:
        return found.bytes.decode()
    except UnicodeDecodeError as error:
        raise ToolFault(
            f"{place.inside} is no UTF-8 text (byte {error.start}); it cannot be edited as text."
        ) from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolFault(f"content holds half of a surrogate pair at position {error.start}.") from error


def _with_line_ends(text: str, given: str) -> str:
    """A text as it would stand in the file: of a file that has only CRLF the model sees LF."""
    ends = text.count("\r\n")
    if ends and ends == text.count("\n") and "\r\n" not in given:
        return given.replace("\n", "\r\n")
    return given


def _short(line: str) -> str:
    return (
        line
        if len(line) <= _LINE_LENGTH
        else f"{line[:_LINE_LENGTH]}[... {len(line) - _LINE_LENGTH} characters left out]"
    )


def _mark(call: Invocation) -> str:
    return paths.digest_of(call.place.encode("utf-8", "replace"))[:12]


READ = NativeTool(
    "read",
    f"Read a text file. Lines come with their numbers, at most {_LINES} at once: give offset and limit for others.",
    ReadArguments,
    "read",
    True,
    read_file,
)
WRITE = NativeTool(
    "write",
    "Write a whole file. A file that is there already must have been read before. To change a part, use edit.",
    WriteArguments,
    "write",
    True,
    write_file,
)
EDIT = NativeTool(
    "edit",
    "Replace a text in a file by another. The file must have been read before; old_string must match exactly and once.",
    EditArguments,
    "write",
    True,
    edit_file,
)
