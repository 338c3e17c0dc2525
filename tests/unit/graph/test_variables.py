"""`$name` in attributes: values are values, whatever signs they hold."""

import subprocess

import pytest

from .conftest import Load

HOSTILE = "$(touch pwned)`touch pwned`'\"; touch pwned\n#"


def test_a_variable_stands_in_every_attribute_and_the_goal_waits(body: Load) -> None:
    graph = body(
        'a [prompt="fix $what for $goal, $$5", model=$model]', variables={"what": 'the "x"', "model": "m-1"}
    ).graph

    assert graph is not None
    assert graph.nodes["a"].attrs == {"prompt": 'fix the "x" for $goal, $5', "model": "m-1"}


def test_a_value_cannot_become_part_of_the_graph(body: Load) -> None:
    loaded = body('a [prompt="$x"]', variables={"x": '"] evil [prompt="y'})

    assert loaded.graph is not None
    assert list(loaded.graph.nodes) == ["start", "exit", "a"]


def test_a_name_without_a_value_is_an_error_with_its_line(body: Load) -> None:
    [found] = [
        each for each in body('a [prompt="$nobody"]', variables={"x": "1"}).errors if each.rule == "unknown_variable"
    ]

    assert (found.line, found.node_id) == (2, "a")
    assert found.fix is not None
    assert "$$nobody" in found.fix


def test_without_variables_a_dollar_is_left_to_scripts(body: Load) -> None:
    graph = body('a [shape=parallelogram, script="echo $HOME $1"]').graph

    assert graph is not None
    assert graph.nodes["a"].text("script") == "echo $HOME $1"


@pytest.mark.parametrize("use", ['printf %s "$x"', 'printf %s \\"${x}\\"; : $x'])
def test_a_value_in_a_script_is_never_run(use: str, body: Load, tmp_path: object) -> None:
    quoted = use if "\\" in use else use.replace('"', '\\"')
    graph = body(f'a [shape=parallelogram, script="{quoted}"]', variables={"x": HOSTILE}).graph
    assert graph is not None

    script = graph.nodes["a"].text("script")
    done = subprocess.run(["bash", "-c", script], cwd=str(tmp_path), capture_output=True, text=True, check=True)

    assert done.stdout == HOSTILE
    assert subprocess.run(["ls"], cwd=str(tmp_path), capture_output=True, text=True, check=True).stdout == ""


def test_a_python_script_takes_harmless_values_only(body: Load) -> None:
    text = "a [shape=parallelogram, language=python, script=\"print('$x')\"]"

    good = body(text, variables={"x": "v1.2"}).graph
    bad = body(text, variables={"x": "'); evil()"})

    assert good is not None
    assert good.nodes["a"].text("script") == "print('v1.2')"
    assert [each.rule for each in bad.errors] == ["unknown_variable"]
