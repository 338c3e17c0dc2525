"""perdure session: conversations of agents. Each command is a file of its own."""

from __future__ import annotations

import click

from perdure.cli.commands.session_list import list_sessions
from perdure.cli.commands.session_send import send_session
from perdure.cli.commands.session_show import show_session


@click.group()
def session() -> None:
    """Conversations of agents."""


session.add_command(list_sessions)
session.add_command(show_session)
session.add_command(send_session)
