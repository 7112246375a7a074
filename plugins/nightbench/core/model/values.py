"""Types of the values in YAML files: durations, percentages, host ranges, environments.

Every function takes what the file says and returns what the program works with, or raises a
ValueError that says what was found and what was expected. A model is read from a file with a
context; without one its values are those of the program, and have no units to be read.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticKnownError

from nightbench.core.complaints import describe, one_of
from nightbench.core.hours import Clock, Hours
from nightbench.core.model import env
from nightbench.core.model.hosts import numbers, readable_host, readable_hosts
from nightbench.core.model.words import SLUG
from nightbench.core.printable import shown


class StrictModel(BaseModel):
    """Base of the models of files: no unknown keys, no silent conversions.

    A field with a unit in its name has its key in files as alias: `wait_s` is written `wait`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=True)


@dataclass(frozen=True)
class Words:
    """The name of a type in messages and on the reference page."""

    text: str


T = TypeVar("T")

_DURATION = re.compile(r"(?=.)(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?\Z")
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?) ?%\Z")
_SHAPE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,3})\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+\\-]{0,103}\$?\Z")
_INTERFACE = re.compile(r"[=^]?[A-Za-z0-9_.:@-]{1,40}(?:,[A-Za-z0-9_.:@-]{1,40}){0,15}\Z")
_TRANSPORT = re.compile(r"[a-z0-9_]{1,40}(?:/[A-Za-z0-9_.:@+-]{1,100}){0,2}\Z")
_LONGEST_TEXT = 4096
_VERSION = re.compile(r"v?\d[A-Za-z0-9.!+_-]*\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(kB|MB|GB|TB|KiB|MiB|GiB|TiB)\Z")
_LINK = re.compile(r"(\d+(?:\.\d+)?) ?(Mbit|Gbit)/s\Z")
_BANDWIDTH = re.compile(r"(?:full|[1-9][0-9]{0,4}[kmg]bit)\Z")
_SERIES = re.compile(r"[1-9][0-9]?\.[0-9]{1,3}\Z")
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})\Z")
_URL = re.compile(r"[^:]+://.")
_NODE_PATH = re.compile(r"(?:/|~/)[^\x00-\x1f\x7f]{0,1000}\Z")


def written(read: Callable[[Any], Any]) -> BeforeValidator:
    """A check that reads a value of a file; a value of the program stays as it is."""

    def check(value: Any, info: ValidationInfo) -> Any:
        return value if info.context is None else read(value)

    return BeforeValidator(check)


def _refuse_written(value: Any, info: ValidationInfo) -> Any:
    if info.context is not None:
        raise PydanticKnownError("extra_forbidden")
    return value


DERIVED = BeforeValidator(_refuse_written)
"""A field that the program fills in: no key of files."""


def known(kind: str) -> AfterValidator:
    """A check that the context knows a name, if it has names of this kind."""

    def check(name: str, info: ValidationInfo) -> str:
        names = (info.context or {}).get(kind)
        if names is not None and name not in names:
            raise ValueError(one_of(name, names))
        return name

    return AfterValidator(check)


def among(choices: Iterable[str]) -> AfterValidator:
    """A check that a text is one of some."""

    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(one_of(value, choices))
        return value

    return AfterValidator(check)


def _match(pattern: re.Pattern[str], value: Any, expected: str) -> re.Match[str]:
    match = pattern.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"found {describe(value)}; expected {expected}")
    return match


def duration(value: Any) -> float:
    """Seconds from `900s`, `15m`, `2h` or `1h30m`."""
    match = _match(_DURATION, value, "a duration with its unit, such as 900s, 15m or 2h")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def positive_duration(value: Any) -> float:
    """Seconds, more than none."""
    seconds = duration(value)
    if seconds <= 0:
        raise ValueError(f"found {describe(value)}; expected a duration longer than nothing")
    return seconds


def percentage(value: Any) -> float:
    """A fraction from `3%`."""
    match = _match(_PERCENTAGE, value, "a percentage such as 3%")
    fraction = float(match[1]) / 100
    if not 0 < fraction < 1:
        raise ValueError(f"found {describe(value)}; expected more than 0% and less than 100%")
    return fraction


def percentage_or_auto(value: Any) -> float | str:
    """A fraction from `3%`, or `auto`."""
    return "auto" if value == "auto" else percentage(value)


def size(value: Any) -> int:
    """Bytes from `5GB` or `4GiB`."""
    match = _match(_SIZE, value, "a size with its unit, such as 5GB")
    base = 1024 if "i" in match[2] else 1000
    power = 1 + "KMGT".index(match[2][0].upper())
    return round(float(match[1]) * float(base) ** power)


def link_speed(value: Any) -> int:
    """Megabits a second from `10Gbit/s`."""
    match = _match(_LINK, value, "a speed such as 10Gbit/s or 100Mbit/s")
    return round(float(match[1]) * (1000 if match[2] == "Gbit" else 1))


def hours(value: str) -> str:
    """Hours of the day with their time zone, as `nightbench.core.hours` writes them."""
    return str(Hours.parse(value))


def clock(value: str) -> str:
    """A time of day with its time zone, as `nightbench.core.expected_nights` writes it."""
    return str(Clock.parse(value))


FIT = "fit"
"""Instead of a shape: a node for each trainer, or as few trainers on each as the nodes need."""


def shape(value: Any) -> Any:
    """Nodes and devices on each from `2x1`; `fit` as it is."""
    if value == FIT:
        return FIT
    match = _match(_SHAPE, value, "nodes x devices on each, such as 2x1")
    return int(match[1]), int(match[2])


def port_range(value: Any) -> tuple[int, int]:
    """First and last port from `20000-29999`."""
    match = _match(_PORTS, value, "a range of ports such as 20000-29999")
    low, high = int(match[1]), int(match[2])
    if not 1024 <= low <= high <= 65535:
        expected = "ports between 1024 and 65535, the lower one first"
        raise ValueError(f"found {describe(value)}; expected {expected}")
    return low, high


def cores(value: Any) -> Any:
    """Core numbers from `0-3,8`; a list of numbers passes as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = [int(number) for number in numbers(value, value)]
    except ValueError:
        raise ValueError(f'found "{value}"; expected cores such as [0, 1] or "0-3,8"') from None
    return found


def device_name(value: Any) -> Any:
    """A device's index or UUID as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def slug(value: str) -> str:
    """A name that can be a folder on every node."""
    if not SLUG.match(value):
        raise ValueError(
            f'found {shown(value)}; expected a name of letters, digits, ".", "_" and "-" that '
            "starts with a letter or digit"
        )
    return value


LONGEST_DAG_NAME = 100
"""Largest length of a tag in Airflow: suites and clusters are tags of DAGs."""


def dag_name(value: str) -> str:
    """A name that DAGs and their tags can bear."""
    if len(slug(value)) > LONGEST_DAG_NAME:
        raise ValueError(
            f"found a name of {len(value)} characters; expected {LONGEST_DAG_NAME} at most, "
            "because DAGs have this name"
        )
    return value


def not_empty(value: str) -> str:
    """Text on one line that is not blank."""
    if not value.strip():
        raise ValueError("found an empty text; expected a name or a sentence")
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError(f"found {shown(value)}; expected text without line ends and control codes")
    if len(value) > _LONGEST_TEXT:
        raise ValueError(f"found {len(value)} characters; expected no more than {_LONGEST_TEXT}")
    return value


def fits(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    """A check that a whole text is of a pattern."""

    def check(value: str) -> str:
        if not pattern.match(value):
            raise ValueError(f"found {shown(value)}; expected {expected}")
        return value

    return AfterValidator(check)


def without_password(value: str) -> str:
    """A URL or path that holds no password: it stands in the command line of the agent."""
    if re.search(r"://[^/@\s]*:[^/@\s]+@", value):
        raise ValueError(
            "found a URL with a password, which all users of a node could read in its process "
            "list; expected it in pip's configuration or ~/.netrc on the nodes"
        )
    return value


def version(value: str) -> str:
    """A version as package indexes write them (PEP 440)."""
    return _match(_VERSION, value, "a version such as 2.13.0")[0]


def as_list(value: Any) -> Any:
    """A scalar as the list of itself: a list is an axis, a scalar is fixed."""
    return value if isinstance(value, list | tuple) or value is None else [value]


def no_duplicates(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list that names nothing twice."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ValueError(f"found {describe(value)} twice; expected it once")
    return values


def some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list that has an entry."""
    if not values:
        raise ValueError("found an empty list; expected at least one entry")
    return values


# Lists of files become tuples. Of their length pydantic would complain beside the items' errors.
Many = Annotated[tuple[T, ...], Field(strict=False)]
Some = Annotated[tuple[T, ...], Field(strict=False), AfterValidator(some)]
Axis = Annotated[
    tuple[T, ...],
    Field(strict=False),
    BeforeValidator(as_list),
    AfterValidator(some),
    AfterValidator(no_duplicates),
]
Text = Annotated[str, AfterValidator(not_empty), Words("text")]
Version = Annotated[str, AfterValidator(version), Words("version")]
Name = Annotated[str, AfterValidator(slug), Words("name")]
DagName = Annotated[str, AfterValidator(dag_name), Words("name")]
Series = Annotated[
    str, fits(_SERIES, 'a series of Python, such as "3.11"'), Words("series of Python")
]
Capability = Annotated[
    str,
    fits(re.compile(r"\d+\.\d$"), 'a compute capability in quotes, such as "9.0"'),
    Words("compute capability"),
]
Duration = Annotated[float, written(duration), Words("duration")]
PositiveDuration = Annotated[float, written(positive_duration), Words("duration")]
Percentage = Annotated[float, written(percentage), Words("percentage")]
PercentageOrAuto = Annotated[
    float | Literal["auto"], written(percentage_or_auto), Words("percentage or `auto`")
]
Bandwidth = Annotated[str, fits(_BANDWIDTH, "10mbit, 1gbit, or full"), Words("bandwidth")]
Size = Annotated[int, written(size), Words("size")]
LinkSpeed = Annotated[int, written(link_speed), Words("speed of a link")]
ClockText = Annotated[str, AfterValidator(clock), Words("time of day")]
HoursText = Annotated[str, AfterValidator(hours), Words("hours")]
Whole = Annotated[int, Field(ge=0), Words("whole number")]
Count = Annotated[int, Field(ge=1), Words("whole number, at least 1")]
Port = Annotated[int, Field(ge=1, le=65535), Words("port")]
PortRange = Annotated[tuple[int, int], BeforeValidator(port_range), Words("range of ports")]
Shape = Annotated[Any, BeforeValidator(shape), Words(f"nodes x devices on each, or `{FIT}`")]
Hosts = Annotated[str, AfterValidator(readable_hosts), Words("hosts")]
Host = Annotated[str, AfterValidator(readable_host), Words("host")]
Cores = Annotated[
    Many[Whole], BeforeValidator(cores), AfterValidator(no_duplicates), Words("cores")
]
NodePath = Annotated[
    str,
    fits(_NODE_PATH, "a path on the nodes that begins with / or ~/, such as /data/imagenet/train"),
    Words("path on the nodes"),
]
DeviceName = Annotated[str, BeforeValidator(device_name), Words("index or UUID")]
User = Annotated[
    str,
    fits(_USER, 'a user name of letters, digits, ".", "_", "-", "@", "+" and "\\"'),
    Words("user name"),
]
Interface = Annotated[
    str,
    fits(_INTERFACE, "a network interface such as eth0, or several with commas between"),
    Words("network interface"),
]
Transport = Annotated[
    str,
    fits(_TRANSPORT, "what the ranks report, such as gloo, nccl/ib or nccl/socket/eth0"),
    Words("transport"),
]
Source = Annotated[str, AfterValidator(not_empty), AfterValidator(without_password), Words("text")]
EnvName = Annotated[str, AfterValidator(env.name)]
EnvValue = Annotated[str, BeforeValidator(env.value)]
Env = Annotated[dict[EnvName, EnvValue], Words("variables")]
FrameworkName = Annotated[str, known("frameworks"), Words("framework line")]
WorkloadName = Annotated[str, known("workloads"), Words("workload")]
RoleName = Annotated[str, known("roles"), Words("role")]
Url = Annotated[str, fits(_URL, "an Apprise URL such as apprise://conn/team"), Words("URL")]
