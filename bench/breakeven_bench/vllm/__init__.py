"""Real vLLM: what is known of it, and the CPU build of it that runs beside the suite.

`facts`, `machines` and `memory` are what the launch files in `deploy/vllm` are rendered from (`launch_files`). `host`
says where the CPU build lives and how one engine is started; `install` is the list of steps that bring it, `model`
makes its model; `pair` starts two engines and the router in front. The commands carry out, the others decide.
"""
