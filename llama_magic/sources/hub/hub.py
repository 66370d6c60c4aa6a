"""Models on the Hugging Face Hub, through huggingface-hub: its API, cache, token and offline switch.

Only the bytes of a file go our own way: huggingface-hub 2.4 neither goes on after a break
nor checks a digest nor stops at a full disk. They are put where its cache expects them
(`blobs/<etag>`), complete and verified; the rest of the cache is left to the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from llama_magic.errors import SourceError
from llama_magic.sources.disk.cache import hub_cache
from llama_magic.sources.disk.lock import only_one
from llama_magic.sources.disk.shards import shard_names
from llama_magic.sources.disk.verify import digest_of, remember, verify_once
from llama_magic.sources.faults import MissingError
from llama_magic.sources.http import transfer as _transfer
from llama_magic.sources.http.client import CONNECT_TIMEOUT_S, UnreachableError
from llama_magic.sources.http.job import Download
from llama_magic.sources.http.meter import TransferMeter
from llama_magic.sources.hub.asking import Asked, refusal, retried
from llama_magic.sources.hub.quants import choose
from llama_magic.sources.notation import check_repo_file, hub_endpoint
from llama_magic.sources.redaction import redact
from llama_magic.sources.types import Fits, ParsedSource
from llama_magic.words.names import nearest
from llama_magic.words.progress import ProgressCallback

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")
T = TypeVar("T")


@dataclass(frozen=True)
class HubFile:
    """One file of a repository at one commit, as its server describes it."""

    name: str
    size: int | None
    sha256: str | None
    etag: str
    commit: str


class Hub:
    """One repository, as this user sees it now. Endpoint, token and cache are read on construction."""

    def __init__(self, parsed: ParsedSource, revision: str | None) -> None:
        from huggingface_hub import HfApi, constants, get_token

        assert parsed.repo is not None
        self.repo, self.parsed = parsed.repo, parsed
        self.revision = revision or parsed.revision or constants.DEFAULT_REVISION
        self.endpoint = hub_endpoint()
        self.notes: list[str] = []
        self.commit: str | None = None  # of the file list, once it was asked for
        self._token = get_token() or None
        self._rejected = False
        self._api = HfApi(endpoint=self.endpoint)
        # The library reads its switch once, at import; the caller has looked at the environment of now.
        constants.HF_HUB_OFFLINE = False

    def __repr__(self) -> str:
        return f"Hub({self.repo!r}, revision={self.revision!r})"

    def headers(self) -> dict[str, str]:
        """Return the authorization header for this hub, empty without a token that is accepted."""
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def url_of(self, name: str, revision: str) -> str:
        """Return the address of a file."""
        from huggingface_hub import hf_hub_url

        return str(hf_hub_url(self.repo, name, revision=revision, endpoint=self.endpoint))

    def at_commit(self, file: HubFile, use: Callable[[str], T]) -> T:
        """Call `use` with a file's address at its commit, which cannot change under a long transfer.

        Some mirrors know branches alone: there the branch has to do, and the digest tells.
        """
        try:
            return use(self.url_of(file.name, file.commit))
        except MissingError:
            return use(self.url_of(file.name, self.revision))

    def plan(self, fits: Fits | None = None) -> list[HubFile]:
        """Return the files of the model meant: all shards, in order. Nothing large is fetched.

        Raises `SourceError` by what the hub says, `UnreachableError` where it cannot be asked.
        """
        listed: dict[str, Any] = {}
        if self.parsed.file is None:
            listed = self._listing()
            names = choose(self.repo, self._sizes(listed), self.parsed.quant, fits)
        else:
            names = shard_names(self.parsed.file)
        files = [self._describe(name) for name in names]
        return [file if file.sha256 is not None else self._with_digest(file, listed) for file in files]

    def _with_digest(self, file: HubFile, listed: dict[str, Any]) -> HubFile:
        """Return `file` with the digest of the repository's list, where its ETag was none."""
        try:
            found = _lfs_sha256((listed or self._listing()).get(file.name))
        except SourceError:
            found = None  # a mirror without lists still serves files
        if found is None:
            self.notes.append(
                f"{self.endpoint} gives no SHA-256 of {file.name}: only its length was checked."
            )
        return replace(file, sha256=found)

    def _listing(self) -> dict[str, Any]:
        """Return the repository's files by name; one that leads outside the repository refuses them all."""
        info = self._ask(
            lambda token: self._api.model_info(
                self.repo, revision=self.revision, files_metadata=True, token=token, timeout=CONNECT_TIMEOUT_S
            )
        )
        self.commit = info.sha
        return {check_repo_file(str(file.rfilename)): file for file in info.siblings or ()}

    def sizes(self) -> dict[str, int | None]:
        """Return the repository's files with their sizes in bytes, None where its server does not say."""
        return self._sizes(self._listing())

    def _sizes(self, listed: dict[str, Any]) -> dict[str, int | None]:
        sizes: dict[str, int | None] = {}
        for name, file in listed.items():
            size = file.size or getattr(file.lfs, "size", None)
            if not size and name.lower().endswith(".gguf"):
                size = self._describe(name).size
            sizes[name] = size
        return sizes

    def _describe(self, name: str) -> HubFile:
        from huggingface_hub import get_hf_file_metadata

        url = self.url_of(name, self.revision)
        found = self._ask(
            lambda token: get_hf_file_metadata(
                url, token=token, timeout=CONNECT_TIMEOUT_S, endpoint=self.endpoint
            ),
            name,
        )
        etag, commit = str(found.etag or ""), str(found.commit_hash or "")
        if not _PLAIN_NAME.fullmatch(etag) or not _PLAIN_NAME.fullmatch(commit):
            raise SourceError(
                f"{self.endpoint} describes {name} in a way that no hub does (ETag {redact(etag)!r}, "
                f"commit {redact(commit)!r}).",
                remedy="Check HF_ENDPOINT, and that no proxy or firewall answers in the hub's place.",
            )
        # A size of 0 is what some mirrors report for every file: it says nothing.
        return HubFile(name, found.size or None, etag if _SHA256.fullmatch(etag) else None, etag, commit)

    def _ask(self, call: Callable[[str | bool], T], name: str | None = None) -> T:
        """Ask the hub; where it turns the token down, ask again without it and say so."""
        from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

        try:
            return retried(call, self._token or False, self.endpoint, self.repo)
        except HfHubHTTPError as err:
            refused = err
        hidden = isinstance(refused, RepositoryNotFoundError)
        if self._token and (hidden or refused.response.status_code in (401, 403)):
            try:
                answer = retried(call, False, self.endpoint, self.repo)
            except HfHubHTTPError as err:
                self._rejected = refused.response.status_code == 401
                raise self._named(err if self._rejected else refused, name) from None
            self._token = None
            self.notes.append(
                "Your token was rejected (expired or revoked?); the file is public and came without."
            )
            return answer
        raise self._named(refused, name) from None

    def _named(self, err: Any, name: str | None) -> SourceError:
        from huggingface_hub.errors import EntryNotFoundError

        if isinstance(err, EntryNotFoundError):
            return self._no_file(name)
        asked = Asked(self.endpoint, self.repo, self.revision, bool(self._token), self._rejected)
        return refusal(err, asked)

    def _no_file(self, name: str | None) -> SourceError:
        try:
            models = [other for other in self._listing() if other.lower().endswith(".gguf")]
        except (SourceError, UnreachableError):
            models = []  # the listing is only there to help; what is wrong is known without it
        near = nearest(name or "", models, n=3, cutoff=0.3) or models[:5]
        remedy = f"It has {', '.join(near)}." if near else f"See its files at {self.endpoint}/{self.repo}."
        return SourceError(f"{self.repo} has no file {name} at revision {self.revision}.", remedy=remedy)

    def fetch(
        self, file: HubFile, label: str, meter: TransferMeter, progress: ProgressCallback | None
    ) -> Path:
        """Return the path of a file in huggingface-hub's cache, fetched and verified where needed."""
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.file_download import repo_folder_name

        folder = hub_cache() / repo_folder_name(repo_id=self.repo, repo_type="model") / "blobs"
        job = Download(
            self.url_of(file.name, file.commit),
            folder / file.etag,
            label,
            self.headers(),
            size=file.size,
            sha256=file.sha256,
        )
        by_http = file.size is None or file.size <= constants.MAX_HTTP_DOWNLOAD_SIZE  # beyond: only Xet
        if by_http and not self._blob_is_good(job, progress):
            self._fetch_blob(file, job, meter)
        path = Path(
            self._ask(
                lambda token: hf_hub_download(
                    self.repo,
                    file.name,
                    revision=self.revision,
                    cache_dir=hub_cache(),
                    endpoint=self.endpoint,
                    token=token,
                ),
                file.name,
            )
        )
        if file.sha256 is not None:
            verify_once(path, file.sha256, progress)
        return path

    def _blob_is_good(self, job: Download, progress: ProgressCallback | None) -> bool:
        if not job.target.exists():
            return False
        right_size = job.size is None or job.target.stat().st_size == job.size
        if right_size and (job.sha256 is None or digest_of(job.target, job.sha256, progress) == job.sha256):
            return True
        self.notes.append(f"The cached copy of {job.label} was damaged; it was fetched again.")
        job.target.unlink(missing_ok=True)
        return False

    def _fetch_blob(self, file: HubFile, job: Download, meter: TransferMeter) -> None:
        locks = hub_cache() / ".locks" / job.target.parent.parent.name
        with only_one(locks / f"{job.target.name}.lock", job.sign_of_life, job.target.exists):
            if not job.target.exists():
                fetched = self.at_commit(file, lambda url: _transfer.fetch(replace(job, url=url), meter))
                remember(job.target, fetched.sha256)


def _lfs_sha256(listed: Any) -> str | None:
    found = getattr(getattr(listed, "lfs", None), "sha256", None)
    return found.lower() if isinstance(found, str) and _SHA256.fullmatch(found.lower()) else None
