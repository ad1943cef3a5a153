"""`cgipool methods` and `cgipool methods check`."""

from typing import Annotated

import typer

app = typer.Typer(help="List the pooling methods, or check one.", add_completion=False)


@app.callback(invoke_without_command=True)
def list_(context: typer.Context) -> None:
    """List the pooling methods, or check one."""
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from cgipool.cli.errors import output
    from cgipool.pool.registry import METHODS

    table = Table("name", "method", "kind", "what it does", "paper", box=None, pad_edge=False)
    for name, method in METHODS.items():
        table.add_row(name, method.title, method.kind, method.about, method.paper)
    output().print(table)


@app.command()
def check(
    method: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A name from `cgipool methods`, or your own class as package.module:Class."
        ),
    ],
) -> None:
    """Check that a method satisfies the contract, and whether it runs on the fast engine.

    Exit code 0: the contract holds; 1: it does not.
    """
    from cgipool.cli.errors import output
    from cgipool.cli.tables import findings_table
    from cgipool.contract import broken_rules, check_method, slow_because

    findings = check_method(method)
    output().print(findings_table(findings))
    broken, slow = broken_rules(findings), slow_because(findings)
    typer.echo(f"\n{method}: {'contract broken: ' + ', '.join(broken) if broken else 'contract holds'}")
    typer.echo(f"fast engine: {'no: ' + slow if slow else 'yes'}")
    raise typer.Exit(1 if broken else 0)
