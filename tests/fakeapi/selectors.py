"""Field and label selectors. Owns their grammar, as far as our programs use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fakeapi.resources import Body, Resource

Predicate = Callable[[Body], bool]


class SelectorError(ValueError):
    """400: the selector names a field that cannot be selected, or cannot be read."""


def field_selector(text: str, resource: Resource) -> Predicate:
    """Return the predicate of ``a=b,c!=d``."""
    terms = [_term(term) for term in text.split(",") if term]
    for name, _, _ in terms:
        if name not in resource.selectable:
            raise SelectorError(f"field label not supported: {name}")

    def matches(body: Body) -> bool:
        return all((_field(body, name) == value) is equal for name, equal, value in terms)

    return matches


def label_selector(text: str) -> Predicate:
    """Return the predicate of ``a=b,c!=d,e,!f``."""
    terms = [term for term in text.split(",") if term]

    def matches(body: Body) -> bool:
        labels = body["metadata"].get("labels", {})
        return all(_label(labels, term) for term in terms)

    return matches


def _label(labels: dict[str, str], term: str) -> bool:
    if "=" in term:
        name, equal, value = _term(term)
        return (labels.get(name) == value) is equal
    return term[1:] not in labels if term.startswith("!") else term in labels


def _term(term: str) -> tuple[str, bool, str]:
    name, operator, value = term.partition("!=")
    if operator:
        return name.strip(), False, value.strip()
    name, operator, value = term.partition("=")
    if not operator:
        raise SelectorError(f"invalid selector: '{term}'")
    return name.strip(), True, value.removeprefix("=").strip()


def _field(body: Body, dotted: str) -> str:
    at: Any = body
    names = ["source", "component"] if dotted == "source" else dotted.split(".")
    for name in names:
        at = at.get(name) if isinstance(at, dict) else None
    if isinstance(at, bool):
        return "true" if at else "false"
    if at is None:
        return "false" if dotted == "spec.unschedulable" else ""
    return str(at)
