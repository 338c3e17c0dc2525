"""What other processes ask of the runs that this one executes, or answer: looked for ten times a second while any is at work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.kernel.run import Run
    from perdure.store.protocol import Store

WATCH_S = 0.1


class Others:
    """Sees what others wrote into the store. `active` holds the runs that are executed here; `on_broken` hears that it failed."""

    def __init__(
        self, store: Store, active: Mapping[str, Run], on_broken: Callable[[Run, BaseException], None]
    ) -> None:
        self._store = store
        self._active = active
        self._on_broken = on_broken
        self._watching: asyncio.TimerHandle | None = None
        self._marker = 0

    def watch(self) -> None:
        """Look from now on, until no run is executed here any more."""
        if self._watching is None:
            self._marker = 0
            self._watching = asyncio.get_running_loop().call_later(WATCH_S, self._look)

    def look_again(self) -> None:
        """Look at every run next time: what this process itself wrote changes no marker."""
        self._marker = 0

    def look_for_answer(self, run: Run, question_id: str) -> None:
        """Let the run go on if its question was answered, by whomever."""
        waiting = run.questions.get(question_id)
        if waiting is None or waiting.done():
            return
        row = self._store.find_question(question_id)
        if row is not None and row.answer is not None:
            waiting.set_result(row.answer)

    def _look(self) -> None:
        self._watching = None
        if not self._active:
            return
        try:
            marker = self._store.change_marker()
            if marker != self._marker:
                self._marker = marker
                for run in list(self._active.values()):
                    self._look_at(run)
            for run in list(self._active.values()):
                run.log.flush()
        except PerdureError as error:
            for run in list(self._active.values()):
                self._on_broken(run, error)
            return
        self._watching = asyncio.get_running_loop().call_later(WATCH_S, self._look)

    def _look_at(self, run: Run) -> None:
        for question_id in list(run.questions):
            self.look_for_answer(run, question_id)
        for request in self._store.open_requests(run.row.no):
            body = decode(request.body)
            assert isinstance(body, dict)
            run.log.take_request(request.id)
            run.log.add(f"run.{request.kind}_requested", None, body)
            run.log.commit_soon()
            if request.kind == "cancel":
                run.halt("cancelled", str(body.get("reason") or "cancelled on request"))
            elif request.kind == "pause":
                run.pausing = str(body.get("reason") or "paused on request")
                run.may_be_idle()
            elif request.kind == "steer":
                run.steering.append(str(body.get("text", "")))
