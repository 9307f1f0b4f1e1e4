"""`python -m labeldp.cli`, and the console script `labeldp`."""

import contextlib
import os
import sys
import warnings
from typing import Any, TextIO

from labeldp import __version__
from labeldp.cli.arguments import OneLineParser
from labeldp.names import CONTROL, printable
from labeldp.support.progress import escape_unknown_letters
from labeldp.support.validate import InputError

DESCRIPTION = """Learning from labels that stay secret (label differential privacy).

  labeldp plan --rows 20000 --classes 3 --eps 1
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 --row-id person \\
      --out survey.release.parquet
  labeldp fit features.csv --release survey.release.parquet --row-id person --out model.skops
  labeldp predict features.csv --model model.skops --row-id person --out predictions.csv
  labeldp evaluate other_features.csv --release survey.release.parquet --row-id person \\
      --model model.skops

Whoever holds the labels runs `release` once, and hands over its file with the features. Each
command says more of itself: labeldp plan --help"""


def parser() -> OneLineParser:
    """Returns the parser of all commands."""
    # Imported here, so that Ctrl-C is one line from then on.
    from labeldp.cli import audit, evaluate, fit, plan, predict, release, report, verify

    top = OneLineParser(prog="labeldp", description=DESCRIPTION)
    top.add_argument("--version", action="version", version=f"labeldp {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = (plan, release, fit, predict, evaluate, report, verify, audit)
    for module in modules:
        summary, _, example = (module.__doc__ or "").partition("\n")
        own = commands.add_parser(
            module.__name__.rpartition(".")[2], help=summary, description=summary + "\n" + example
        )
        module.add_arguments(own)
        own.set_defaults(run=module.run)
    return top


class _Escaped:
    """A stream to which no sign of a file gets that a terminal takes for a command."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(CONTROL.sub(lambda sign: repr(sign[0])[1:-1], text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _check_letters(arguments: list[str]) -> None:
    """Refuses arguments that are no text: Arrow opens no file of such a name."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{each} is not text in UTF-8, as names of files must be (rename the file)"
            ) from None


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns its exit status: 0, or 2 for what a user can fix."""
    escape_unknown_letters()
    own: tuple[Any, Any] = (_Escaped(sys.stdout), _Escaped(sys.stderr))
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(own[0]),
            contextlib.redirect_stderr(own[1]),
        ):
            warnings.showwarning = lambda message, *_: print(
                f"note: {printable(message)}", file=sys.stderr
            )
            _check_letters(sys.argv[1:] if arguments is None else arguments)
            given = parser().parse_args(arguments)
            return int(given.run(given))
    except InputError as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: {printable(error.filename or 'a file')}: {error.strerror}", file=sys.stderr)
        return 2
    except MemoryError:
        print("error: there is not enough memory for this file", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
