"""Names of hosts, and of many that differ by a number: `gpu[01-04,07].example.org`."""

import re
from collections.abc import Iterator
from ipaddress import IPv6Address

from nightbench.core.printable import shown

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]{1,253}\Z")
_MOST_HOSTS = 10_000


def expand_hosts(pattern: str) -> list[str]:
    """Names from `gpu[01-04,07].example.org`; leading zeros are kept.

    Several brackets give all their combinations, the last one running fastest.
    """
    match = _RANGE.search(pattern)
    if match is None:
        if not pattern or "[" in pattern or "]" in pattern:
            raise ValueError(
                f'found "{pattern}"; expected a host, or hosts as in gpu[01-04].example.org'
            )
        return [pattern]
    head, rest = pattern[: match.start()], pattern[match.end() :]
    tail = expand_hosts(rest) if rest else [""]
    found = list(numbers(match[1], pattern))
    if len(found) * len(tail) > _MOST_HOSTS:
        raise ValueError(f'found "{pattern}"; expected no more than {_MOST_HOSTS} hosts')
    return [f"{head}{number}{end}" for number in found for end in tail]


def readable_hosts(pattern: str) -> str:
    """The pattern itself, once it is known to name hosts."""
    for name in expand_hosts(pattern):
        if not _HOST.match(name) or name.startswith("-"):
            raise ValueError(
                f"found {shown(name)}; expected names or addresses of letters, digits, "
                '".", "-", "_", ":" and "%" (write an international name as xn--…)'
            )
        if ":" in name:
            try:
                IPv6Address(name)
            except ValueError:
                said = "expected a host, or an IPv6 address; the key `port` takes a port"
                raise ValueError(f"found {shown(name)}; {said}") from None
    return pattern


def readable_host(name: str) -> str:
    """The name itself, once it is known to be that of one host."""
    if len(expand_hosts(readable_hosts(name))) > 1:
        raise ValueError(f"found {shown(name)}; expected one host")
    return name


def numbers(text: str, pattern: str) -> Iterator[str]:
    """Yield the numbers of `01-04,07` as they are written; the pattern is for messages."""
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or int(first) > int(last):
            raise ValueError(
                f'found "[{text}]" in "{pattern}"; expected rising numbers as in [01-04,07]'
            )
        if int(last) - int(first) >= _MOST_HOSTS:
            raise ValueError(f'found "[{text}]"; expected no more than {_MOST_HOSTS} hosts')
        width = len(first) if first.startswith("0") else 0
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(width)
