"""`python -m labeldp_bench`, and the console script."""

import sys


def main() -> None:
    """Runs the command line; Ctrl-C is one line from the first import on."""
    try:
        from labeldp.support.progress import escape_unknown_letters
        from labeldp_bench.cli.main import main as run

        escape_unknown_letters()
        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
