"""What the console entry puts off is there when it is wanted, and a process that leaves at once leaves nothing out."""

import subprocess
import sys

from conftest import Perdure  # type: ignore[import-not-found]

FINDER = "import sys; from perdure.cli import entry; sys.meta_path.insert(0, entry._Finder); import asyncio; "


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", FINDER + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_asyncio_needs_for_tls_only_is_not_loaded_before_tls() -> None:
    assert python("asyncio.run(asyncio.sleep(0)); print('_ssl' in sys.modules)") == "False"


def test_tls_works_all_the_same_when_it_is_wanted() -> None:
    code = """
import ssl
async def main():
    context = ssl.create_default_context()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    except (ssl.SSLError, ConnectionError) as error:
        print(type(error).__name__)
    server.close()
asyncio.run(main())
import httpx2
print(sys.modules["ssl"].SSLContext is ssl.SSLContext)
"""
    said = python("exec(" + repr(code) + ")").splitlines()

    assert said[-1] == "True"
    assert len(said) == 2


def test_the_whole_output_is_there_when_the_process_leaves(perdure: Perdure) -> None:
    found = perdure("--help").succeeded()

    assert found.out.rstrip().endswith("Print a shell's completion script.")
    assert perdure("no-such-command").code == 2
