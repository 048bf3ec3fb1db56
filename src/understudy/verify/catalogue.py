"""The estimators and measures that a server offers, and the form of its questions.

Those of the package are found by looking into its folders; a server's configuration can name
others in files of its own, `mine.py:Mine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError, create_model

from understudy.declarations import declared_in, own_class
from understudy.errors import Refused
from understudy.verify.estimator import Estimator
from understudy.verify.measure import Measure
from understudy.verify.mistakes import InvalidQuery, field_of, in_our_words
from understudy.verify.query import Query, Tolerance
from understudy.verify.question_fields import Condition, QuestionField, field_types

Document = Mapping[str, Any] | str | bytes


class Catalogue:
    """Estimators and measures by name, and the type of a question about them."""

    def __init__(
        self, estimators: Iterable[type[Estimator]], measures: Iterable[type[Measure]]
    ) -> None:
        self.estimators: Mapping[str, type[Estimator]] = _by_name(estimators)
        self.measures: Mapping[str, type[Measure]] = _by_name(measures)
        self.query_type = self._query_type()

    def read(self, document: Document) -> Query:
        """A query from a JSON text or the mapping it stands for, with all mistakes of form."""
        try:
            if isinstance(document, (str, bytes)):
                return self.query_type.model_validate_json(document)
            return self.query_type.model_validate(dict(document))
        except ValidationError as error:
            first = {field_of(e): e for e in error.errors(include_url=False)}
            raise InvalidQuery(in_our_words(e, self._fields_at) for e in first.values()) from None

    def usual_measure(self, estimator: Any, from_release: bool) -> str:
        """The first measure in the list that can answer: one that does not divide the file needs
        an estimating equation, and the estimate of the released files."""
        equation = getattr(estimator, "influence_question", None)
        whole = from_release and equation is not Estimator.influence_question
        return next(name for name, kind in self.measures.items() if kind.divides or whole)

    def _query_type(self) -> type[Query]:
        added: dict[str, Any] = {}
        for kind in self.estimators.values():
            for name, hint in field_types(kind).items():
                several = get_origin(get_args(hint)[0]) is tuple
                _add(added, name, (hint, ()) if several else (hint | None, None), kind)
        for measure in self.measures.values():
            for name, hint in field_types(measure).items():
                _add(added, name, (hint, getattr(measure, name)), measure)
        noises = dict.fromkeys(noise for m in self.measures.values() for noise in m.noises)
        added["estimator"] = Literal[tuple(self.estimators)], ...
        added["measure"] = Literal[tuple(self.measures)], next(iter(self.measures))
        added["noise"] = Literal[tuple(noises)], next(iter(noises))
        made: type[Query] = create_model("Query", __base__=Query, __doc__=Query.__doc__, **added)
        made.catalogue = self
        return made

    def _fields_at(self, location: Sequence[int | str]) -> Iterable[str]:
        """The fields that there are where a mistake was made."""
        if len(location) < 2:
            return self.query_type.model_fields
        return (Tolerance if location[0] == "tolerance" else Condition).model_fields


@cache
def packaged() -> Catalogue:
    """What the package itself offers."""
    return own_catalogue()


def own_catalogue(
    estimators: Sequence[str] = (), measures: Sequence[str] = (), folder: Path | None = None
) -> Catalogue:
    """What the package offers and what files of one's own add: `mine.py:Mine`."""
    return Catalogue(
        [
            *declared_in("understudy.verify.estimators", Estimator).values(),
            *(own_class(name, Estimator, "estimator", folder) for name in estimators),
        ],
        [
            *declared_in("understudy.verify.measures", Measure).values(),
            *(own_class(name, Measure, "measure", folder) for name in measures),
        ],
    )


def read_query(document: Document) -> Query:
    """A query about the package's own estimators and measures."""
    return packaged().read(document)


Offered = TypeVar("Offered", bound=type[Estimator] | type[Measure])


def _by_name(kinds: Iterable[Offered]) -> dict[str, Offered]:
    named: dict[str, Offered] = {}
    for kind in sorted(kinds, key=lambda kind: kind.rank):
        if kind.name in named:
            raise Refused(f"Two classes are called `{kind.name}`; rename one of them.")
        named[kind.name] = kind
    return named


def _add(fields: dict[str, Any], name: str, field: tuple[Any, Any], owner: Any) -> None:
    """The same field can belong to several; then it must have the same type for all."""
    if name in Query.model_fields:
        if name != "variable":
            raise Refused(f"`{owner.name}` has a field `{name}`, which every question has.")
        return
    known = fields.setdefault(name, field)
    if _plain(known[0]) != _plain(field[0]):
        raise Refused(f"`{owner.name}` declares `{name}` with a different type from the others.")


def _plain(hint: Any) -> tuple[set[Any], list[str]]:
    """A field's type without what is ours: the alternatives but None, and pydantic's ranges."""
    if get_origin(hint) is not Annotated:  # Annotated[...] | None
        hint = next(part for part in get_args(hint) if part is not type(None))
    base, *notes = get_args(hint)
    members = set(get_args(base)) if get_origin(base) in (Union, UnionType) else {base}
    ranges = [repr(note) for note in notes if not isinstance(note, QuestionField)]
    return members - {type(None)}, ranges
