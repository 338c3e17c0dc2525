"""The errors of Perdure: each names the thing, the fact and the way out.

PerdureError                 exit 2, `internal` unless a subclass says otherwise
├── Refused                  2  bad input: usage, a file that does not parse, a value that is not JSON
├── EnvironmentFault         2  the machine: permissions, a full disk, a missing program
├── NotFound                 4  no such run, key or question
├── NotFinished              4  it waits for something outside itself
├── OwnedElsewhere           5  another live process owns the run
└── WorkFailed               1  the work's own answer is no

A subclass carries `code` (a stable word for programs, documented in docs/reference/errors.md) and
`exit_code` (docs/reference/exit-codes.md). The message is for people; `hint` is the way out.
"""


class PerdureError(Exception):
    """Something that Perdure can explain in one line, without a traceback."""

    code = "internal"
    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class Refused(PerdureError):
    """What was given cannot be used."""

    code = "refused"


class EnvironmentFault(PerdureError):
    """The machine does not allow it."""

    code = "environment"


class NotFound(PerdureError):
    """Nothing has that name."""

    code = "not_found"
    exit_code = 4


class NotFinished(PerdureError):
    """The run waits for something outside itself."""

    code = "not_finished"
    exit_code = 4


class OwnedElsewhere(PerdureError):
    """Another live process owns the run."""

    code = "owned_elsewhere"
    exit_code = 5


class WorkFailed(PerdureError):
    """The work's own answer is no."""

    code = "work_failed"
    exit_code = 1
