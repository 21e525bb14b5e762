"""Request bodies, made from the fields of the request dataclasses: one place says what an option means, for CLI, REST and docs.

Types are strict: `"7"` is no number, `true` is not 1, an unknown field is refused with the nearest known one. Bounds and choices
are checked by the dataclass's own rules, so that both doors say the same.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from planner.api.problems import MOST_ERRORS, FieldError, invalid
from planner.recommend.as_of import PATTERN, AsOf, as_of
from planner.recommend.errors import BadRequest
from planner.recommend.request import Option, RecommendRequest, check_field
from planner.recommend.stages import request_of

LONGEST_TEXT = 200
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"

MODEL_HELP = "name or alias of GET /v1/models; this server reads no files: give an architecture of your own in `config`"
CONFIG_HELP = "Hugging Face config.json of the model, inline, instead of `model` and `params`"

Text = Annotated[str, StringConstraints(strict=True, max_length=LONGEST_TEXT, pattern=PRINTABLE)]


def _as_of(value: object) -> AsOf:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "must be text")
    try:
        return as_of(value)
    except ValueError as e:
        raise PydanticCustomError("as_of", "{why}", {"why": str(e)}) from None


PLAIN_TYPES: Mapping[Any, Any] = {
    str: Text,
    int: Annotated[int, Field(strict=True)],
    float: Annotated[float, Field(strict=True, allow_inf_nan=False)],
    bool: Annotated[bool, Field(strict=True)],
    AsOf: Annotated[Any, PlainValidator(_as_of), WithJsonSchema({"type": "string", "pattern": f"^({PATTERN})$"})],
}

Request = TypeVar("Request")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(Generic[Request]):
    """A body that was accepted: the request, and the inline model config when one was given."""

    request: Request
    config: dict[str, Any] | None


class RequestSchema(Generic[Request]):
    """What the body of one request class may be."""

    def __init__(self, request_class: type[Request]) -> None:
        self.request_class = request_class
        self.options: dict[str, Option] = {f.name: f.metadata["option"] for f in dataclasses.fields(request_class)}  # type: ignore[arg-type]  # a dataclass
        self.model = _body_model(request_class, self.options)
        self._config_field = "config" not in self.options

    def document(self) -> dict[str, Any]:
        """Return the JSON Schema of the body."""
        schema = self.model.model_json_schema()
        for field in schema["properties"].values():
            field.pop("title", None)
        return schema

    def accept(
        self, body: Mapping[str, Any], *, config_name: typing.Callable[[Mapping[str, Any]], str]
    ) -> Accepted[Request]:
        """Return the request that a body asks for, or raise one problem that names every field that is wrong.

        `config_name` names the model of an inline config; the request's `model` is that name.
        """
        try:
            parsed = self.model.model_validate(dict(body))
        except ValidationError as e:
            raise invalid(self._errors(e, body)) from None
        given = {name: getattr(parsed, name) for name in self.model.model_fields if name in parsed.model_fields_set}
        config = given.pop("config", None) if self._config_field else None
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        wrong = [error for name, value in values.items() for error in self._check(name, value)]
        if self._config_field:
            wrong += _one_model(values, config)
        if config is not None:
            values["model"] = config_name(config)
        if wrong:
            raise invalid(wrong)
        request: Any = request_of(values) if self.request_class is RecommendRequest else self.request_class(**values)
        return Accepted(request=request, config=config)

    def _check(self, name: str, value: Any) -> list[FieldError]:
        try:
            check_field(name, value, self.options[name])
        except BadRequest as e:
            return [FieldError(field=e.field, value=e.value, why=e.why, expected=e.expected)]
        return []

    def _errors(self, error: ValidationError, body: Mapping[str, Any]) -> list[FieldError]:
        found: list[FieldError] = []
        for each in error.errors(include_url=False, include_context=True):
            name = str(each["loc"][0]) if each["loc"] else "body"
            place = name + "".join(f"[{n}]" for n in each["loc"][1:] if isinstance(n, int))
            if each["type"] == "extra_forbidden":
                near = (
                    difflib.get_close_matches(
                        name[:LONGEST_TEXT].lower().replace("-", "_"), self.model.model_fields, n=2, cutoff=0.6
                    )
                    if len(found) < MOST_ERRORS  # the others are counted, not shown
                    else []
                )
                found.append(
                    FieldError(
                        field=name[:LONGEST_TEXT],
                        value=body.get(name),
                        why="is not a field of this request",
                        expected=f"did you mean {' or '.join(near)}?" if near else "",
                    )
                )
            else:
                found.append(
                    FieldError(
                        field=place,
                        value=each["input"],
                        why=_why(each["type"], str(each["msg"]), each.get("ctx", {})),
                        expected=self._example(name),
                    )
                )
        return found

    def _example(self, name: str) -> str:
        option = self.options.get(name)
        if option is None:
            return ""
        if option.choices:
            return "one of " + ", ".join(option.choices)
        return "" if option.example is None else f"for example {json.dumps(option.example)}"


def _one_model(values: Mapping[str, Any], config: object) -> list[FieldError]:
    """Return what is wrong unless exactly one of model, params and config is given."""
    given = [name for name in ("model", "params") if values.get(name) is not None] + (
        [] if config is None else ["config"]
    )
    if len(given) == 1:
        return []
    why = f"excludes {' and '.join(given[:-1])}" if given else "is missing"
    field = given[-1] if given else "model"
    return [
        FieldError(
            field=field, value=values.get(field), why=why, expected="give exactly one of model, params and config"
        )
    ]


WHY = {
    "string_type": "must be text",
    "string_too_long": f"is longer than {LONGEST_TEXT} characters",
    "string_pattern_mismatch": "has control characters",
    "string_unicode": "is not proper Unicode text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
}


def _why(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind == "too_long":
        return f"has more than {context['max_length']} entries"
    return WHY.get(kind, message[:1].lower() + message[1:])


def _body_model(request_class: type, options: Mapping[str, Option]) -> type[BaseModel]:
    hints = typing.get_type_hints(request_class)
    fields: dict[str, Any] = {}
    for f in dataclasses.fields(request_class):
        fields[f.name] = (
            _body_type(hints[f.name], options[f.name]),
            Field(
                default=_body_default(f.default),
                description=_description(f.name, options[f.name]),
                json_schema_extra=_keywords(hints[f.name], options[f.name]),
            ),
        )
    if "model" in fields and "config" not in fields:
        fields["config"] = (dict[str, Any] | None, Field(default=None, description=CONFIG_HELP))
    return create_model(
        request_class.__name__, __config__=ConfigDict(extra="forbid"), __doc__=request_class.__doc__, **fields
    )


def _body_type(hint: Any, what: Option) -> Any:
    inner, optional, repeatable = _parts(hint)
    plain = PLAIN_TYPES[inner]
    body: Any = (
        Annotated[types.GenericAlias(list, (plain,)), Field(strict=True, max_length=what.longest)]
        if repeatable
        else plain
    )
    return body | None if optional else body


def _parts(hint: Any) -> tuple[Any, bool, bool]:
    """Return the plain type of a hint, whether None is allowed, and whether it is a tuple of them."""
    optional = isinstance(hint, types.UnionType) and types.NoneType in hint.__args__
    if optional:
        hint = functools.reduce(operator.or_, (arm for arm in hint.__args__ if arm is not types.NoneType))
    repeatable = typing.get_origin(hint) is tuple
    return (typing.get_args(hint)[0] if repeatable else hint), optional, repeatable


def _body_default(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _description(name: str, option: Option) -> str:
    unit = f" ({option.unit})" if option.unit else ""
    return (MODEL_HELP if name == "model" else option.help) + unit


def _keywords(hint: Any, option: Option) -> Any:
    """Return a function that adds an option's bounds, choices and example to the JSON Schema of its field."""
    inner, optional, repeatable = _parts(hint)
    keywords: dict[str, Any] = {}
    if option.choices:
        keywords["enum"] = [inner(choice) for choice in option.choices]
    if option.minimum is not None:
        keywords["exclusiveMinimum" if option.exclusive_minimum else "minimum"] = option.minimum
    if option.maximum is not None:
        keywords["maximum"] = option.maximum

    def add(schema: dict[str, Any]) -> None:
        target = (
            next((arm for arm in schema["anyOf"] if arm.get("type") != "null"), schema)
            if optional and "anyOf" in schema
            else schema
        )
        one = target["items"] if repeatable else target
        if option.choices:  # the choices say all there is to say about length and characters
            one.pop("maxLength", None)
            one.pop("pattern", None)
        one.update(keywords)
        if option.example is not None:
            schema["examples"] = [option.example]

    return add


def fields_in_groups(options: Mapping[str, Option]) -> Mapping[str, Sequence[str]]:
    """Return the names of the fields by the group they are documented in, in order."""
    groups: dict[str, list[str]] = {}
    for name, option in options.items():
        groups.setdefault(option.group, []).append(name)
    return groups
