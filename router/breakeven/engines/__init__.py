"""What the router must know about an engine's own dialect: its metrics page and what its health answers mean.

One file per engine, pure, checked against recorded pages in `tests/pages/`. Today: `vllm`.
"""
