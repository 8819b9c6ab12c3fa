"""Passes all hooks of vLLM's connector interface through to another connector.

Made from the base class itself rather than from a list: a hook that a later vLLM adds is passed
through too, instead of silently answered by the base class's default.
"""

from __future__ import annotations

import inspect
from typing import Any


def forwarding(base: type) -> type:
    """A class whose public methods and properties are those of `self.inner`.

    Class methods are not among them, since they have no inner connector.
    """
    members: dict[str, Any] = {}
    for name in dir(base):
        member = inspect.getattr_static(base, name)
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            members[name] = property(_getter(name), doc=member.__doc__)
        elif inspect.isfunction(member):
            members[name] = _method(name, member)
    return type("Forwarding", (), members)


def _getter(name: str) -> Any:
    return lambda self: getattr(self.inner, name)


def _method(name: str, of: Any) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*args, **named)

    method.__name__, method.__doc__ = name, of.__doc__
    return method
