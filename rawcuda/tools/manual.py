"""The manual page, and completions for shells, from the parsers of the commands.

What it is   the command `manual`, with --completion for a shell. Both outputs have the options and the texts that
             --help shows, so a new command or option appears in them automatically.
What not     it installs nothing: it prints.
Source       man-pages(7) for the sections; the manuals of bash, zsh and fish for completions
Read next    commands/console.py
"""

from __future__ import annotations

import argparse

from .. import __version__
from .commands.command_table import COMMANDS, parser_of
from .commands.console import PACKAGE, PROGRAM, Parser, Refusal
from .terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main", "make_parser", "completion", "manual"]

SHELLS = ("bash", "zsh", "fish")
NAME = PACKAGE.rpartition(".")[2]


def make_parser() -> Parser:
    """Return the parser of the command `manual`."""
    parser = Parser(
        "manual",
        "Print the manual page, in the format of man, or the completion for a shell.",
        f"examples:\n  {PROGRAM} manual > {NAME}.1; man ./{NAME}.1\n"
        f'  eval "$({NAME} manual --completion bash)"\n'
        f"  {NAME} manual --completion fish > ~/.config/fish/completions/{NAME}.fish",
    )
    parser.add_argument("--completion", metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    return parser


def main(arguments: list[str]) -> int:
    """Print the page or a completion."""
    shell = make_parser().read(arguments).completion
    if shell not in (None, *SHELLS):
        raise Refusal(f"--completion {shell}: there are completions for {', '.join(SHELLS)}")
    say(manual() if shell is None else completion(shell), end="")
    return 0


def _options(name: str) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a command that its help shows."""
    for action in parser_of(name)._actions:
        if action.help != argparse.SUPPRESS:
            yield action


# -- completions


def completion(shell: str) -> str:
    """Return a script that completes commands, options, their choices, and files."""
    words = {name: [word for action in _options(name) for word in action.option_strings] for name in COMMANDS}
    if shell == "fish":
        lines = [f"complete -c {NAME} -n __fish_use_subcommand -f"]
        for name, text in COMMANDS.items():
            lines.append(f"complete -c {NAME} -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
            for action in _options(name):
                forms = "".join(
                    f" -l {word[2:]}" if word.startswith("--") else f" -s {word[1:]}" for word in action.option_strings
                )
                if forms:
                    more = ""
                    if action.choices:
                        more = f" -xa {_quoted(' '.join(map(str, action.choices)))}"
                    more = more or (" -r" if action.nargs != 0 else "")
                    text = _quoted(_help(action))
                    lines.append(f"complete -c {NAME} -n '__fish_seen_subcommand_from {name}'{forms}{more} -d {text}")
        return "\n".join(lines) + "\n"
    cases = "\n".join(f"    {name}) words={_quoted(' '.join(each))} ;;" for name, each in words.items())
    choices = "\n".join(
        f"    {name}:{word}) words={_quoted(' '.join(map(str, action.choices)))} ;;"
        for name in COMMANDS
        for action in _options(name)
        if action.choices
        for word in action.option_strings
    )
    head = ""
    if shell == "zsh":
        head = "autoload -U +X bashcompinit && bashcompinit\n"
    return f"""{head}_{NAME}() {{
  local words= word="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {_quoted(" ".join(COMMANDS))} -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}" in
{choices}
  esac
  if [ -z "$words" ]; then case "${{COMP_WORDS[1]}}" in
{cases}
  esac; case "$word" in -*) ;; *) words= ;; esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ -n "$words" ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _{NAME} {NAME}
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default))


# -- the manual page


def manual() -> str:
    """Return the manual page, in the language of roff."""
    lines = [
        f'.TH {NAME.upper()} 1 "" "{NAME} {__version__}" "User Commands"',
        ".SH NAME",
        f"{NAME} \\- the CUDA driver from plain Python",
        ".SH SYNOPSIS",
        f".B {NAME}",
        ".I COMMAND",
        "[OPTION]... [ARGUMENT]...",
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        parser = parser_of(name)
        lines += [f".SS {name}", *_roff(parser.description or "")]
        for action in _options(name):
            forms = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            value = ""
            if action.option_strings and action.metavar:
                value = f" {action.metavar}"
            lines += [".TP", f".B {_escaped(forms + value)}", *_roff(_help(action))]
        if parser.epilog:
            lines += [".PP", ".nf", *_roff(parser.epilog), ".fi"]
    lines += [
        ".SH EXIT STATUS",
        "0 for success, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C, 141 if the reader of the output",
        "closed the pipe.",
    ]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> list[str]:
    return [_escaped(line) for line in text.splitlines()]


def _escaped(text: str) -> str:
    """Return a line in which roff sees no commands."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    if text[:1] in (".", "'"):
        return "\\&" + text
    return text
