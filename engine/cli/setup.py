"""`itrstress setup`: data that some perturbations need and that cannot come with the package."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH


@click.group("setup")
def command() -> None:
    """Get WordNet for the synonym perturbations."""


@command.command("wordnet")
@click.option(
    "--from",
    "source",
    metavar="DIR",
    type=PATH,
    help="A WordNet 3.0 database folder, such as /usr/share/wordnet of Debian's wordnet-base and "
    "wordnet-sense-index.",
)
@click.option("--download", "fetch", is_flag=True, help="Let NLTK's downloader fetch it (needs the network).")
@click.option("--force", is_flag=True, help="Replace what an earlier setup has put there.")
def wordnet(source: Path | None, fetch: bool, force: bool) -> None:
    """Put WordNet 3.0 into the user's data directory; without an option say which one is used.

    The synonym perturbations and the WordNet features of `corpus granularity` need it; NLTK's own wordnet
    data in an NLTK data folder is found without this command.
    """
    from engine.variants.wordnet import find_wordnet, open_wordnet
    from engine.variants.wordnet_setup import download, install_from

    if source is not None and fetch:
        raise click.UsageError("--from and --download exclude each other; give one of them")
    if source is not None:
        click.echo(f"wrote {install_from(source, force=force)}")
    if fetch:
        click.echo(f"wrote {download(force=force)}")
    click.echo(f"WordNet {open_wordnet().version} at {find_wordnet()}")
