"""What every page shares: the absent value, the unknown variant, bounded scalars and the marks of a field.

A class here says what a value means; how it looks as JSON follows from the class, field by field, and is carried out by
``acp_ref._converter``. The rule is: the wire name is the camelCase of the Python name, a default of ``None`` or
``UNSET`` is never written, everything else always is. What departs from that rule stands in the annotation of the
field, or at the class, as ``TAG`` or ``UNTAGGED``.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, Literal, NamedTuple, NewType, TypeAlias, TypeVar

from acp_ref._jsonrpc import JSONObject
from acp_ref.schema._frozen import frozen

T = TypeVar("T")


class UnsetType(enum.Enum):
    """The type of :data:`UNSET`."""

    UNSET = "UNSET"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = UnsetType.UNSET
"""The value of a field that is absent, where absent and null are two things. It is false."""


class OpenEnum(enum.StrEnum):
    """An enum that the protocol leaves open: a value it does not list is legal, and stays a plain ``str``."""


@frozen(kw_only=True)
class Unknown:
    """A variant of a union that this version does not know, such as an update from a later version or an extension.

    Never show it as a variant you do know. It is written back as it came.
    """

    raw: JSONObject
    """The whole object, its tag included."""


# ------------------------------------------------------------------------------------------------ scalars and bounds


class Bounds(NamedTuple):
    """The range of an integer, both ends included."""

    low: int
    high: int


class MinLength(NamedTuple):
    """The least number of characters of a string."""

    characters: int


UInt16: TypeAlias = Annotated[int, Bounds(0, 2**16 - 1)]
"""An integer from 0 to 65 535."""
UInt32: TypeAlias = Annotated[int, Bounds(0, 2**32 - 1)]
"""An integer from 0 to 4 294 967 295."""
UInt64: TypeAlias = Annotated[int, Bounds(0, 2**64 - 1)]
"""An integer from 0 to 2^64 - 1."""
Int64: TypeAlias = Annotated[int, Bounds(-(2**63), 2**63 - 1)]
"""An integer from -2^63 to 2^63 - 1."""
NonEmptyStr: TypeAlias = Annotated[str, MinLength(1)]
"""A string of at least one character."""

SessionId = NewType("SessionId", str)
"""Names a session; opaque, chosen by the agent. It stands here because nearly every page needs it."""

# ------------------------------------------------------------------------------------------------ marks of a class

TAG: Final = "TAG"
"""Class variable of a variant: the key and the value that tell it from the other variants of its union."""
UNTAGGED: Final = "UNTAGGED"
"""Class variable of the one variant of its union that is written without a tag: an :class:`Untagged`."""


class Untagged(NamedTuple):
    """How a variant that has no tag is told from its siblings: by the absence of their tag."""

    key: str
    """The key under which the siblings have their tag."""
    reads: str | None = None
    """A tag that some peers write for this variant all the same."""
    reads_any: bool = False
    """Whether the schema reads every unknown tag as this variant."""


# ------------------------------------------------------------------------------------------------ marks of a field


class Mark(enum.Enum):
    """A way in which a field departs from the rule."""

    DEFAULT_ON_ERROR = enum.auto()
    SKIP_INVALID_ITEMS = enum.auto()
    DEFAULT_ON_NULL = enum.auto()
    OMIT_EMPTY = enum.auto()
    FLATTENED = enum.auto()


class Wire(NamedTuple):
    """The name on the wire, where it is not the camelCase of the Python name."""

    name: str


class AlsoRead(NamedTuple):
    """An older name on the wire, accepted on read."""

    name: str


DefaultOnError: TypeAlias = Annotated[T, Mark.DEFAULT_ON_ERROR]
"""A malformed value is read as the default (``x-deserialize-default-on-error``)."""
SkipInvalidItems: TypeAlias = Annotated[T, Mark.DEFAULT_ON_ERROR, Mark.SKIP_INVALID_ITEMS]
"""Malformed items are left out one by one (``x-deserialize-skip-invalid-items``); what is no list is read as the
default, or as empty where there is none."""
DefaultOnNull: TypeAlias = Annotated[T, Mark.DEFAULT_ON_NULL]
"""Null is read as the empty value (``x-deserialize-default-on-null``); anything else malformed is an error."""
OmitEmpty: TypeAlias = Annotated[T, Mark.OMIT_EMPTY]
"""An empty list or object is left out on write."""
Flattened: TypeAlias = Annotated[T, Mark.FLATTENED]
"""The members of the value lie in the object that has the field."""

Meta: TypeAlias = Annotated["JSONObject | None", Wire("_meta"), Mark.DEFAULT_ON_ERROR]
"""The peers' own data, on nearly every type (EXT-01). Nobody assumes anything about what is in it (EXT-02)."""
PatchMeta: TypeAlias = Annotated["JSONObject | UnsetType | None", Wire("_meta"), Mark.DEFAULT_ON_ERROR]
"""The same where absent keeps what there is and null clears it."""
