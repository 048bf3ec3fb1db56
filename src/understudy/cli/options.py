"""Options that several commands share: the design as one short text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import Refused, UnknownName

if TYPE_CHECKING:
    from understudy.survey.design import Design, Replicates, Stage

_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_design(text: str) -> Design:
    """A design from `weight=w,strata=h,psu=p,fpc=f,nest=true,replicates=PREFIX:kind`.

    Fay's factor follows its kind (`replicates=brr_:fay:0.5`), a later stage is its unit, fpc and
    strata (`stages=ssu:fpc2`, once for each stage), and a column name that contains a comma stands
    in double quotes.
    """
    from understudy.declarations import settings_of
    from understudy.survey.design import Design

    known = settings_of(Design)
    settings: dict[str, str] = {}
    stages = []
    for part in _split(text, ","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value.strip('"'):
            raise Refused(
                f"In the design `{part.strip()}` is not of the form key=value; write for "
                "example weight=w,strata=h."
            )
        if key not in known:
            raise UnknownName("key of the design", key, known)
        if key == "stages":
            stages.append(_stage(value))
            continue
        if key in settings:
            raise Refused(f"The design names `{key}` twice; keep one of them.")
        settings[key] = value
    replicates = settings.pop("replicates", None)
    nest = settings.pop("nest", "false").lower()
    if nest not in _YES_NO:
        raise Refused(f"In the design nest must be true or false, not `{nest}`.")
    return Design(
        **{key: _unquoted(value) for key, value in settings.items()},  # type: ignore[arg-type]
        nest=_YES_NO[nest],
        stages=stages,
        replicates=None if replicates is None else _replicates(replicates),
    )


def parse_pairs(texts: list[str], option: str) -> dict[str, str]:
    """{"proportion": "beta"} from ["proportion=beta"]."""
    pairs = {}
    for text in texts:
        key, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or not key or not value:
            raise Refused(f"{option} is written name=value, not `{text}`.")
        pairs[key] = value
    return pairs


def parse_precision(text: str) -> str | dict[str, float] | None:
    """A rule's name, or {"records": 30, "cv": 0.3} from `records=30,cv=0.3`."""
    if "=" not in text:
        return text or None
    limits = {}
    for key, value in parse_pairs(text.split(","), "--precision").items():
        try:
            limits[key] = float(value)
        except ValueError:
            raise Refused(f"In --precision `{key}` must be a number, not `{value}`.") from None
    return limits


def _stage(text: str) -> Stage:
    from understudy.survey.design import Stage

    names = [_unquoted(part) for part in _split(text, ":")]
    if not 2 <= len(names) <= 3:
        raise Refused(f"A later stage is written UNIT:FPC or UNIT:FPC:STRATA, not `{text}`.")
    return Stage(*names)


def _replicates(text: str) -> Replicates:
    from understudy.survey.design import Replicates

    prefix, *rest = _split(text, ":")
    if len(rest) > 2 or not rest:
        raise Refused(
            f"Replicate weights are written PREFIX:kind (PWGTP:sdr) or PREFIX:fay:factor, not "
            f"`{text}`."
        )
    fay = None
    if len(rest) == 2:
        try:
            fay = float(rest[1])
        except ValueError:
            raise Refused(f"Fay's factor must be a number in [0, 1), not `{rest[1]}`.") from None
    return Replicates(
        prefix=_unquoted(prefix),
        kind=rest[0].strip(),  # type: ignore[arg-type]
        fay=fay,
    )


def _split(text: str, mark: str) -> list[str]:
    """The parts between the marks; a mark inside double quotes does not separate."""
    parts, inside = [""], False
    for character in text:
        inside ^= character == '"'
        if character == mark and not inside:
            parts.append("")
        else:
            parts[-1] += character
    if inside:
        raise Refused(f"In the design a quote is not closed: `{text}`.")
    return [part for part in parts if part.strip()]


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
