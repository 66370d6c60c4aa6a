"""The file of a record: its tables, and connections to it that many threads and kernels share.

Every change is one statement of its own, so a process that is killed leaves it done or not begun, and no
interrupt leaves a lock behind. Write-ahead logging lets others read meanwhile; who wants to write waits.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from llama_magic.doors import option, verb
from llama_magic.errors import SourceError

T = TypeVar("T")
APPLICATION = 0x6C6C616D  # "llam", where SQLite's `file` signature stands
VERSION = 1
_PATIENCE_S = 20.0  # how long another kernel's writing is waited for
_GLANCE_S = 0.1  # one wait inside SQLite, which no interrupt ends

# The columns below `receipt` are read out of it when they are asked for; they take no room.
SCHEMA = (
    """CREATE TABLE answers (
        id INTEGER PRIMARY KEY,
        answer TEXT NOT NULL UNIQUE,
        request TEXT NOT NULL,
        label TEXT,
        time TEXT NOT NULL,
        tag TEXT,
        receipt TEXT NOT NULL CHECK (json_valid(receipt)),
        more TEXT NOT NULL CHECK (json_valid(more)),
        model TEXT AS (json_extract(receipt, '$.model')),
        mode TEXT AS (json_extract(receipt, '$.mode')),
        prompt TEXT AS (json_extract(receipt, '$.prompt')),
        text TEXT AS (json_extract(receipt, '$.text')),
        seed INTEGER AS (json_extract(receipt, '$.seed')),
        seeded INTEGER AS (json_extract(receipt, '$.seeded')),
        finish_reason TEXT AS (json_extract(receipt, '$.finish_reason')),
        prompt_tokens INTEGER AS (json_extract(receipt, '$.usage.prompt_tokens')),
        completion_tokens INTEGER AS (json_extract(receipt, '$.usage.completion_tokens')),
        total_s REAL AS (json_extract(more, '$.timings.total_s')),
        tokens_per_second REAL AS (json_extract(more, '$.timings.tokens_per_second'))
    )""",
    "CREATE INDEX answers_request ON answers (request)",
    "CREATE INDEX answers_label ON answers (label) WHERE label IS NOT NULL",
    # What a replay needs where the model is not at hand.
    """CREATE TABLE models (
        id TEXT PRIMARY KEY,
        vocabulary TEXT NOT NULL,
        facts TEXT NOT NULL CHECK (json_valid(facts))
    )""",
    "CREATE TABLE vocabularies (id TEXT PRIMARY KEY, facts TEXT NOT NULL CHECK (json_valid(facts)))",
    """CREATE TABLE texts (
        vocabulary TEXT, text TEXT, tokens TEXT NOT NULL, PRIMARY KEY (vocabulary, text)
    ) WITHOUT ROWID""",
    """CREATE TABLE pieces (
        vocabulary TEXT, token INTEGER, piece BLOB NOT NULL, written TEXT, PRIMARY KEY (vocabulary, token)
    ) WITHOUT ROWID""",
)


class Database:
    """Connections to one file, each used by one thread at a time. Finalizers may use it: it takes no lock."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._file = _lasting(path)
        self._idle: deque[tuple[int, sqlite3.Connection]] = deque()
        self._closed = False
        self._opened: tuple[int, int] | None = None  # which file it is, once it is known
        if not create and not os.path.isfile(path):  # of a name too long `Path.is_file` raises
            raise SourceError(
                f"There is no record at {path}.",
                remedy=f"{verb('record', 'PATH')} begins one, and so does {option('record')} of a map; "
                "check the path.",
            )
        with self._named():
            self._patiently(self._prepare)
        self._opened = _which(self._file)

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self._said(
            lambda said: self._do(lambda connection: connection.execute(sql, said).fetchall()), values
        )

    def write(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Carry out one statement: all of it or nothing. Waits for another kernel that writes."""
        self._must_be_there()
        self._said(lambda said: self._do(lambda connection: connection.execute(sql, said).close()), values)

    def close(self) -> None:
        """Close the connections that nobody uses; the last one to a file puts its log into the file."""
        self._closed = True
        while self._idle:
            owner, connection = self._idle.popleft()
            if owner == os.getpid():
                connection.close()

    def _said(self, do: Callable[[Sequence[Any]], T], values: Sequence[Any]) -> T:
        """Do it with these values; of texts that UTF-8 cannot hold (a lone surrogate) with their escapes."""
        try:
            return do(values)
        except UnicodeEncodeError:
            return do([_escaped(value) if isinstance(value, str) else value for value in values])

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def once() -> T:
            with self._connection() as connection:
                return work(connection)

        with self._named():
            return self._patiently(once)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do it, again and again while another kernel has the file locked."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if (
                    _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                    or time.monotonic() > until
                ):
                    raise

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if self._closed:
            connection.close()
        else:
            self._idle.append((os.getpid(), connection))

    def _take(self) -> sqlite3.Connection:
        while True:
            try:
                owner, connection = self._idle.popleft()
            except IndexError:
                return self._connect()
            if owner == os.getpid():  # a forked child must not touch its parent's connections
                return connection

    def _must_be_there(self) -> None:
        """Raise where the file was removed or replaced: what is written into it then ends with us."""
        if self._opened is not None and _which(self._file) != self._opened:
            raise SourceError(
                f"The record {self.path} was removed, or another file stands in its place.",
                remedy='What it held is here as long as this kernel lives: .export("x.jsonl") of the record '
                f"writes it down. {verb('record', str(self.path))} begins it anew.",
            )

    def _connect(self) -> sqlite3.Connection:
        self._must_be_there()
        file = self._file
        # In this order: another may make the file between the two questions.
        free = os.access(file.parent, os.W_OK) and (not file.exists() or os.access(file, os.W_OK))
        connection = sqlite3.connect(
            f"{file.as_uri()}?{'mode=rwc' if free else 'mode=ro&immutable=1'}",
            uri=True,
            timeout=_GLANCE_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.text_factory = _text
        connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the system may cost the last rows
        return connection

    def _prepare(self) -> None:
        """Make the tables of a new file; refuse one that is not ours."""
        with self._connection() as connection:
            connection.execute("BEGIN")  # as of one moment: another may be making the tables
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
            ((mark,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            connection.execute("COMMIT")
            if mark == APPLICATION and version > VERSION:
                raise SourceError(
                    f"The record {self.path} has version {version}; this llama_magic knows {VERSION}.",
                    remedy="Update llama_magic, or choose another file.",
                )
            if mark == APPLICATION:
                return
            if tables or mark:
                raise SourceError(
                    f"{self.path} is a database of another program.", remedy="Choose another file."
                )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            ((mark,),) = connection.execute("PRAGMA application_id")
            if mark != APPLICATION:  # no other kernel was quicker
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:  # of SQLite's own words, which name what it found
            raise SourceError(f"The record {self.path} is damaged: names in it are no text.") from None
        except sqlite3.Error as error:
            if _code(error) == sqlite3.SQLITE_NOTADB:
                raise SourceError(
                    f"{self.path} is no record: {error}.",
                    remedy=f"Give a file of {verb('record')} or of a map; JSON lines are for "
                    f"{verb('verify')}.",
                ) from None
            if _code(error) == sqlite3.SQLITE_CORRUPT:
                raise SourceError(
                    f"The record {self.path} is damaged: {error}.",
                    remedy="Take a copy of it, if there is one, or choose another file.",
                ) from None
            raise SourceError(
                f"The record {self.path} cannot be used: {error}.",
                remedy="Choose a file in a folder that exists, can be written to, and has room.",
            ) from None


def _which(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _escaped(text: str) -> str:
    """Return a text as UTF-8 can hold it: lone surrogates as Python writes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _lasting(path: Path) -> Path:
    """Return the path that stands for the same file wherever the process goes from here."""
    try:
        return path.absolute()
    except FileNotFoundError:
        raise SourceError(
            f"The record {path} cannot be used: the folder that this process works in is gone.",
            remedy="Give a path from the root on, or go to a folder that exists (%cd).",
        ) from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # of JSON's own escapes for half a character SQLite makes no UTF-8


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
