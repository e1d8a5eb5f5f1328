"""A request body as routing sees it: an ApiError or a view, and the view is what the engine's own parser says.

The first byte chooses the endpoint and how the rest is to be read; one request in two asks for an alias.
"""

import json
from typing import Any

from breakeven.body import ModelTable, rename_model, view
from breakeven.endpoints import BodyKind, EndpointTable
from breakeven.errors import ApiError
from breakeven.values import finite_number, truth, whole_number

ENDPOINTS = tuple(EndpointTable(("/v1/extra",)))
TYPES = ("multipart/form-data; boundary=b", 'multipart/form-data; boundary="a b"', "multipart/form-data", "")
MODELS = ModelTable(aliases={"fast": "org/real-model", "": "empty", "\ud83d": "lone"})


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    first, body = data[:1] or b"\x00", data[1:]
    endpoint = ENDPOINTS[first[0] % len(ENDPOINTS)]
    content_type = TYPES[first[0] // len(ENDPOINTS) % len(TYPES)]
    try:
        viewed = view(endpoint, body, content_type, MODELS, 0.5)
        renamed = body
        if viewed.alias is not None and viewed.request.model is not None:
            renamed = rename_model(endpoint, body, content_type, viewed.request.model)
    except ApiError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert 400 <= refusal.status < 500
        assert refusal.body().isascii()
        return
    if endpoint.body is BodyKind.JSON:
        document = parsed(body)
        assert isinstance(document, dict), "no engine could read it"
        agrees(document, viewed.request, endpoint.ignored_fields)
        if viewed.alias is not None:
            assert document["model"] == viewed.alias
            document["model"] = viewed.request.model
            assert same(parsed(renamed), document), "more than the model was renamed"
    elif viewed.alias is not None:
        again = view(endpoint, renamed, content_type, MODELS, 0.5)
        assert again.request.model == viewed.request.model


def agrees(document: dict[str, Any], seen: Any, ignored: tuple[str, ...]) -> None:
    """The values that decide are those of the document."""
    model = document.get("model")
    if isinstance(model, str):
        assert seen.model == MODELS.aliases.get(model, model)
    named = finite_number(document.get("temperature"))
    assert seen.temperature_defaulted == (named is None)
    assert named is None or seen.temperature == named
    assert seen.stream == truth(document.get("stream"))
    top_k = whole_number(document.get("top_k"))
    assert seen.top_k == max(0, top_k or 0)
    if "logit_bias" not in ignored:
        bias = document.get("logit_bias")
        assert seen.has_logit_bias == (isinstance(bias, dict) and bool(bias))


def parsed(body: bytes) -> Any:
    """The document as the standard library reads it."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def same(one: Any, other: Any) -> bool:
    """Equality that holds of NaN too, and minds the order of members."""
    return json.dumps(one) == json.dumps(other)
