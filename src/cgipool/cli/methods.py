"""`cgipool methods` and `cgipool methods check`."""

from typing import Annotated

import typer

app = typer.Typer(help="List the pooling methods, or check one.", add_completion=False)


@app.callback(invoke_without_command=True)
def list_(context: typer.Context) -> None:
    """List the pooling methods, or check one."""
    if context.invoked_subcommand is not None:
        return
    from cgipool.cli.tables import methods_table, output
    from cgipool.pool import METHODS

    output().print(methods_table(METHODS))


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
    from cgipool.cli.tables import findings_table, output
    from cgipool.contract import broken_rules, check_method, slow_because

    findings = check_method(method)
    output().print(findings_table(findings))
    broken, slow = broken_rules(findings), slow_because(findings)
    typer.echo(f"\n{method}: {'contract broken: ' + ', '.join(broken) if broken else 'contract holds'}")
    typer.echo(f"fast engine: {'no: ' + slow if slow else 'yes'}")
    raise typer.Exit(1 if broken else 0)
