"""What a row of the table of verbs, modes and options says; the table itself is `_options`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option. `kind` names its reader in `_readers.READERS`; `value` is what a flag means.

    `completes` names what Tab offers for its value, in `_complete.OFFERS`; `choices` need no name.
    """

    flags: tuple[str, ...]
    kind: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    repeat: bool = False
    value: object = True
    dest: str = ""
    completes: str = ""

    @property
    def key(self) -> str:
        """Return the keyword of the Python API that this option sets."""
        return self.dest or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        return self.kind != "flag"

    @property
    def usage(self) -> str:
        """Return the option as it stands in a table: `-n, --max-tokens N`."""
        value = self.metavar or ("|".join(self.choices) if self.choices else "VALUE")
        return ", ".join(self.flags) + (f" {value}" if self.takes_value else "")


@dataclass(frozen=True)
class Action:
    """A word that a verb knows: `%llama kv save PATH`, and what it does.

    `wants` names the words behind it, those that may be left out in brackets; `completes` what Tab offers
    for each of them.
    """

    name: str
    help: str
    wants: tuple[str, ...] = ()
    completes: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        return " ".join((self.name, *self.wants))


@dataclass(frozen=True)
class Verb:
    """A line magic verb: this row, and its function in `_verbs`.

    `text`: what follows the options is one text. `completes` names what Tab offers for each free word (the
    last name goes for all that follow), in `_complete.OFFERS`; "actions" offers those of the verb, and
    then what the action says.
    """

    name: str
    arguments: str
    help: str
    gives: str
    options: tuple[Option, ...] = ()
    text: bool = False
    actions: tuple[Action, ...] = ()
    least: int = 0
    most: int = 0
    completes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mode:
    """A cell magic mode and the options that mean something in it.

    `arguments` are the words behind its name, `least` to `most` of them; `completes` is what Tab offers
    for them.
    """

    name: str
    body: str
    result: str
    options: tuple[Option, ...]
    arguments: str = ""
    least: int = 0
    most: int = 0
    completes: str = ""

    @property
    def usage(self) -> str:
        return f"{self.name} {self.arguments}".rstrip()
