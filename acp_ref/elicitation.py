"""Elicitation: questions of the agent to the user, by a form or by a page to open.

https://agentclientprotocol.com/protocol/elicitation

Forms are made and checked in :mod:`acp_ref.elicitation_forms`. Here are the two sides of a question, and URL mode.

Theory of operation. What happens on a page goes through neither ACP nor the client. To accept a URL elicitation is to
agree to open the page, no more (ELIC-18); that it is done there the agent may tell later, by ``elicitation/complete``
with the question's id. So each side of a connection keeps an :class:`OpenElicitations`, never looked up by session
alone (ELIC-10). An id is open from the question until it is refused or complete, and the notification may even overtake
the answer.

What only the application can see to: show who asks and why (ELIC-01, ELIC-04), let answers be changed before they are
sent (ELIC-02), show the whole URL (ELIC-35) and open it in the user's own browser (ELIC-36), make no link of any other
text (ELIC-38); and on the agent's side, send nothing back that was won on the page (ELIC-19) and make sure that the
same user was there (ELIC-39). Nothing here ever touches a URL (ELIC-34).
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias, final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import attrs
import trio

from acp_ref.elicitation_forms import looks_secret, validate_content
from acp_ref.errors import LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.reports import Report, ReportKind, log_report
from acp_ref.schema import (
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationResponse,
    ElicitationAccept,
    ElicitationCancel,
    ElicitationContentValue,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationId,
    ElicitationSchema,
    ElicitationUrlRequest,
)

__all__ = [
    "AskForm",
    "AskUrl",
    "ElicitationAnswer",
    "OpenElicitations",
    "UrlFacts",
    "accepted_content",
    "answer_elicitation",
    "check_url",
    "consented",
    "inspect_url",
]

METHOD: Final = "elicitation/create"

# ----------------------------------------------------------------------------------------------------------------- URLs


@attrs.frozen(kw_only=True)
class UrlFacts:
    """What a user should know about a URL before they agree to open it (ELIC-03, ELIC-37)."""

    url: str
    """All of it."""
    scheme: str
    """What it is opened with, in lower case."""
    host: str
    """Where it leads, as it is looked up: in lower case, and in Punycode where it is not ASCII."""
    unicode_host: str
    """The same as people write it. Never show it alone: letters of two alphabets may look alike."""
    port: int | None
    """The port, when one is given."""
    has_userinfo: bool
    """Whether something stands before the host, as in ``https://bank.example@evil.example``."""
    warnings: tuple[str, ...]
    """What is odd about it, for people to read."""

    @property
    def is_https(self) -> bool:
        """Whether the connection is encrypted and the host proven."""
        return self.scheme == "https"

    @property
    def is_punycode(self) -> bool:
        """Whether the host has letters that are not ASCII."""
        return self.host != self.unicode_host or "xn--" in self.host


def inspect_url(url: str) -> UrlFacts:
    """Look at ``url``, and at nothing else.

    Raises:
      ValueError: it names no host, or none that is the same to every program: with spaces, control or invisible
        characters, backslashes or escapes in it. Such a URL cannot be shown for what it is, so it must not be opened.
    """
    if not all(character.isprintable() and character not in " \\" for character in url):
        raise ValueError("it has characters that a URL cannot have, or that cannot be seen")
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname:
        raise ValueError("it names no host")
    host, unicode_host = _hosts(parts.hostname)
    has_userinfo = "@" in parts.netloc
    return UrlFacts(
        url=url,
        scheme=parts.scheme,
        host=host,
        unicode_host=unicode_host,
        port=parts.port,
        has_userinfo=has_userinfo,
        warnings=tuple(_oddities(parts, host, unicode_host)),
    )


def _hosts(name: str) -> tuple[str, str]:
    """The host as it is looked up, and as people write it."""
    if ":" in name:  # IPv6
        address = str(ipaddress.IPv6Address(name))
        return address, address
    if re.search("[\u00df\u03c2]", name):
        raise ValueError(f"the host {name!r} leads to different places in different programs")
    host = name if name.isascii() else name.encode("idna").decode()
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", host):
        raise ValueError(f"{name!r} is no name of a host")
    try:
        return host, host.encode().decode("idna")
    except UnicodeError:  # of a newer standard than Python knows
        return host, host


def _oddities(parts: SplitResult, host: str, unicode_host: str) -> Iterator[str]:
    is_address = ":" in host or re.search(r"(^|\.)([0-9]+|0x[0-9a-f]*)\.?$", host) is not None
    if parts.scheme == "http" and not _is_loopback(host):
        yield "the connection is not encrypted"  # ELIC-32
    elif parts.scheme not in {"http", "https"}:
        yield f"it is opened by whatever handles {parts.scheme!r} here, which may be no browser"
    if "@" in parts.netloc:
        yield f"what stands before the @ is not the host, which is {host}"
    if host != unicode_host or "xn--" in host:
        yield f"the host {host} is written {unicode_host!r}, whose letters may look like others"  # ELIC-37
    if is_address and not _is_loopback(host):
        yield "the host is an address and has no name"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def check_url(url: str) -> list[str]:
    """Whether an agent may send ``url``, and what it should think about: each a warning, for its developer to read.

    Raises:
      LocalProtocolError: no client could show its host, or it has a user name or password in it (ELIC-31).
    """
    try:
        facts = inspect_url(url)
    except ValueError as exc:
        raise LocalProtocolError(f"the URL cannot be sent: {exc}") from None
    if facts.has_userinfo:
        raise LocalProtocolError("the URL has credentials in it")
    warnings = [*facts.warnings]
    parts = urlsplit(url)
    for name, _ in parse_qsl(parts.query, keep_blank_values=True) + parse_qsl(parts.fragment, keep_blank_values=True):
        if looks_secret(name):
            warnings.append(f"the parameter {name!r} may grant access to whoever sees the URL")  # ELIC-31
    return warnings


# ---------------------------------------------------------------------------------------------------------- bookkeeping


@attrs.define(eq=False)
class _Open:
    is_complete: bool = False
    settled: trio.Event = attrs.field(factory=trio.Event)


@final
class OpenElicitations:
    """The open URL elicitations of one connection, on either side. Iterate over it for their ids, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[ElicitationId, _Open] = {}

    def __contains__(self, elicitation_id: object) -> bool:
        return elicitation_id in self._open

    def __iter__(self) -> Iterator[ElicitationId]:
        return iter([*self._open])

    def __len__(self) -> int:
        return len(self._open)

    def issue(self) -> ElicitationId:
        """A new id, for an agent to ask with; it is open from now on (ELIC-25)."""
        elicitation_id = ElicitationId("elicit_" + secrets.token_hex(16))
        self.open(elicitation_id)
        return elicitation_id

    def open(self, elicitation_id: ElicitationId) -> None:
        """A question with this id was asked.

        Raises:
          ValueError: another one with the same id is open (ELIC-25).
        """
        if elicitation_id in self._open:
            raise ValueError(f"an elicitation {elicitation_id!r} is open already")
        self._open[elicitation_id] = _Open()

    def drop(self, elicitation_id: ElicitationId) -> None:
        """The question was not accepted: nothing will complete it. Harmless when it is not open."""
        self._settle(elicitation_id, is_complete=False)

    def complete(self, elicitation_id: ElicitationId) -> bool:
        """What was to be done on the page is done. False when no such question is open: ignore it (ELIC-29)."""
        return self._settle(elicitation_id, is_complete=True)

    def completion(self, elicitation_id: ElicitationId) -> CompleteElicitationNotification:
        """:meth:`complete` it, and the notification that an agent sends of it, once (ELIC-27, ELIC-28).

        Raises:
          LocalProtocolError: no such question of this connection is open.
        """
        if not self.complete(elicitation_id):
            raise LocalProtocolError(f"no elicitation {elicitation_id!r} is open on this connection")
        return CompleteElicitationNotification(elicitation_id=elicitation_id)

    async def wait_completed(self, elicitation_id: ElicitationId) -> bool:
        """Wait until the page is done with; False when it is not open, was not accepted, or the connection is over.

        An agent need not tell, so this may never return: bound it.
        """
        entry = self._open.get(elicitation_id)
        if entry is None:
            await trio.lowlevel.checkpoint()
            return False
        await entry.settled.wait()
        return entry.is_complete

    def close(self) -> None:
        """The connection is over: drop all."""
        for elicitation_id in self:
            self.drop(elicitation_id)

    def _settle(self, elicitation_id: ElicitationId, *, is_complete: bool) -> bool:
        entry = self._open.pop(elicitation_id, None)
        if entry is None:
            return False
        entry.is_complete = is_complete
        entry.settled.set()
        return True


# ---------------------------------------------------------------------------------------------------- the client's side

ElicitationAnswer: TypeAlias = ElicitationAccept | ElicitationDecline | ElicitationCancel
"""What the user did: agreed, said no, or put the question aside (ELIC-20)."""

AskForm: TypeAlias = Callable[[ElicitationFormRequest], Awaitable[ElicitationAnswer]]
"""Show the form, with its ``defaults`` filled in, and return the answer with the content (ELIC-02, ELIC-14). A field of
the class ``Unknown`` is never shown as one that is known (ELIC-41)."""

AskUrl: TypeAlias = Callable[[ElicitationUrlRequest, UrlFacts], Awaitable[ElicitationAnswer]]
"""Show the URL, its host and the warnings, and open it if the user agrees (ELIC-03); that is all it says (ELIC-18)."""


async def answer_elicitation(
    request: CreateElicitationRequest,
    form: AskForm | None,
    url: AskUrl | None,
    open_elicitations: OpenElicitations,
    on_report: Callable[[Report], None] = log_report,
) -> ElicitationAnswer:
    """The answer to ``request``: what ``form`` or ``url`` returns, checked. None of them means a mode not announced.

    An accepted URL elicitation stays in ``open_elicitations`` until it is complete; any other leaves it.

    Raises:
      RequestError: -32602 when the mode is unknown or was not announced (ELIC-30, ELIC-40), the URL cannot be shown for
        what it is, or its id is in use (ELIC-25); -32603 when ``form`` returned content that does not fit its form,
        which goes to ``on_report`` (ELIC-12).
      whatever ``form`` or ``url`` raises.
    """
    match request:
        case ElicitationFormRequest() if form is not None:
            return _checked(request.requested_schema, await form(request), on_report)
        case ElicitationUrlRequest() if url is not None:
            return await _ask_url(request, url, open_elicitations)
        case ElicitationFormRequest():
            mode: object = "form"
        case ElicitationUrlRequest():
            mode = "url"
        case _:
            mode = request.raw.get("mode")
    raise RequestError.invalid_params(f"$.mode: {mode!r} was not announced")


def _checked(
    schema: ElicitationSchema, answer: ElicitationAnswer, on_report: Callable[[Report], None]
) -> ElicitationAnswer:
    if isinstance(answer, ElicitationAccept):
        errors = validate_content(schema, answer.content or {})
        if errors:  # ELIC-22
            reason = f"the accepted form does not fit its schema: {'; '.join(errors)}"
            on_report(Report(kind=ReportKind.HANDLER_FAILED, method=METHOD, reason=reason))
            raise RequestError.internal_error()
    return answer


async def _ask_url(
    request: ElicitationUrlRequest, ask: AskUrl, open_elicitations: OpenElicitations
) -> ElicitationAnswer:
    try:
        facts = inspect_url(request.url)
    except ValueError as exc:
        raise RequestError.invalid_params(f"$.url: {exc}") from None
    try:
        open_elicitations.open(request.elicitation_id)
    except ValueError as exc:
        raise RequestError.invalid_params(f"$.elicitationId: {exc}") from None
    accepted = False
    try:
        answer = await ask(request, facts)
        accepted = isinstance(answer, ElicitationAccept)
    finally:
        if not accepted:
            open_elicitations.drop(request.elicitation_id)
    return attrs.evolve(answer, content=None) if isinstance(answer, ElicitationAccept) else answer  # ELIC-22


# ----------------------------------------------------------------------------------------------------- the agent's side


def consented(response: CreateElicitationResponse) -> bool:
    """Whether the user agreed. A decline, a cancel and an action not known here are no consent (ELIC-23, ELIC-42)."""
    return isinstance(response, ElicitationAccept)


def accepted_content(
    schema: ElicitationSchema, response: CreateElicitationResponse
) -> dict[str, ElicitationContentValue] | None:
    """What the user filled in, checked again (ELIC-13); None when they did not accept (ELIC-23, ELIC-42).

    Raises:
      RemoteProtocolError: the client accepted with content that does not fit the form.
    """
    if not isinstance(response, ElicitationAccept):
        return None
    content = response.content or {}  # ELIC-21
    errors = validate_content(schema, content)
    if errors:
        raise RemoteProtocolError(f"the accepted form does not fit its schema: {'; '.join(errors)}")
    return content
