"""The command that serves the dashboard."""

from pathlib import Path
from typing import Annotated

import typer

from mrafno.cli.program import app, print_stderr


@app.command(epilog="Examples: `mrafno dashboard runs`, `mrafno dashboard runs --port 0 --open`")
def dashboard(
    folder: Annotated[
        Path, typer.Argument(metavar="RUNS", help="A folder with runs in it, at any depth.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; the default serves this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8765,
    control: Annotated[
        bool,
        typer.Option("--control", help="Allow the page to pause and stop runs and to write notes, with a token."),
    ] = False,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page that lists the runs under a folder and shows each of them live.

    It reads only, and nothing outside the folder, unless --control is given: then whoever has the printed address can
    pause and stop runs, and write notes. Ctrl-C stops it.
    """
    from mrafno.dashboard import Server

    with Server(folder, host, port, control=control) as server:
        if not server.local:
            print_stderr(
                f"warning: {host} can be reached from other machines, and there is no password. A tunnel is safer: "
                "leave --host out, and on the other machine use ssh -L 8765:localhost:8765 MACHINE."
            )
        typer.echo(f"{server.page} shows the runs under {server.site.runs.folder}; Ctrl-C stops it.")
        server.warm_up()
        if browser:
            typer.launch(server.page)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_stderr("stopped.")
