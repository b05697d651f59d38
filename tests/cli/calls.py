"""Calls of the command in this process."""

from typer.testing import CliRunner

from trca.cli import app


def trca(*arguments, **options):
    """The result of a call; options are those of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(each) for each in arguments], **options)


def done(*arguments, **options):
    """The output of a call that succeeds."""
    result = trca(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments, **options):
    """The output of a call that is refused, on one line."""
    result = trca(*arguments, **options)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


ALL = (trca, done, refused)
