"""The environment of commands: the person's own, without secrets that were not passed through by name."""

from collections.abc import Iterable, Mapping

from perdure.base.errors import Refused

_DROPPED = ("_API_KEY", "_SECRET", "_TOKEN", "_PASSWORD", "_CREDENTIAL", "_CREDENTIALS")


class MissingVariable(Refused):
    """A setting wants a variable of the environment that is not there."""

    code = "missing_variable"


def command_environment(
    environ: Mapping[str, str], *, extra: Mapping[str, str] | None = None, pass_through: Iterable[str] = ()
) -> dict[str, str]:
    """What a command sees: everything whose name does not say that it is a secret, what is passed through by name, and
    `extra`. Nothing asks questions: Git does not prompt."""
    kept = set(pass_through)
    result = {name: value for name, value in environ.items() if name in kept or not name.upper().endswith(_DROPPED)}
    result["GIT_TERMINAL_PROMPT"] = "0"
    result.update(extra or {})
    return result


_secrets: dict[str, str] = {}


def know_secrets(secrets: Mapping[str, str]) -> None:
    """The secrets that settings may name from now on, in this process."""
    _secrets.clear()
    _secrets.update(secrets)


def resolve_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Values of the form `${env.NAME}` taken from the environment, `${secret.NAME}` from the person's secrets.

    Raises `MissingVariable`."""
    resolved = {}
    for key, value in values.items():
        resolved[key] = value
        if value.startswith("${env.") and value.endswith("}"):
            name = value[6:-1]
            if name not in environ:
                raise MissingVariable(f"The setting {key} wants the variable {name}, which is not set.")
            resolved[key] = environ[name]
        elif value.startswith("${secret.") and value.endswith("}"):
            name = value[9:-1]
            if name not in _secrets:
                raise MissingVariable(
                    f"The setting {key} wants the secret {name}, which is not there.",
                    hint=f"`perdure secret set {name}` keeps one.",
                )
            resolved[key] = _secrets[name]
    return resolved
