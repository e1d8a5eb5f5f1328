"""One request while it is generated: takes what engine steps emit, writes events or the whole answer to its client.

Knows HTTP only as a `Sink`. A client that does not read fast enough gets fewer, larger events, as from vLLM, whose
output queue merges what is not yet sent: what waits here is a count of tokens, so a slow client costs no memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from breakeven_bench.engine.answers import Answer
from breakeven_bench.engine.errors import GENERATION_FAILED, EngineError
from breakeven_bench.engine.events import DONE, Choice, Envelope, StreamEvents, Usage, answer_body, error_event
from breakeven_bench.engine.faults import FaultKind, FaultRequest
from breakeven_bench.engine.intake import Order
from breakeven_bench.engine.scheduler import Emission, Sequence


class Sink(Protocol):
    """Where the answer goes: one response of one connection."""

    @property
    def writable(self) -> bool:
        """Whether the client keeps up. When it does so again, the owner calls `Generation.resume`."""

    def start_stream(self) -> None:
        """Send the head of an event stream."""

    def write(self, events: bytes) -> None:
        """Send a part of the stream."""

    def end_stream(self, events: bytes) -> None:
        """Send the last part."""

    def answer(self, status: int, body: bytes) -> None:
        """Send a whole JSON answer."""

    def cut(self) -> None:
        """Break the connection."""


MetricsOf = Callable[[Sequence, bool], dict[str, Any] | None]
"""The `metrics` object of a finished sequence, and whether a stop string ended it."""


@dataclass(slots=True)
class _Progress:
    """One choice: how many of its tokens exist, and how many of those were written."""

    index: int
    answer: Answer
    prompt_tokens: int
    generated: int = 0
    written: int = 0

    @property
    def ended(self) -> bool:
        """Whether its last token exists."""
        return self.generated >= self.answer.tokens


class Generation:
    """One request in the engine. `fault` is what is to go wrong with its stream."""

    def __init__(
        self, order: Order, envelope: Envelope, sink: Sink, metrics_of: MetricsOf, fault: FaultRequest | None = None
    ) -> None:
        self.order = order
        self._envelope = envelope
        self._sink = sink
        self._metrics_of = metrics_of
        self._fault = fault
        self._events_written = 0
        self._choices = {
            choice.sequence: _Progress(index, choice.answer, choice.sequence.prompt_tokens)
            for index, choice in enumerate(order.choices)
        }
        self._open = len(self._choices)
        self._events = StreamEvents(envelope, ends_with_usage=order.usage)

    @property
    def sequences(self) -> list[Sequence]:
        """What the scheduler is to run."""
        return [choice.sequence for choice in self.order.choices]

    def siblings(self, sequence: Sequence) -> list[Sequence]:
        """The sequences of the same prompt, itself among them."""
        count = self.order.choices_per_prompt
        first = self._choices[sequence].index // count * count
        return [choice.sequence for choice in self.order.choices[first : first + count]]

    def finish_reason(self, sequence: Sequence) -> str:
        """How the answer of a sequence ends."""
        return self._choices[sequence].answer.finish_reason

    def start(self) -> None:
        """The request is queued. Like vLLM, a stream has its head at once, long before its first token."""
        if self.order.stream:
            self._sink.start_stream()

    def emit(self, emission: Emission) -> bool:
        """Take what a step gave to one of the sequences; False: the answer broke off and wants no more."""
        choice = self._choices[emission.sequence]
        choice.generated += emission.tokens
        if emission.finished:
            self._open -= 1
        if not self.order.stream:
            if not self._open:
                self._answer()
            return True
        return self._write(choice) if self._sink.writable and self._is_due(choice) else True

    def _is_due(self, choice: _Progress) -> bool:
        """Whether an event is to be written now (vLLM 0.33.0 `v1/engine/output_processor.py`, `stream_interval`)."""
        return choice.ended or not choice.written or choice.generated - choice.written >= self.order.stream_interval

    def resume(self) -> bool:
        """The client reads again: write what has come due meanwhile; False as in `emit`."""
        behind = [choice for choice in self._choices.values() if choice.generated > choice.written]
        return all(self._write(choice) for choice in behind if self._is_due(choice))

    def _write(self, choice: _Progress) -> bool:
        """One event of all tokens not yet written, and whatever follows from its being the last."""
        if self._fault is not None and self._events_written >= self._fault.after_events:
            self._break_off(self._fault)
            return False
        parts = [] if choice.written else self._opening()
        count = choice.generated - choice.written
        text = choice.answer.json_text(choice.written, count)
        choice.written = choice.generated
        self._events_written += 1
        if not choice.ended:
            parts.append(self._events.tokens(choice.index, text, self._usage_so_far(choice)))
            self._sink.write(b"".join(parts))
            return True
        end = Choice("", choice.answer.finish_reason, choice.answer.stop_reason)
        parts.append(self._events.last_tokens(choice.index, text, self._usage_so_far(choice), end))
        if any(other.written < other.answer.tokens for other in self._choices.values()):
            self._sink.write(b"".join(parts))
        else:
            self._sink.end_stream(b"".join((*parts, self._closing())))
        return True

    def _opening(self) -> list[bytes]:
        """The role events of all choices, once, before anything else."""
        if self._events_written:
            return []
        return [
            self._events.opening(choice.index, Usage(choice.prompt_tokens, 0) if self.order.continuous_usage else None)
            for choice in self._choices.values()
        ]

    def _usage_so_far(self, choice: _Progress) -> Usage | None:
        """What the choice has used, where the client wants it with every event."""
        return Usage(choice.prompt_tokens, choice.written) if self.order.continuous_usage else None

    def _closing(self) -> bytes:
        if not self.order.usage:
            return DONE
        return self._events.closing(self._usage(), self._metrics()) + DONE

    def _answer(self) -> None:
        choices = [
            Choice(choice.answer.text(0, choice.generated), choice.answer.finish_reason, choice.answer.stop_reason)
            for choice in self._choices.values()
        ]
        self._sink.answer(200, answer_body(self._envelope, choices, self._usage(), self._metrics()))

    def _usage(self) -> Usage:
        return Usage(self.order.prompt_tokens, sum(choice.generated for choice in self._choices.values()))

    def _metrics(self) -> dict[str, Any] | None:
        """Only for a single sequence, as in vLLM."""
        if len(self.order.choices) != 1:
            return None
        (choice,) = self.order.choices
        return self._metrics_of(choice.sequence, choice.answer.stop_reason is not None)

    def fail(self, error: EngineError) -> None:
        """End with an error: a stream, whose head has gone out, with an event and, like vLLM's, with [DONE]."""
        if self.order.stream:
            self._sink.end_stream(error_event(error) + DONE)
        else:
            self._sink.answer(error.status, error.body())

    def _break_off(self, fault: FaultRequest) -> None:
        if fault.fault is FaultKind.ERROR_EVENT:
            self.fail(GENERATION_FAILED)
        else:
            self._sink.cut()
