"""One question to the hub: tried again where that helps, and its refusals in our words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from llama_magic.errors import SourceError
from llama_magic.sources.http import transfer as _transfer
from llama_magic.sources.http.client import TRANSIENT_STATUS, UnreachableError, httpx, redacted_logs
from llama_magic.sources.redaction import redact

API_TRIES = 3
T = TypeVar("T")


class Asked(NamedTuple):
    """Who was asked for what, and as whom: `token` was sent, `rejected` if it was turned down."""

    endpoint: str
    repo: str
    revision: str
    token: bool
    rejected: bool


def retried(call: Callable[[str | bool], T], token: str | bool, endpoint: str, repo: str) -> T:
    """Ask, and ask again where the hub is busy. Raises the hub's own error for a refusal."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    for attempt in range(1, API_TRIES + 1):
        try:
            with redacted_logs():
                return call(token)
        except HfHubHTTPError as err:
            status = err.response.status_code
            if status not in TRANSIENT_STATUS:
                raise
            broken = UnreachableError(f"{endpoint} answered {status}")
        except HFValidationError as err:
            raise SourceError(
                f"{repo!r} is not a repository's name: {redact(str(err))}",
                remedy="Write owner/repo.",
            ) from None
        except (httpx.TooManyRedirects, httpx.UnsupportedProtocol, httpx.InvalidURL) as err:
            raise SourceError(
                f"{endpoint} redirects to where nothing is fetched from: {redact(str(err))}",
                remedy="Check HF_ENDPOINT.",
            ) from None
        except OfflineModeIsEnabled:
            raise UnreachableError("huggingface-hub is in offline mode") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as err:
            raise UnreachableError(f"{endpoint} cannot be reached ({err})", fresh=True) from None
        except (httpx.HTTPError, ValueError, OSError) as err:
            broken = UnreachableError(f"{endpoint} gave no usable answer ({type(err).__name__}: {err})")
        if attempt < API_TRIES:
            time.sleep(_transfer.BACKOFF_S * 2 ** (attempt - 1))
    raise broken


def refusal(err: Any, asked: Asked) -> SourceError:
    """Return our error for the hub's; a file that is not there is the caller's to explain."""
    from huggingface_hub import errors

    page = f"{asked.endpoint}/{asked.repo}"
    token = (
        "your token was rejected (expired or revoked?)"
        if asked.rejected
        else "your token gives no access"
        if asked.token
        else "you are not logged in"
    )
    login = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(err, errors.GatedRepoError):
        return SourceError(
            f"{asked.repo} is gated: its owner grants access to those who ask, and {token}.",
            remedy=f"Ask for access at {page}, then {login}.",
        )
    if isinstance(err, errors.DisabledRepoError):
        return SourceError(f"{asked.repo} has been disabled by the hub.", remedy="Choose another one.")
    if isinstance(err, errors.RevisionNotFoundError):
        return SourceError(
            f"{asked.repo} has no revision {asked.revision!r}.",
            remedy=f"See its branches and tags at {page}.",
        )
    if isinstance(err, errors.RepositoryNotFoundError) or err.response.status_code in (401, 404):
        return SourceError(
            f"{asked.repo} is not on {asked.endpoint}, or it is private; {token}.",
            remedy=f"Check owner and name (a local file needs its path); for a private one {login}.",
        )
    return SourceError(
        f"{asked.endpoint} refused {asked.repo}: status {err.response.status_code}; {token}.",
        remedy=f"Look at {page} in a browser.",
    )
