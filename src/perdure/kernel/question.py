"""What a step asks of a person, and what came back."""

from typing import Any, Literal

import msgspec

QuestionType = Literal["yes_no", "confirmation", "multiple_choice", "multi_select", "freeform"]


class Option(msgspec.Struct, frozen=True):
    """One choice: `key` is what a person types, `label` what it means."""

    key: str
    label: str


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to a person.

    `default` is an option's key (or `yes` / `no`) taken when `timeout_ms` has passed; without a default the answer is then
    of kind `timeout`. Without `timeout_ms` the question stays open for ever.
    """

    text: str
    type: QuestionType = "freeform"
    options: list[Option] = []
    allow_freeform: bool = False
    default: str | None = None
    timeout_ms: int | None = None
    context: str | None = None
    metadata: dict[str, Any] = {}


AnswerKind = Literal["yes", "no", "selected", "multi_selected", "text", "aborted", "skipped", "timeout"]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came back. `selected` holds option keys; `by` says from whom (`person`, `file`, `auto`, `default`, `nobody`)."""

    kind: AnswerKind
    selected: list[str] = []
    text: str | None = None
    by: str = "person"

    @property
    def is_consent(self) -> bool:
        """Whether somebody really answered: silence, an abort or a skip never is a yes."""
        return self.kind not in ("aborted", "skipped", "timeout")
