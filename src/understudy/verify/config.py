"""The configuration of a verification server, from TOML.

    ledger = "ledger.db"              # or postgresql://..., with head = "ledger.head"
    slot_seconds = 1.0                # and other settings of docs/server.md
    [datasets.sdr]
    path = "confidential.parquet"
    codebook = "codebook.toml"
    design = { weight = "w", strata = "field" }
    released = ["synthetic/1.parquet", "synthetic/2.parquet"]
    cap = "10"                        # epsilon that may ever be spent on this population
    population = "doctorates 2023"    # whose records these are; the data set's name if left out

Paths are relative to the file. All mistakes are reported at once, each with its line and in one
sentence that names the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails, PydanticCustomError

from understudy.claim import RECORD
from understudy.declarations import settings_of
from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import parse_epsilon
from understudy.ledger.populations import Declaration
from understudy.survey.design import Design
from understudy.survey.design_values import design_from
from understudy.survey.engine_setting import Engine, engine_mistakes
from understudy.toml_mistakes import (
    Location,
    Mistake,
    TomlRefused,
    line_at,
    lines_of,
    parse_toml,
    read_toml_text,
)
from understudy.verify.nonresponse import Nonresponse

Combine = Literal["partial", "full"]
ServedStore = Literal["memory", "disk"]
PopulationRelation = Literal["replace", "add-remove"]

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
_SETTING = "{setting}"  # in a sentence: the setting that it is about


def _in_folder(path: Any, info: ValidationInfo) -> Any:
    folder = (info.context or {}).get("folder")
    return folder / path if isinstance(path, str) and folder is not None else path


def _ledger(text: str, info: ValidationInfo) -> str:
    return text if "://" in text else str(_in_folder(text, info))


def _own(name: str, info: ValidationInfo) -> str:
    return str(_in_folder(name, info))


def _cap(text: str) -> str:
    parse_epsilon(text)
    return text


def _text_first(value: Any) -> Any:
    if not isinstance(value, (str, Path)):
        raise PydanticCustomError("string_type", "not a string")
    return value


def _design(table: Any) -> Design:
    if isinstance(table, Design):
        return table
    if not isinstance(table, dict):
        raise Refused(f'`{_SETTING}` must be a table, such as {{ weight = "w" }}.')
    return design_from(table)


def _nonresponse(table: Any) -> Nonresponse | None:
    if table is None or isinstance(table, Nonresponse):
        return table
    known = isinstance(table, dict) and set(table) <= {"responded", "classes"}
    if not known or not isinstance(table.get("responded"), str):
        raise Refused(f'`{_SETTING}` must be a table, such as {{ responded = "status == 1" }}.')
    return Nonresponse(table["responded"], tuple(map(str, table.get("classes", ()))))


def _engine(table: Any) -> Engine:
    if isinstance(table, Engine):
        return table
    if not isinstance(table, dict):
        raise Refused(f'`{_SETTING}` must be a table, such as {{ kind = "spark" }}.')
    known = settings_of(Engine)
    for name in table:
        if name not in known:
            raise UnknownName("key in [engine]", name, known)
    mistakes = engine_mistakes(table)
    if mistakes:
        raise Refused(" ".join(mistakes.values()))
    return Engine(**table)


OwnClass = Annotated[StrictStr, AfterValidator(_own)]
File = Annotated[Path, BeforeValidator(_in_folder), BeforeValidator(_text_first)]


CapText = Annotated[StrictStr, AfterValidator(_cap)]


@dataclass(frozen=True, config=_CONFIG)
class DatasetConfig:
    """One data set: where its records and its released files are, and its cap."""

    path: Annotated[File, "The confidential file, or a folder of Parquet files."]
    cap: Annotated[CapText, "Epsilon that may ever be spent on the population, as text."]
    population: Annotated[
        StrictStr, "Whose records these are; the data set's name if left out."
    ] = ""
    delta: Annotated[StrictStr, "Beside the cap: answers then add up by zCDP."] = ""
    own_delta: Annotated[StrictStr, "For deltas that releases carry themselves."] = ""
    unit: Annotated[StrictStr, "What the cap protects as a whole."] = RECORD
    records_per_unit: Annotated[
        StrictInt, Field(ge=1, le=1_000_000), "Records of a unit at most."
    ] = 1
    relation: Annotated[PopulationRelation, "The relation that the cap is stated in."] = "replace"
    where: Annotated[
        StrictStr | None, "Only these records, as in a release's recipe: `PINCP > 0`."
    ] = None
    nonresponse: Annotated[
        Nonresponse | None,
        BeforeValidator(_nonresponse),
        'Weights are adjusted in each partition: { responded = "status == 1", classes = ["sex"] }.',
    ] = None
    codebook: Annotated[File | None, "The codebook; questions may use what it declares."] = None
    design: Annotated[
        Design, BeforeValidator(_design), 'A table, such as { weight = "w", strata = "field" }.'
    ] = Field(default_factory=Design)
    released: Annotated[tuple[File, ...], "The synthetic files that are public."] = ()
    combine: Annotated[Combine, "The combining rule of the synthetic files."] = "partial"
    kept: Annotated[
        ServedStore,
        "Where records are while it is served: `memory`, or `disk` for larger files; on Spark they "
        "stay there.",
    ] = "memory"
    workers: Annotated[StrictInt, Field(ge=1, le=64), "Processes that fit partitions."] = 2
    deadline: Annotated[
        float,
        Field(ge=0.01, le=60, strict=True),
        "CPU seconds of a partition whose estimate is fitted.",
    ] = 0.2


@dataclass(frozen=True, config=_CONFIG)
class ServerConfig:
    """The server's own settings and its data sets by public name."""

    ledger: Annotated[
        StrictStr, AfterValidator(_ledger), "A file, or a postgresql:// address with `head`."
    ]
    datasets: Annotated[
        Mapping[Annotated[str, Field(min_length=1, max_length=200)], DatasetConfig],
        Field(min_length=1),
    ]
    head: Annotated[
        File | None,
        "The file that keeps the ledger's head, best on another disk; `.head` beside a file.",
    ] = None
    witnesses: Annotated[
        tuple[Annotated[StrictStr, AfterValidator(_ledger)], ...],
        "Further places of heads that others keep: files, postgresql:// or https:// addresses.",
    ] = ()
    head_key: Annotated[
        File | None, "The private key that signs heads, on another disk than the ledger."
    ] = None
    second_steward_above: Annotated[
        Annotated[StrictStr, AfterValidator(_cap)] | None,
        "Epsilon that one steward can grant an analyst on a data set; more, and caps, take two.",
    ] = None
    engine: Annotated[
        Engine,
        BeforeValidator(_engine),
        "Where the records of all data sets are read and counted; its keys are below.",
    ] = Field(default_factory=Engine)
    host: Annotated[StrictStr, "Address to listen on."] = "127.0.0.1"
    port: Annotated[StrictInt, Field(ge=0, le=65535), "Port to listen on."] = 8080
    slot_seconds: Annotated[
        float,
        Field(ge=0.01, le=600, strict=True),
        "Every reply to a question comes at the end of such a slot.",
    ] = 1.0
    longest_seconds: Annotated[
        float,
        Field(ge=0.01, le=3600, strict=True),
        "What a question that is fitted in every partition may take; more is refused.",
    ] = 60.0
    places: Annotated[
        StrictInt, Field(ge=1, le=1000), "Questions that are computed within one slot."
    ] = 8
    questions_per_user: Annotated[
        StrictInt, Field(ge=1, le=1000), "Questions of a user that wait or are computed."
    ] = 2
    requests_per_minute: Annotated[
        StrictInt, Field(ge=1, le=1_000_000), "Requests of a user, on average."
    ] = 240
    session_minutes: Annotated[
        float, Field(ge=1, le=1440, strict=True), "How long a sign-in to the pages lasts."
    ] = 60.0
    connections: Annotated[
        StrictInt, Field(ge=1, le=100_000), "Connections at once; more are closed."
    ] = 500
    connections_per_address: Annotated[
        StrictInt, Field(ge=1, le=100_000), "Of these, from one address."
    ] = 50
    request_seconds: Annotated[
        float, Field(ge=0.1, le=600, strict=True), "Within these a request must have arrived whole."
    ] = 10.0
    idle_seconds: Annotated[
        StrictInt, Field(ge=1, le=600), "How long a connection may wait for its next request."
    ] = 5
    trusted_proxies: Annotated[
        tuple[StrictStr, ...],
        "Addresses whose X-Forwarded-For is believed; nobody's if left out.",
    ] = ()
    log: Annotated[
        File | None, "A file for the log, which is rotated; the standard error if left out."
    ] = None
    security_log: Annotated[
        File | None, "A file for who was let in or turned away, and exports; it is rotated too."
    ] = None
    metrics_port: Annotated[
        StrictInt | None,
        Field(ge=0, le=65535),
        "Port of this machine on which Prometheus reads counts; none if left out.",
    ] = None
    oidc_issuer: Annotated[
        StrictStr, "The address of an OpenID Connect provider, by which users can sign in."
    ] = ""
    oidc_client: Annotated[StrictStr, "The name under which the provider knows this server."] = ""
    oidc_secret: Annotated[File | None, "A file with the secret that goes with it."] = None
    oidc_claim: Annotated[
        StrictStr, "What the provider says of a user that is the name in the ledger."
    ] = "email"
    https: Annotated[StrictBool, "Behind a proxy that speaks TLS: cookies are then Secure."] = False
    estimators: Annotated[tuple[OwnClass, ...], "Of one's own: `mine.py:Mine`."] = ()
    measures: Annotated[tuple[OwnClass, ...], "Of one's own: `mine.py:Mine`."] = ()

    @property
    def limit(self) -> int | None:
        """What one steward can grant, in millionths; None where one can do everything."""
        above = self.second_steward_above
        return None if above is None else parse_epsilon(above)

    @property
    def location(self) -> tuple[str, Path | None, tuple[str, ...], Path | None]:
        """All that it takes to open the ledger."""
        return self.ledger, self.head, self.witnesses, self.head_key


def declaration(name: str, config: DatasetConfig) -> Declaration:
    """The population of a data set, as the steward declares it."""
    return Declaration(
        config.population or name, config.cap, config.delta, config.own_delta, config.unit,
        config.records_per_unit, config.relation,
    )  # fmt: skip


def read_config(path: str | Path) -> ServerConfig:
    """The configuration in a TOML file, checked whole before anything is opened."""
    path = Path(path)
    text = read_toml_text(path, "configuration")
    document = parse_toml(text, path.name)
    try:
        return TypeAdapter(ServerConfig).validate_python(document, context={"folder": path.parent})
    except ValidationError as error:
        lines = lines_of(text)
        mistakes = [_mistake(detail, lines) for detail in error.errors(include_url=False)]
        raise TomlRefused(path.name, mistakes) from None


def _mistake(detail: ErrorDetails, lines: Mapping[Location, int]) -> Mistake:
    location = tuple(str(part) for part in detail["loc"] if not isinstance(part, int))
    return Mistake(line_at(lines, location), str(_in_our_words(detail, location)))


def _in_our_words(mistake: ErrorDetails, location: Location) -> Refused:
    """One of pydantic's mistakes in a sentence that names the setting."""
    kind, setting = mistake["type"], ".".join(location)
    inside = location[:2] if location[:1] == ("datasets",) and len(location) > 1 else ()
    table = f"[{'.'.join(inside)}]" if inside else "The configuration"
    match kind:
        case "value_error":
            return _at(mistake["ctx"]["error"], setting)
        case "unexpected_keyword_argument":
            holder = DatasetConfig if inside else ServerConfig
            what = f"setting of {table}" if inside else "setting"
            names = [field.name for field in fields(holder)]
            return UnknownName(f"{what} in the configuration", location[-1], names)
        case "missing" if setting == "ledger":
            return Refused('The configuration names no ledger; add ledger = "ledger.db".')
        case "missing" if inside:
            return Refused(f"{table} lacks `{location[-1]}`.")
        case "literal_error":
            hint = get_type_hints(DatasetConfig)[location[-1]]
            return UnknownName(f"`{setting}`", str(mistake["input"]), get_args(hint))
        case "dataclass_type":
            return Refused(f"{table} in the configuration must be a table.")
        case "tuple_type":
            return Refused(f"`{setting}` in the configuration must be a list of files.")
        case "string_too_short" | "string_too_long":
            return Refused("The name of a data set has 1 to 200 characters.")
    if location == ("datasets",):
        return Refused("The configuration names no data set; add a table [datasets.NAME].")
    return Refused(f"`{setting}` in the configuration must be {_wanted(location[-1], mistake)}.")


def _wanted(name: str, mistake: ErrorDetails) -> str:
    kind = mistake["type"]
    if kind in ("greater_than_equal", "less_than_equal"):
        owners = (ServerConfig, DatasetConfig)
        schemas = [TypeAdapter(owner).json_schema()["properties"] for owner in owners]
        limits = next(schema[name] for schema in schemas if name in schema)
        return f"from {limits['minimum']:g} to {limits['maximum']:g}"
    return {"string_type": "text in quotes", "bool_type": "true or false"}.get(kind, "a number")


def _at(error: Exception, setting: str) -> Refused:
    if isinstance(error, UnknownName):
        return error
    return Refused(str(error).replace(_SETTING, setting))
