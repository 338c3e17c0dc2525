"""Answers that come as files: `runtime/interview_response.json`, or one file a question in `runtime/interview_responses/`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.names import file_name
from perdure.disk.atomic import private_folder, replace
from perdure.kernel.interviewer import PendingQuestion
from perdure.kernel.question import Answer, Question

if TYPE_CHECKING:
    from perdure.disk.lock import PidLock

POLL_S = 0.1
_WORDS = {"yes": "yes", "no": "no", "aborted": "aborted", "skipped": "skipped", "timeout": "timeout"}
_MAX_ANSWER = 1024 * 1024
_claims: dict[str, PidLock] = {}


class GateFiles:
    """The interviewer that looks for answers in the run directory. It is never the reason for a run to stay."""

    is_present = False

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The answer, when a whole and valid one lies there."""
        import asyncio

        while True:
            answer = read_response(pending)
            if answer is not None:
                return answer
            await asyncio.sleep(POLL_S)


def response_paths(run_dir: str, question_id: str) -> tuple[str, str]:
    """Where an answer to this question may lie."""
    runtime = f"{run_dir}/runtime"
    return f"{runtime}/interview_responses/{file_name(question_id)}.json", f"{runtime}/interview_response.json"


def read_response(pending: PendingQuestion) -> Answer | None:
    """The answer that lies there; None while there is none, or only a half or foreign one."""
    own, common = response_paths(pending.run_dir, pending.question_id)
    for path in (own, common):
        try:
            with open(path, "rb") as file:
                value = msgspec.json.decode(file.read(_MAX_ANSWER))
                written_at = os.fstat(file.fileno()).st_mtime_ns
        except (OSError, ValueError, RecursionError):
            continue
        if path == common and not _is_for(value, pending, written_at):
            continue
        answer = parse_response(value, pending.question)
        if answer is not None:
            return answer
    return None


def _is_for(value: Any, pending: PendingQuestion, written_at: int) -> bool:
    """Whether an answer under the common name is for this question: it says so; or, unsaid, this is the one that is shown, and
    it was shown before the answer was written (ns): an answer that came late for another question is not for this one."""
    if isinstance(value, dict) and value.get("question_id"):
        return bool(value["question_id"] == pending.question_id)
    try:
        with open(f"{pending.run_dir}/runtime/interview_request.json", "rb") as file:
            shown = msgspec.json.decode(file.read())
            shown_at = os.fstat(file.fileno()).st_mtime_ns
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(shown, dict) and shown.get("question_id") == pending.question_id and written_at >= shown_at


def parse_response(value: Any, question: Question) -> Answer | None:
    """An answer in one of the shapes: a word, `{"Selected": key}`, `{"MultiSelected": [...]}`, `{"Text": text}`."""
    if not isinstance(value, dict):
        return None
    chosen = value.get("value")
    if isinstance(chosen, str):
        kind = _WORDS.get(chosen.lower())
        return Answer(kind, by="file") if kind else None  # type: ignore[arg-type]
    if not isinstance(chosen, dict):
        return None
    keys = [option.key for option in question.options]
    text = value.get("text")
    if "Selected" in chosen:
        return (
            Answer("selected", [chosen["Selected"]], text=text if isinstance(text, str) else None, by="file")
            if chosen["Selected"] in keys
            else None
        )
    several = chosen.get("MultiSelected")
    if isinstance(several, list):
        return Answer("multi_selected", several, by="file") if all(key in keys for key in several) else None
    if isinstance(chosen.get("Text"), str):
        return Answer("text", text=chosen["Text"], by="file")
    return None


def write_response(run_dir: str, question_id: str, answer: Answer) -> None:
    """Leave an answer for whoever executes the run, also when the database is lost before that."""
    path, _common = response_paths(run_dir, question_id)
    private_folder(os.path.dirname(path))
    replace(path, msgspec.json.encode(_shape(question_id, answer)), durable=True)


def _shape(question_id: str, answer: Answer) -> dict[str, object]:
    value: object = answer.kind.capitalize()
    if answer.kind == "selected":
        value = {"Selected": answer.selected[0]}
    elif answer.kind == "multi_selected":
        value = {"MultiSelected": answer.selected}
    elif answer.kind == "text":
        value = {"Text": answer.text}
    selected = answer.selected[0] if answer.selected else None
    return {"question_id": question_id, "value": value, "selected_option": selected, "text": answer.text}


def claim(run_dir: str) -> bool:
    """Say that this process shows the question to a person. False while another living one does."""
    from perdure.disk.lock import Locked, PidLock

    path = _claim_path(run_dir)
    if path in _claims:
        return True
    private_folder(os.path.dirname(path))
    lock = PidLock(path)
    try:
        lock.acquire()
    except Locked:
        return False
    _claims[path] = lock
    return True


def release_claim(run_dir: str) -> None:
    """This process shows the question no more."""
    lock = _claims.pop(_claim_path(run_dir), None)
    if lock is not None:
        lock.release()


def _claim_path(run_dir: str) -> str:
    return f"{run_dir}/runtime/interview_request.claim"
