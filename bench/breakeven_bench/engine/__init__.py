"""A simulated vLLM: real HTTP, real scheduling, modelled step times, no GPU and no model.

A request travels through `connection` (HTTP/1.1) to `application` (paths), is read by `protocol` and `sampling`
(vLLM's rules), and `intake` decides what it will generate: `prompts` counts it, `answers` says what it gets,
`acceptance` how its drafts fare. `core` runs the engine against the clock: `scheduler` forms and completes steps,
`hardware` and `speculation` say how long one takes, `pacing` when it is due. What steps emit comes back through
`generation` and `events` as bytes of the answer, and through `metrics` (`families`, `request_metrics`) as numbers.
`faults` makes things go wrong on demand; `serve` is the process, `options` what it was started with, `errors` what it
refuses.

Only `connection` and `serve` do I/O, only `serve` runs an event loop, only `clock` asks what time it is; everything
else takes time and chance as arguments.
"""
