"""What the OpenAPI document says beyond the routes themselves: bodies, parameters, examples, and the problem document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from planner import __version__
from planner.api.problems import KINDS, MEDIA_TYPE
from planner.api.queries import Parameter
from planner.api.shapes import SHAPES, shape_documents

DESCRIPTION = """Which cloud GPU instance, how many, in what layout, at what cost: sized, priced and explained.

The same request by command line (`planner recommend … --format json`) gives the same bytes. Money is a decimal string in USD; a figure
that does not apply is `null`, never 0. Errors are problem documents (RFC 9457); "nothing fits" is an answer with an empty ranking.
"""

SMALL_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

RECOMMENDATION_EXAMPLES: Mapping[str, dict[str, Any]] = {
    "inference": {"summary": "Serve a 7B model", "value": {"model": "7b", "mode": "inference"}},
    "latency": {
        "summary": "Serve 20 requests a second within latency limits, in two regions",
        "value": {
            "model": "8b",
            "requests_per_s": 20,
            "input_tokens": 2000,
            "output_tokens": 300,
            "max_ttft_ms": 1000,
            "max_tpot_ms": 50,
            "region": ["us-east-1", "eu-west-1"],
        },
    },
    "fine_tuning": {
        "summary": "Fine-tune with LoRA",
        "value": {"model": "7b", "mode": "training", "method": "lora", "dataset_tokens": 50e6, "epochs": 3},
    },
    "vision": {
        "summary": "Train ResNet-50 on ImageNet",
        "value": {"model": "resnet50", "mode": "training", "dataset_size": 1281167, "epochs": 90},
    },
    "parameters_only": {"summary": "A model without a config", "value": {"params": 6.7e9, "purchase": ["on_demand"]}},
    "own_config": {"summary": "An architecture of your own", "value": {"config": SMALL_CONFIG, "mode": "inference"}},
}
ESTIMATE_EXAMPLES: Mapping[str, dict[str, Any]] = {
    "instance": {"summary": "A 7B model on one g5.xlarge", "value": {"model": "7b", "instance": "g5.xlarge"}},
    "accelerator": {
        "summary": "A 70B model on four H100",
        "value": {"model": "70b", "accelerator": "H100", "count": 4},
    },
    "scaling": {
        "summary": "Training of an 8B model on 1 to 16 instances",
        "value": {"model": "8b", "mode": "training", "instance": "p5.48xlarge", "scaling": "1..16"},
    },
}


def _body(schema: str, examples: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": dict(examples)}
            },
        }
    }


POST_RECOMMENDATION = _body("RecommendRequest", RECOMMENDATION_EXAMPLES)
POST_ESTIMATE = _body("EstimateRequest", ESTIMATE_EXAMPLES)
GET_RECOMMENDATION = {
    "parameters": [
        {
            "name": "recommendation_id",
            "in": "path",
            "required": True,
            "description": "the `id` of an answer",
            "schema": {"type": "string", "pattern": "^[0-9A-Za-z_-]{8,128}$"},
        }
    ]
}
GET_MODEL = {
    "parameters": [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "description": "name, alias or repository, case aside",
            "schema": {"type": "string", "maxLength": 200},
            "example": "7b",
        }
    ]
}

WORDS = {
    304: "Unchanged since the `ETag` in `If-None-Match`",
    400: "The body is no JSON object",
    404: "Not here",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    422: "The request asks for something that cannot be; `errors` names each field",
    503: "Not now: busy, too slow, or prices or database unavailable; `type` says which",
}


def query(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the OpenAPI description of query parameters."""
    return {"parameters": [parameter.to_openapi(name) for name, parameter in parameters.items()]}


def responses(answer: str, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation: its answer, and problems by status."""
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": SHAPES[answer].description,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{SHAPES[answer].name}"}}},
        }
    }
    for status in statuses:
        described[status] = {"description": WORDS[status]}
        if status != 304:
            described[status]["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return described


def problem_schema() -> dict[str, Any]:
    """Return the JSON Schema of a problem document."""
    error = {
        "type": "object",
        "required": ["field", "value", "why", "expected"],
        "properties": {
            "field": {"type": "string", "description": "name of the field or parameter"},
            "value": {"description": "what was given, cut when long"},
            "why": {"type": "string", "description": "why it cannot be"},
            "expected": {"type": ["string", "null"], "description": "what would be right"},
        },
    }
    return {
        "type": "object",
        "description": "RFC 9457 problem document",
        "required": ["type", "title", "status", "detail", "instance"],
        "properties": {
            "type": {
                "type": "string",
                "format": "uri-reference",
                "enum": [kind.uri for kind in KINDS.values()],
                "description": "which sort of problem; /docs/problems explains each",
            },
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "this case, in one line"},
            "instance": {"type": "string", "description": "the path that was asked for"},
            "errors": {"type": "array", "items": error},
            "incident": {"type": "string", "description": "of a 500: find it in the server's log"},
            "checks": {
                "type": "array",
                "items": {"type": "object"},
                "description": "of /readyz: each part and whether it is fine",
            },
        },
    }


def document(app: FastAPI, bodies: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI document of the application."""
    made = get_openapi(
        title="planner",
        version=__version__,
        summary="Cloud GPU instances: sized, priced and explained",
        description=DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(bodies)
    schemas.update(shape_documents())
    schemas["Problem"] = problem_schema()
    return made
