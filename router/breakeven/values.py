"""What an engine makes of one parameter of a request: `"1.5"` is 1.5, `true` is 1.0, `"yes"` is True.

The engines read their requests with pydantic in its lax mode (vLLM 0.33.0: `temperature: float | None` and so on), so
pydantic itself answers here, and a router that is upgraded with its engines stays right. A value that it refuses is
None: the engine will answer 400, and only the engine should word that.
"""

from math import isfinite

from pydantic import TypeAdapter, ValidationError

_FLOAT = TypeAdapter(float)
_INT = TypeAdapter(int)
_BOOL = TypeAdapter(bool)


def finite_number(value: object) -> float | None:
    """The float an engine would sample with; None for null, for what is no number, and for NaN and the infinities."""
    if type(value) is not float:  # nearly every request: one type test instead of a call of pydantic (0.3 µs)
        if value is None:
            return None
        try:
            value = _FLOAT.validate_python(value)
        except ValidationError:
            return None
    return value if isfinite(value) else None


def whole_number(value: object) -> int | None:
    """The int an engine would read; None for null and for what is no whole number."""
    if value is None or type(value) is int:
        return value
    try:
        return _INT.validate_python(value)
    except ValidationError:
        return None


def truth(value: object) -> bool:
    """Whether an engine would take the value as true; what it refuses (2, "maybe") and null are not."""
    if value is None or type(value) is bool:
        return value is True
    try:
        return _BOOL.validate_python(value)
    except ValidationError:
        return False
