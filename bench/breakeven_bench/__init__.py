"""The suite: engines without a GPU, load, and what they show together. It meets the router over HTTP only.

`__main__` is the command line and the table of its subcommands. `engine_command` starts one simulated vLLM
(`engine`); `load_command` sends a workload and records what each request saw; `demo` runs engines, router and load
together and prints what routing gained and where it lost.
"""
