"""Elicitation: forms that are checked twice, and pages that are opened with open eyes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_ref._pattern import Pattern
from acp_ref.elicitation import (
    ElicitationAnswer,
    OpenElicitations,
    UrlFacts,
    accepted_content,
    answer_elicitation,
    check_url,
    consented,
    inspect_url,
)
from acp_ref.elicitation_forms import check_form, choices, defaults, form, lint_form, looks_secret, validate_content
from acp_ref.errors import ErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    BooleanPropertySchema,
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationResponse,
    ElicitationAccept,
    ElicitationCancel,
    ElicitationContentValue,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationId,
    ElicitationPropertySchema,
    ElicitationSchema,
    ElicitationSessionScope,
    ElicitationUrlRequest,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    SessionId,
    StringFormat,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    Unknown,
)

SCOPE = ElicitationSessionScope(session_id=SessionId("s"))
COLOURS = [EnumOption(const="r", title="Red"), EnumOption(const="g", title="Green")]


def asking_form(schema: ElicitationSchema, message: str = "Please fill in") -> ElicitationFormRequest:
    return ElicitationFormRequest(message=message, scope=SCOPE, requested_schema=schema)


def asking_url(url: str = "https://example.com/login", elicitation_id: str = "e1") -> ElicitationUrlRequest:
    return ElicitationUrlRequest(
        message="Please log in", scope=SCOPE, elicitation_id=ElicitationId(elicitation_id), url=url
    )


def faults(field: ElicitationPropertySchema, value: object) -> list[str]:
    return validate_content(ElicitationSchema(properties={"x": field}), {"x": value})


# ------------------------------------------------------------------------------------------------- content of a form


@pytest.mark.spec("ELIC-12", "ELIC-13", "ELIC-22")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (StringPropertySchema(), ["", "text", "é" * 1000], [1, None, True, ["a"], {}]),
        (StringPropertySchema(min_length=2, max_length=3), ["ab", "😀😀😀"], ["a", "abcd", ""]),
        (StringPropertySchema(pattern="^[a-z]+(-[a-z]+)*$"), ["a-b", "abc"], ["A", "a-", "a-b\n"]),
        (StringPropertySchema(pattern="b"), ["abc"], ["ac"]),
        (StringPropertySchema(enum=["a", "b"]), ["a"], ["c", "", "A", 1]),
        (StringPropertySchema(one_of=COLOURS), ["r", "g"], ["Red", "b"]),
        (StringPropertySchema(format=StringFormat.EMAIL), ["a@b.example"], ["a", "@b", "a b@c", "a@b@c"]),
        (
            StringPropertySchema(format=StringFormat.URI),
            ["https://a.example/?q", "urn:x"],
            ["a.example", "https://a b"],
        ),
        (StringPropertySchema(format=StringFormat.DATE), ["2024-02-29"], ["2023-02-29", "20240229", "2024-W09-4"]),
        (
            StringPropertySchema(format=StringFormat.DATE_TIME),
            ["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.123456z", "2024-02-29T12:00:00+02:00", "2024-02-29T12:00"],
            ["2024-02-29", "2024-02-29T25:00:00Z", "12:00", "20240229T120000"],
        ),
        (NumberPropertySchema(), [1, 1.5, -2, 10**400], [True, "1", None, float("nan"), float("inf"), []]),
        (NumberPropertySchema(minimum=0, maximum=1.5), [0, 1.5, 1], [-0.1, 2, 10**400]),
        (IntegerPropertySchema(), [0, -5, 2**63 - 1], [True, False, 1.0, 1.5, "1", 2**63, None]),
        (IntegerPropertySchema(minimum=1, maximum=3), [1, 3], [0, 4]),
        (BooleanPropertySchema(), [True, False], [0, 1, "true", None]),
        (
            MultiSelectPropertySchema(items=StringMultiSelectItems(enum=["a", "b", "c"]), min_items=1, max_items=2),
            [["a"], ["a", "c"]],
            [[], ["a", "b", "c"], ["d"], [1], "a", None, {"a": 1}],
        ),
        (MultiSelectPropertySchema(items=TitledMultiSelectItems(any_of=COLOURS)), [[], ["r", "g"]], [["Red"]]),
        (MultiSelectPropertySchema(items=Unknown(raw={"type": "colour"})), [["anything"]], [[1], "a"]),
    ],
)
def test_a_value_fits_its_field_or_the_fault_names_it(
    field: ElicitationPropertySchema, good: Sequence[object], bad: Sequence[object]
) -> None:
    for value in good:
        assert faults(field, value) == [], value
    for value in bad:
        found = faults(field, value)
        assert found, value
        assert all(fault.startswith("$.content.x") for fault in found)


@pytest.mark.spec("ELIC-12", "ELIC-13")
def test_required_fields_must_be_there_and_others_must_not() -> None:
    schema = form({"name": StringPropertySchema(), "full name": StringPropertySchema()}, required=["name", "full name"])
    assert validate_content(schema, {"name": "a", "full name": "b"}) == []
    assert validate_content(schema, {"age": 3}) == [
        "$.content.name: required",
        "$.content['full name']: required",
        "$.content.age: the form has no such field",
    ]


def test_every_fault_is_told_with_its_path() -> None:
    schema = form(
        {
            "age": IntegerPropertySchema(minimum=18),
            "langs": MultiSelectPropertySchema(items=StringMultiSelectItems(enum=["c", "d"])),
        }
    )
    assert validate_content(schema, {"age": 3, "langs": ["c", "e", 1]}) == [
        "$.content.age: at least 18",
        "$.content.langs[1]: not one of the choices",
        "$.content.langs[2]: expected string",
    ]


@pytest.mark.spec("ELIC-41")
def test_a_field_of_an_unknown_type_is_kept_and_takes_any_value() -> None:
    field = Unknown(raw={"type": "_colour", "title": "Colour"})
    schema = ElicitationSchema(properties={"colour": field})
    assert schema.properties["colour"] is field
    assert choices(field) is None
    assert defaults(schema) == {}
    assert validate_content(schema, {"colour": "#fff"}) == []
    check_form(schema)


@pytest.mark.spec("ELIC-44")
def test_an_unknown_format_asks_for_nothing() -> None:
    assert faults(StringPropertySchema(format="postcode"), "any text") == []


@pytest.mark.spec("ELIC-14")
def test_defaults_are_filled_in_unless_their_own_field_refuses_them() -> None:
    schema = ElicitationSchema(
        properties={
            "name": StringPropertySchema(default="me"),
            "colour": StringPropertySchema(one_of=COLOURS, default="blue"),
            "count": IntegerPropertySchema(default=0),
            "agreed": BooleanPropertySchema(default=False),
            "langs": MultiSelectPropertySchema(items=StringMultiSelectItems(enum=["c", "d"]), default=["d"]),
            "ratio": NumberPropertySchema(),
        }
    )
    values = defaults(schema)
    assert values == {"name": "me", "count": 0, "agreed": False, "langs": ["d"]}
    assert validate_content(schema, values) == []
    langs = values["langs"]
    assert isinstance(langs, list)
    langs.append("c")
    assert defaults(schema)["langs"] == ["d"]


def test_choices_have_titles_also_where_there_are_only_values() -> None:
    assert choices(StringPropertySchema(one_of=COLOURS)) == COLOURS
    plain = MultiSelectPropertySchema(items=StringMultiSelectItems(enum=["a"]))
    assert choices(plain) == [EnumOption(const="a", title="a")]
    assert choices(StringPropertySchema()) is None
    assert choices(BooleanPropertySchema()) is None


values = st.one_of(
    st.text(max_size=5), st.integers(), st.floats(), st.booleans(), st.lists(st.text(max_size=2), max_size=3)
)


@pytest.mark.spec("ELIC-13")
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["s", "i", "n", "b", "m", "other"]), st.one_of(values, st.none()), max_size=6))
def test_any_content_is_judged_and_what_fits_has_the_types_of_its_fields(content: Mapping[str, object]) -> None:
    schema = form(
        {
            "s": StringPropertySchema(max_length=3),
            "i": IntegerPropertySchema(),
            "n": NumberPropertySchema(),
            "b": BooleanPropertySchema(),
            "m": MultiSelectPropertySchema(items=StringMultiSelectItems(enum=["", "a"])),
        }
    )
    if not validate_content(schema, content):
        types: dict[str, set[type[object]]] = {"s": {str}, "i": {int}, "n": {int, float}, "b": {bool}, "m": {list}}
        assert all(type(value) in types[name] for name, value in content.items())


# ------------------------------------------------------------------------------------------------------- making forms


@pytest.mark.spec("ELIC-11")
def test_a_form_is_made_of_flat_fields_in_their_order() -> None:
    schema = form(
        {"b": StringPropertySchema(), "a": BooleanPropertySchema()}, required=["a"], title="T", description="D"
    )
    assert [*schema.properties] == ["b", "a"]
    assert (schema.type, schema.title, schema.description, schema.required) == ("object", "T", "D", ["a"])
    assert form({}).required is None


@pytest.mark.spec("ELIC-11", "ELIC-44")
@pytest.mark.parametrize(
    ("field", "fault"),
    [
        (StringPropertySchema(min_length=3, max_length=2), "the least, 3, is more than the most, 2"),
        (NumberPropertySchema(minimum=0.5, maximum=0.1), "the least"),
        (StringPropertySchema(enum=[]), "there is nothing to choose"),
        (MultiSelectPropertySchema(items=TitledMultiSelectItems(any_of=[])), "there is nothing to choose"),
        (StringPropertySchema(pattern="(a"), r"pattern: missing \)"),
        (StringPropertySchema(pattern=r"(a)\1"), "pattern: .* is not supported"),
        (StringPropertySchema(enum=["a"], default="b"), "default: not one of the choices"),
        (IntegerPropertySchema(maximum=3, default=4), "default: at most 3"),
    ],
)
def test_a_form_that_cannot_be_filled_in_is_refused_before_it_is_sent(
    field: ElicitationPropertySchema, fault: str
) -> None:
    with pytest.raises(LocalProtocolError, match=rf"\$\.properties\.x: {fault}"):
        form({"x": field})
    with pytest.raises(LocalProtocolError, match="no field 'y'"):
        form({}, required=["y"])


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "API_KEY", "apiKey", "access-token", "Token", "otp", "One-time code", "cardNumber"],
)
def test_a_field_that_looks_like_a_secret_is_warned_about(name: str) -> None:
    assert looks_secret(name)
    assert any("URL mode" in warning for warning in lint_form(asking_form(form({name: StringPropertySchema()}))))
    titled = form({"x": StringPropertySchema(title=name)})
    assert any("$.properties.x" in warning for warning in lint_form(asking_form(titled)))


@pytest.mark.parametrize("name", ["name", "max_tokens", "compass", "pinned", "keyboard", "country code", "postcard"])
def test_an_ordinary_field_is_not_warned_about(name: str) -> None:
    assert lint_form(asking_form(form({name: StringPropertySchema()}))) == []


def test_a_choice_or_a_switch_holds_no_secret_but_a_password_format_does() -> None:
    switch = form({"use_password": BooleanPropertySchema(), "token": StringPropertySchema(enum=["word", "line"])})
    assert lint_form(asking_form(switch)) == []
    assert lint_form(asking_form(form({"x": StringPropertySchema(format="password")})))


def test_a_link_in_a_form_is_warned_about() -> None:
    assert any("link" in warning for warning in lint_form(asking_form(form({}), "see https://example.com")))
    described = form({"x": StringPropertySchema(description="from http://example.com")})
    assert any("link" in warning for warning in lint_form(asking_form(described)))


# ----------------------------------------------------------------------------------------------------------- patterns


@st.composite
def sources(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        one = ["a", "b", "-", ".", r"\d", r"\w", r"\S", "[ab]", "[^a]", "[a-c1]", r"[\w-]", r"[\w-.]", r"\.", r"[^\W_]"]
        return draw(st.sampled_from(one))
    part = sources(depth - 1)
    match draw(st.integers(0, 3)):
        case 0:
            return draw(part) + draw(part)
        case 1:
            return f"(?:{draw(part)}|{draw(part)}|{draw(part)})"
        case 2:
            return (
                f"({draw(part)}){draw(st.sampled_from(['*', '+', '?', '{2}', '{1,3}', '{0,2}', '{2,}', '+?', '{0}']))}"
            )
        case _:
            return draw(st.sampled_from(["^", "$", r"\b", r"\B"])) + draw(part)


@pytest.mark.spec("ELIC-44")
@settings(deadline=None, max_examples=300)
@given(sources(), st.text("ab1-_.\n", min_size=1, max_size=6))
def test_a_pattern_finds_what_python_finds(source: str, text: str) -> None:
    python = source.replace("$", r"\Z").replace(r"[\w-.]", r"[\w\-.]")
    expected = re.search(python, text, re.ASCII) is not None
    assert Pattern(source).found_in(text) == expected


@pytest.mark.spec("ELIC-44")
@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        ("^a$", "a\n", False),
        ("^$", "", True),
        (r"\B", "", True),
        (r"^\d+$", "१२", False),
        (r"^\u00e9\x41$", "éA", True),
        ("^(?<year>[0-9]{4})$", "2024", True),
        ("^[[&~|]$", "[", True),
        ("^a{,2}b{$", "a{,2}b{", True),
        (r"^[\b]$", "\b", True),
        ("^.{2}$", "😀a", True),
    ],
)
def test_a_pattern_is_read_as_in_json_schema(source: str, text: str, found: bool) -> None:
    assert Pattern(source).found_in(text) == found


@pytest.mark.spec("ELIC-44")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("(a+)+$", "a" * 30_000 + "b"),
        ("^(a|a)*$", "a" * 30_000 + "b"),
        ("(.*)(.*)(.*)(.*)=", "x" * 30_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 30_000),
        ("(x{0,30}){0,30}y", "x" * 250),
    ],
)
def test_patterns_that_explode_elsewhere_take_bounded_time(source: str, text: str) -> None:
    pattern = Pattern(source)
    started = time.perf_counter()
    assert not pattern.found_in(text)
    assert time.perf_counter() - started < 5


@pytest.mark.spec("ELIC-44")
@pytest.mark.parametrize(
    "source",
    [
        r"(a)\1",
        "(?=a)",
        "(?<!a)b",
        "(?i)a",
        r"\p{L}",
        r"\u{41}",
        "(",
        "a)",
        "[a",
        "*",
        "a**",
        "a{3,2}",
        "[b-a]",
        "[a--b]",
        "\\",
        "a" * 1001,
        "((a{50}){50}){50}",
        "(" * 60 + ")" * 60,
    ],
)
def test_a_pattern_that_cannot_be_matched_in_bounded_time_is_refused_by_agents_and_not_applied_by_clients(
    source: str,
) -> None:
    with pytest.raises(ValueError, match=r"."):
        Pattern(source)
    with pytest.raises(LocalProtocolError, match="pattern"):
        form({"x": StringPropertySchema(pattern=source)})
    assert faults(StringPropertySchema(pattern=source), "anything") == []


@pytest.mark.spec("ELIC-44")
def test_a_text_too_long_for_its_pattern_is_a_fault() -> None:
    assert faults(StringPropertySchema(pattern="^(ab?)+$"), "a" * 1_000_000) == [
        "$.content.x: the text is too long to be matched"
    ]


# --------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.spec("ELIC-03")
def test_the_host_is_taken_out_of_a_url() -> None:
    facts = inspect_url("https://Login.Example.com:8443/a?b#c")
    assert (facts.scheme, facts.host, facts.unicode_host, facts.port) == (
        "https",
        "login.example.com",
        "login.example.com",
        8443,
    )
    assert facts.url == "https://Login.Example.com:8443/a?b#c"
    assert facts.is_https
    assert not facts.is_punycode
    assert not facts.has_userinfo
    assert facts.warnings == ()


@pytest.mark.spec("ELIC-03", "ELIC-31", "ELIC-32", "ELIC-37")
@pytest.mark.parametrize(
    ("url", "host", "warning"),
    [
        ("http://example.com", "example.com", "not encrypted"),
        ("https://bank.example@evil.example/", "evil.example", "what stands before the @"),
        ("https://user:secret@example.com", "example.com", "what stands before the @"),
        ("https://аpple.com", "xn--pple-43d.com", "'аpple.com'"),
        ("https://xn--pple-43d.com", "xn--pple-43d.com", "'аpple.com'"),
        ("https://bücher。example", "xn--bcher-kva.example", "'bücher.example'"),
        ("https://xn--fa-hia.de", "xn--fa-hia.de", "letters may look like others"),
        ("https://192.0.2.1", "192.0.2.1", "is an address"),
        ("https://[2001:DB8::1]:8", "2001:db8::1", "is an address"),
        ("https://0x7f.1", "0x7f.1", "is an address"),
        ("https://3221226219", "3221226219", "is an address"),
        ("vscode://publisher.extension/x", "publisher.extension", "'vscode'"),
    ],
)
def test_what_is_odd_about_a_url_is_told(url: str, host: str, warning: str) -> None:
    facts = inspect_url(url)
    assert facts.host == host
    assert any(warning in text for text in facts.warnings), facts.warnings


@pytest.mark.spec("ELIC-37")
def test_punycode_is_told_apart_from_plain_names() -> None:
    assert inspect_url("https://аpple.com").is_punycode
    assert inspect_url("https://xn--pple-43d.com").is_punycode
    assert inspect_url("https://аpple.com").unicode_host == "аpple.com"


@pytest.mark.spec("ELIC-32")
@pytest.mark.parametrize("url", ["http://localhost:8000/", "http://127.0.0.1:9", "http://[::1]/", "http://a.localhost"])
def test_this_machine_needs_no_encryption_in_development(url: str) -> None:
    assert inspect_url(url).warnings == ()


@pytest.mark.spec("ELIC-03", "ELIC-34")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "/path",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "mailto:a@b.example",
        "https://",
        "https:///path",
        "https://good.example\\@evil.example",
        "https://good.example/\nhttps://evil.example",
        " https://example.com",
        "https://exa\u200dmple.com",
        "https://example.com/\u202egpj.exe",
        "https://ex%61mple.com",
        "https://straße.example",
        "https://a..b",
        "https://example.com:port",
        "https://[::1",
        "https://[nonsense]/",
        "https://exam\uff0fple.com",
    ],
)
async def test_a_url_whose_host_cannot_be_shown_for_certain_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        inspect_url(url)
    with pytest.raises(LocalProtocolError):
        check_url(url)
    with pytest.raises(RequestError, match=r"\$\.url") as refused:
        await answer_elicitation(asking_url(url), None, User(ElicitationAccept()).ask_url, OpenElicitations())
    assert refused.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("ELIC-31", "ELIC-32")
def test_an_agent_is_kept_from_putting_credentials_into_a_url() -> None:
    with pytest.raises(LocalProtocolError, match="credentials"):
        check_url("https://user:pass@example.com")
    assert check_url("https://example.com/login?state=abc") == []
    assert any("access_token" in warning for warning in check_url("https://example.com/?access_token=1"))
    assert any("'token'" in warning for warning in check_url("https://example.com/#token=1"))
    assert any("not encrypted" in warning for warning in check_url("http://example.com"))


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(["", "https://", "https://[", "http://a@"]))
def test_any_text_is_a_url_or_a_value_error(text: str, start: str) -> None:
    try:
        facts = inspect_url(start + text)
    except ValueError:
        return
    assert facts.host.isascii()
    assert facts.host


# --------------------------------------------------------------------------------------------------- the client's side


class User:
    """Gives one answer, and remembers what they were shown."""

    def __init__(self, answer: ElicitationAnswer) -> None:
        self.answer = answer
        self.shown: list[object] = []

    async def ask_form(self, request: ElicitationFormRequest) -> ElicitationAnswer:
        await trio.lowlevel.checkpoint()
        self.shown.append(request)
        return self.answer

    async def ask_url(self, request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        await trio.lowlevel.checkpoint()
        self.shown.append((request, facts))
        return self.answer


@pytest.mark.spec("ELIC-20", "ELIC-22")
@pytest.mark.parametrize(
    "answer", [ElicitationAccept(content={"name": "me"}), ElicitationDecline(), ElicitationCancel()]
)
async def test_the_user_s_answer_to_a_form_is_passed_on(answer: ElicitationAnswer) -> None:
    user = User(answer)
    request = asking_form(form({"name": StringPropertySchema()}, required=["name"]))
    assert await answer_elicitation(request, user.ask_form, None, OpenElicitations()) == answer
    assert user.shown == [request]


@pytest.mark.spec("ELIC-12", "ELIC-22")
@pytest.mark.parametrize("content", [None, {}, {"name": 1}, {"name": "me", "more": "x"}])
async def test_a_form_that_was_filled_in_wrongly_is_not_sent(
    content: dict[str, ElicitationContentValue] | None,
) -> None:
    reports: list[Report] = []
    request = asking_form(form({"name": StringPropertySchema()}, required=["name"]))
    user = User(ElicitationAccept(content=content))
    with pytest.raises(RequestError) as refused:
        await answer_elicitation(request, user.ask_form, None, OpenElicitations(), reports.append)
    assert refused.value.code == ErrorCode.INTERNAL_ERROR
    assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED]
    assert "$.content." in reports[0].reason


@pytest.mark.spec("ELIC-30", "ELIC-40")
@pytest.mark.parametrize(
    ("request_", "mode"),
    [
        (asking_form(form({})), "form"),
        (asking_url(), "url"),
        (Unknown(raw={"mode": "_voice", "message": "Speak"}), "_voice"),
    ],
)
async def test_a_mode_that_was_not_announced_is_refused_and_not_shown(
    request_: CreateElicitationRequest, mode: str
) -> None:
    user = User(ElicitationAccept())
    ask_form = None if mode == "form" else user.ask_form
    ask_url = None if mode == "url" else user.ask_url
    with pytest.raises(RequestError, match=rf"\$\.mode: '{mode}'") as refused:
        await answer_elicitation(request_, ask_form, ask_url, OpenElicitations())
    assert refused.value.code == ErrorCode.INVALID_PARAMS
    assert not user.shown


@pytest.mark.spec("ELIC-18", "ELIC-22", "ELIC-29")
async def test_an_accepted_url_is_open_until_it_is_complete() -> None:
    opened = OpenElicitations()
    user = User(ElicitationAccept(content={"token": "x"}))
    request = asking_url()
    assert await answer_elicitation(request, None, user.ask_url, opened) == ElicitationAccept()
    assert user.shown == [(request, inspect_url(request.url))]
    assert [*opened] == ["e1"]
    assert opened.complete(ElicitationId("e1"))
    assert len(opened) == 0
    assert not opened.complete(ElicitationId("e1"))
    assert not opened.complete(ElicitationId("never heard of"))


@pytest.mark.spec("ELIC-26")
@pytest.mark.parametrize("elicitation_id", ["", " ", "../..", "🦀", "\ud800", "e1\n"])
async def test_any_text_is_an_id(elicitation_id: str) -> None:
    opened = OpenElicitations()
    user = User(ElicitationAccept())
    await answer_elicitation(asking_url(elicitation_id=elicitation_id), None, user.ask_url, opened)
    assert not opened.complete(ElicitationId(elicitation_id + " "))
    assert opened.complete(ElicitationId(elicitation_id))


@pytest.mark.spec("ELIC-20")
@pytest.mark.parametrize("answer", [ElicitationDecline(), ElicitationCancel()])
async def test_a_refused_url_is_not_open(answer: ElicitationAnswer) -> None:
    opened = OpenElicitations()
    assert await answer_elicitation(asking_url(), None, User(answer).ask_url, opened) == answer
    assert "e1" not in opened


async def test_a_url_whose_question_failed_or_was_cancelled_is_not_open() -> None:
    opened = OpenElicitations()

    async def fail(_request: ElicitationUrlRequest, _facts: UrlFacts) -> ElicitationAnswer:
        raise KeyError("user interface")

    async def give_up(_request: ElicitationUrlRequest, _facts: UrlFacts) -> ElicitationAnswer:
        assert "e1" in opened
        scope.cancel()
        await trio.lowlevel.checkpoint()
        return ElicitationAccept()

    with pytest.raises(KeyError):
        await answer_elicitation(asking_url(), None, fail, opened)
    with trio.CancelScope() as scope:
        await answer_elicitation(asking_url(), None, give_up, opened)
    assert scope.cancelled_caught
    assert len(opened) == 0


@pytest.mark.spec("ELIC-25")
async def test_an_id_that_is_open_cannot_be_asked_for_again() -> None:
    opened = OpenElicitations()
    user = User(ElicitationAccept())
    await answer_elicitation(asking_url(), None, user.ask_url, opened)
    with pytest.raises(RequestError, match=r"\$\.elicitationId") as refused:
        await answer_elicitation(asking_url(), None, user.ask_url, opened)
    assert refused.value.code == ErrorCode.INVALID_PARAMS
    assert len(user.shown) == 1
    opened.complete(ElicitationId("e1"))
    await answer_elicitation(asking_url(), None, user.ask_url, opened)


@pytest.mark.spec("ELIC-18", "ELIC-29")
async def test_completion_wakes_who_waits_for_it_also_when_it_overtakes_the_answer(nursery: trio.Nursery) -> None:
    opened = OpenElicitations()
    seen: list[bool] = []

    async def wait() -> None:
        seen.append(await opened.wait_completed(ElicitationId("e1")))

    async def ask(_request: ElicitationUrlRequest, _facts: UrlFacts) -> ElicitationAnswer:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert opened.complete(ElicitationId("e1"))
        return ElicitationAccept()

    assert await answer_elicitation(asking_url(), None, ask, opened) == ElicitationAccept()
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [True]
    await wait()
    assert seen == [True, False]


async def test_nobody_waits_for_what_will_never_complete(nursery: trio.Nursery) -> None:
    opened = OpenElicitations()
    seen: list[bool] = []

    async def wait(elicitation_id: ElicitationId) -> None:
        seen.append(await opened.wait_completed(elicitation_id))

    dropped, left = opened.issue(), opened.issue()
    nursery.start_soon(wait, dropped)
    nursery.start_soon(wait, left)
    await trio.testing.wait_all_tasks_blocked()
    assert seen == []
    opened.drop(dropped)
    opened.drop(dropped)
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [False]
    opened.close()
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [False, False]
    assert len(opened) == 0


# ---------------------------------------------------------------------------------------------------- the agent's side


@pytest.mark.spec("ELIC-25")
def test_ids_are_made_by_the_library_and_unique_among_the_open_ones() -> None:
    opened = OpenElicitations()
    ids = {opened.issue() for _ in range(100)}
    assert len(ids) == len(opened) == 100
    with pytest.raises(ValueError, match="open already"):
        opened.open(min(ids))


@pytest.mark.spec("ELIC-10", "ELIC-27", "ELIC-28")
def test_completion_is_told_once_and_only_on_the_connection_that_asked() -> None:
    ours, theirs = OpenElicitations(), OpenElicitations()
    elicitation_id = ours.issue()
    with pytest.raises(LocalProtocolError, match="on this connection"):
        theirs.completion(elicitation_id)
    assert ours.completion(elicitation_id) == CompleteElicitationNotification(elicitation_id=elicitation_id)
    with pytest.raises(LocalProtocolError):
        ours.completion(elicitation_id)


@pytest.mark.spec("ELIC-23", "ELIC-24", "ELIC-42")
@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (ElicitationAccept(), True),
        (ElicitationDecline(), False),
        (ElicitationCancel(), False),
        (Unknown(raw={"action": "_accept", "content": {"name": "me"}}), False),
        (Unknown(raw={"action": "accepted"}), False),
    ],
)
def test_only_accept_is_consent(response: CreateElicitationResponse, expected: bool) -> None:
    assert consented(response) is expected
    schema = form({"name": StringPropertySchema()})
    assert accepted_content(schema, response) == ({} if expected else None)


@pytest.mark.spec("ELIC-13", "ELIC-21")
def test_an_agent_checks_what_was_filled_in_once_more() -> None:
    schema = form({"count": IntegerPropertySchema()}, required=["count"])
    assert accepted_content(schema, ElicitationAccept(content={"count": 3})) == {"count": 3}
    with pytest.raises(RemoteProtocolError, match=r"\$\.content\.count: expected integer"):
        accepted_content(schema, ElicitationAccept(content={"count": True}))
    with pytest.raises(RemoteProtocolError, match=r"\$\.content\.count: required"):
        accepted_content(schema, ElicitationAccept(content=None))
