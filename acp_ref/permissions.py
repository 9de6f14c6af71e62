"""Requesting Permission: what may be asked, what an answer means, and what "always" remembers.

https://agentclientprotocol.com/protocol/tool-calls#requesting-permission

Everything here fails closed: whatever is not clearly a yes is a no. An outcome "selected" says nothing by itself; only
the kind of the option that was offered under that id does. And an answer that cannot be had, on either side, is a
refusal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs
import trio

from acp_ref.errors import ErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.reports import Report, ReportKind, log_report
from acp_ref.schema import (
    UNSET,
    CancelledPermissionOutcome,
    PermissionOption,
    PermissionOptionId,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    ToolCallId,
    ToolCallUpdate,
)

__all__ = [
    "AskPermission",
    "PermissionDecision",
    "RememberedPermissions",
    "answer_permission",
    "answer_with",
    "check_options",
    "decide",
    "default_options",
    "judge",
    "same_call",
    "select",
]

METHOD: Final = "session/request_permission"

ALLOW_ONCE: Final = PermissionOptionKind.ALLOW_ONCE
ALLOW_ALWAYS: Final = PermissionOptionKind.ALLOW_ALWAYS
REJECT_ONCE: Final = PermissionOptionKind.REJECT_ONCE
REJECT_ALWAYS: Final = PermissionOptionKind.REJECT_ALWAYS

ALLOWING: Final = (ALLOW_ONCE, ALLOW_ALWAYS)
"""The kinds that are a yes. No other value is, also none that a later version may add."""

# ----------------------------------------------------------------------------------------------------- the agent's side


@attrs.frozen(kw_only=True)
class PermissionDecision:
    """What came of a permission request. It is true exactly when the tool may run."""

    allowed: bool
    """Whether the user said yes."""
    option: PermissionOption | None = None
    """The option that was chosen, when it was one of those offered."""
    cancelled: bool = False
    """Whether there was no decision, because the turn or the request was cancelled."""
    reason: str = ""
    """Why the tool may not run, for people to read."""

    def __bool__(self) -> bool:
        return self.allowed


NAMES: Final[Mapping[PermissionOptionKind, str]] = {
    ALLOW_ONCE: "Allow once",
    ALLOW_ALWAYS: "Always allow",
    REJECT_ONCE: "Reject",
    REJECT_ALWAYS: "Always reject",
}


def default_options(*kinds: PermissionOptionKind) -> list[PermissionOption]:
    """An option for each of ``kinds``, its id the name of the kind; by default: once, always, or no."""
    return [
        PermissionOption(option_id=PermissionOptionId(kind.value), name=NAMES[kind], kind=kind)
        for kind in kinds or (ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE)
    ]


def check_options(options: Sequence[PermissionOption]) -> None:
    """Whether the options can be sent.

    Raises:
      LocalProtocolError: there is none (PERM-02), two have the same id (PERM-06), or one has a kind that the protocol
        does not list, which a strict client would answer with an error.
    """
    if not options:
        raise LocalProtocolError("a permission request needs an option to choose")
    repeated = _repeated(options)
    if repeated:
        raise LocalProtocolError(f"two options have the id {options[repeated[0]].option_id!r}")
    for option in options:
        if option.kind not in NAMES:
            raise LocalProtocolError(f"option {option.option_id!r} is of no known kind: {option.kind!r}")


def judge(options: Sequence[PermissionOption], outcome: object) -> PermissionDecision:
    """What ``outcome`` means for a request that offered ``options``.

    Allowed is what selects, by the id of exactly one of them (PERM-08), an option of an allowing kind. All else is not:
    an id that was not offered (D-40), an unknown kind or outcome.
    """
    if isinstance(outcome, CancelledPermissionOutcome):
        return PermissionDecision(allowed=False, cancelled=True, reason="the turn was cancelled")
    if not isinstance(outcome, SelectedPermissionOutcome):
        return PermissionDecision(allowed=False, reason="the outcome is of no known kind")
    chosen = [option for option in options if option.option_id == outcome.option_id]
    if len(chosen) != 1:
        return PermissionDecision(allowed=False, reason=f"no single option was offered as {outcome.option_id!r}")
    option = chosen[0]
    if option.kind in ALLOWING:
        return PermissionDecision(allowed=True, option=option)
    return PermissionDecision(allowed=False, option=option, reason=f"the user chose {option.name!r}")


async def decide(
    answer: Awaitable[RequestPermissionResponse],
    options: Sequence[PermissionOption],
    on_report: Callable[[Report], None] = log_report,
) -> PermissionDecision:
    """Wait for the ``answer`` to a request that offered ``options``, and judge it; an error is a no.

    An answer that makes no sense goes to ``on_report`` as well.

    Raises:
      trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
    """
    try:
        response = await answer
    except RequestError as exc:
        cancelled = exc.code == ErrorCode.REQUEST_CANCELLED
        return PermissionDecision(
            allowed=False, cancelled=cancelled, reason=f"the client answered with an error: {exc}"
        )
    except RemoteProtocolError as exc:
        return PermissionDecision(allowed=False, reason=f"the client's answer cannot be read: {exc}")
    decision = judge(options, response.outcome)
    if decision.option is None and not decision.cancelled:
        on_report(Report(kind=ReportKind.INVALID, method=METHOD, reason=f"taken as a no: {decision.reason}"))
    return decision


# ---------------------------------------------------------------------------------------------------- the client's side

AskPermission: TypeAlias = Callable[[RequestPermissionRequest], Awaitable[PermissionOption | None]]
"""Show the request and its options to the user and return the option they chose (PERM-07), None when they dismissed
it. It may as well decide by itself (PERM-04)."""

FALLBACKS: Final[Mapping[PermissionOptionKind, Sequence[PermissionOptionKind]]] = {
    ALLOW_ONCE: (ALLOW_ONCE, REJECT_ONCE, REJECT_ALWAYS),
    ALLOW_ALWAYS: (ALLOW_ALWAYS, ALLOW_ONCE, REJECT_ONCE, REJECT_ALWAYS),
    REJECT_ONCE: (REJECT_ONCE, REJECT_ALWAYS),
    REJECT_ALWAYS: (REJECT_ALWAYS, REJECT_ONCE),
}


def select(options: Sequence[PermissionOption], kind: PermissionOptionKind) -> PermissionOption | None:
    """The first option of ``kind``, or the nearest that allows no more: "always" becomes "once", and a yes that cannot
    be had becomes a no. None when there is none of those either; it is never just the first option."""
    for wanted in FALLBACKS[kind]:
        for option in options:
            if option.kind == wanted:
                return option
    return None


def answer_with(kind: PermissionOptionKind) -> AskPermission:
    """Answer every request by :func:`select` with ``kind``, without asking anybody (PERM-04)."""

    async def answer(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.lowlevel.checkpoint()
        return select(request.options, kind)

    return answer


def same_call(tool_call: ToolCallUpdate) -> str | None:
    """A key that two tool calls share when they show the same to the user, in all but their id and progress.

    None, which is never remembered, for a call that shows no more than a title, which may stand for anything, and for
    one that is nested too deeply to be compared.
    """
    if not tool_call.title or not (
        tool_call.content or tool_call.locations or tool_call.raw_input not in (UNSET, None, {}, [], "")
    ):
        return None
    shown = attrs.evolve(tool_call, tool_call_id=ToolCallId(""), status=None, raw_output=UNSET, meta=None)
    # Unlike ==, repr tells true from 1. An agent that reorders its keys is asked for again, which is the safe side.
    try:
        return hashlib.sha256(repr(shown).encode("utf-8", "surrogatepass")).hexdigest()
    except RecursionError:  # input that is nested as deeply as can be read
        return None


@final
class RememberedPermissions:
    """What the user answered with "always" in one session. The wire implies none of it: it is the client's own work
    (PERM-06).

    ``key`` says which tool calls are the same question. The default, :func:`same_call`, is narrow: the same command,
    the same change of the same file. A client that knows its agent may give a wider one.
    """

    def __init__(self, key: Callable[[ToolCallUpdate], str | None] = same_call) -> None:
        self._key = key
        self._answers: dict[str, PermissionOptionKind] = {}

    def remember(self, request: RequestPermissionRequest, option: PermissionOption) -> None:
        """Remember that ``option`` was chosen, if it is one for always."""
        if option.kind in (ALLOW_ALWAYS, REJECT_ALWAYS):
            key = self._key(request.tool_call)
            if key is not None:
                self._answers[key] = PermissionOptionKind(option.kind)

    def recall(self, request: RequestPermissionRequest) -> PermissionOption | None:
        """The option of ``request`` that the user would choose again; None when they must be asked.

        It is one for once where there is one, as the agent was told of the "always" already.
        """
        key = self._key(request.tool_call)
        answer = None if key is None else self._answers.get(key)
        if answer is None:
            return None
        once = ALLOW_ONCE if answer == ALLOW_ALWAYS else REJECT_ONCE
        for kind in (once, answer):
            for option in request.options:
                if option.kind == kind:
                    return option
        return None

    def forget(self) -> None:
        """Ask about everything again."""
        self._answers.clear()


async def answer_permission(
    request: RequestPermissionRequest,
    ask: AskPermission | None,
    remembered: RememberedPermissions | None = None,
    on_report: Callable[[Report], None] = log_report,
) -> RequestPermissionResponse:
    """The answer to ``request``: what was remembered, or else what ``ask`` returns.

    A dismissal, an option that was not offered, an error in ``ask`` (both reported), and an ``ask`` that is None are a
    rejection: the first rejecting option, or "cancelled" where there is none. Cancel the call when the turn is
    cancelled (PERM-05). The tool call of a request may be its id alone: complete it first by what is known of it.

    Raises:
      RequestError: -32602, two options have the same id (PERM-06); no choice of one could be understood.
    """
    repeated = _repeated(request.options)
    if repeated:
        raise RequestError.invalid_params(*(f"$.options[{index}].optionId: not unique" for index in repeated))
    if not request.options:
        await trio.lowlevel.checkpoint()
        return RequestPermissionResponse(outcome=CancelledPermissionOutcome())
    if remembered is not None:
        known = remembered.recall(request)
        if known is not None:
            await trio.lowlevel.checkpoint()
            return _selected(known)
    chosen = None if ask is None else await _ask(request, ask, on_report)
    if chosen is None:
        refusal = select(request.options, REJECT_ONCE)
        return (
            RequestPermissionResponse(outcome=CancelledPermissionOutcome()) if refusal is None else _selected(refusal)
        )
    if remembered is not None:
        remembered.remember(request, chosen)
    return _selected(chosen)


async def _ask(
    request: RequestPermissionRequest, ask: AskPermission, on_report: Callable[[Report], None]
) -> PermissionOption | None:
    try:
        chosen = await ask(request)
    except Exception as exc:
        reason = "the question to the user failed; the tool was rejected"
        on_report(Report(kind=ReportKind.HANDLER_FAILED, method=METHOD, reason=reason, error=exc))
        return None
    if chosen is not None and chosen not in request.options:
        reason = f"{chosen!r} was not offered; the tool was rejected"
        on_report(Report(kind=ReportKind.HANDLER_FAILED, method=METHOD, reason=reason))
        return None
    return chosen


def _selected(option: PermissionOption) -> RequestPermissionResponse:
    return RequestPermissionResponse(outcome=SelectedPermissionOutcome(option_id=option.option_id))


def _repeated(options: Sequence[PermissionOption]) -> list[int]:
    """The indices of the options whose id another one has, too."""
    uses = Counter(option.option_id for option in options)
    return [index for index, option in enumerate(options) if uses[option.option_id] > 1]
