"""What of a request goes to an engine, whichever it will be."""

from msgspec import Struct

from breakeven.headers import Headers
from breakeven.lessons import Lesson


class Shipment(Struct, frozen=True, kw_only=True):
    """What goes to an engine.

    `body` is out of any content coding (`decoded` tells that there was one); `coded_body` is what the client sent, for
    engines that decode it themselves. `alias` is the client's name for the model, where it is not the engine's.
    `lines` are headers of every answer; `answers_cors`: those for browsers are among them. `lesson`: what is noted of
    the request where a policy learns.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    coded_body: bytes | None
    decoded: bool
    alias: str | None
    must_end: bool
    lines: bytes
    answers_cors: bool = False
    lesson: Lesson | None = None
