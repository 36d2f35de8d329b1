"""The command that serves a page of runs."""

from pathlib import Path
from typing import Annotated

import typer

from mrafno.cli.program import app, say


@app.command(epilog="Examples: `mrafno dashboard runs`, `mrafno dashboard runs --port 0 --open`")
def dashboard(
    folder: Annotated[
        Path, typer.Argument(metavar="RUNS", help="A folder with runs in it, at any depth.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; the default lets only this machine in.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8765,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page that lists the runs under a folder and shows any of them live while it advances.

    It only reads, and nothing outside the folder. It runs until Ctrl-C.
    """
    from mrafno.dashboard import Server

    with Server(folder, host, port) as server:
        if not server.local:
            say(
                f"warning: {host} is not only this machine: whoever can reach it sees every run, without a password. "
                "A tunnel is safer: leave --host out, and from elsewhere use ssh -L 8765:localhost:8765 MACHINE."
            )
        typer.echo(f"{server.url} shows the runs under {server.site.runs.folder}; Ctrl-C ends it.")
        server.warm_up()
        if browser:
            typer.launch(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended.")
