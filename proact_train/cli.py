"""The `proact` command: an explicit table of subcommands, each imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from .core.errors import EXIT_CODE_USER_ERROR, ProActError

# command -> (module with add_arguments(parser) and run(args), one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("proact_train.demo.command", "all of the product on a laptop -> a report to open"),
    "build egopro": ("data_builders.egopro", "EgoPro-Bench's release -> streams"),
    "build omnimmi": ("data_builders.omnimmi", "OmniMMI proactive alerting -> streams"),
    "build toy": ("data_builders.toy.build", "render toy videos with exact gold -> streams"),
    "build sft": ("data_builders.sft", "streams -> SFT samples"),
    "build rl": ("data_builders.rl", "streams -> RL decisions"),
    "predict": ("eval.predict", "watch streams frame by frame -> predictions"),
    "score": ("eval.score", "predictions -> scores by a benchmark's protocol"),
    "preflight": ("proact_train.preflight", "validate a recipe and forecast tokens and memory"),
}
_DESCRIPTION = (
    "Train and measure assistants that watch a first-person video and decide when to speak."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; a user's mistake is printed without a traceback (exit code 2)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command = next((" ".join(argv[:n]) for n in (2, 1) if " ".join(argv[:n]) in COMMANDS), None)
    if command is None:
        return _without_command(argv)
    module = importlib.import_module(COMMANDS[command][0])
    parser = argparse.ArgumentParser(
        prog=f"proact {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv[len(command.split()) :])
    try:
        module.run(args)
    except ProActError as error:
        print(f"proact {command}: {error}", file=sys.stderr)
        return EXIT_CODE_USER_ERROR
    except KeyboardInterrupt:
        print(f"proact {command}: interrupted", file=sys.stderr)
        return 130
    return 0


def _without_command(argv: list[str]) -> int:
    """Prints the table of commands, or of those that begin as `argv` does."""
    words = [word for word in argv if not word.startswith("-")]
    group = f"{words[0]} " if words else ""
    shown = [name for name in COMMANDS if name.startswith(group)] if group else list(COMMANDS)
    wants_help = argv in ([], ["-h"], ["--help"]) or bool(group and len(words) == 1 and shown)
    if not wants_help:
        print(
            f"proact: found {' '.join(argv)!r}; expected one of: {', '.join(COMMANDS)}. "
            "See `proact --help`.",
            file=sys.stderr,
        )
        return EXIT_CODE_USER_ERROR
    lines = [f"  proact {name:<14} {COMMANDS[name][1]}" for name in shown]
    print("\n".join([_DESCRIPTION, "", *lines, "", "proact COMMAND --help explains one of them."]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
