"""The command line: `breakeven serve`, `breakeven check`, `breakeven explain`, `breakeven table`.

Exit codes: 0 all is well, 1 something failed or is wrong, 2 the command or the configuration cannot be used.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from math import isfinite, nan
from pathlib import Path

from breakeven.body import ModelTable
from breakeven.check_command import check
from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.endpoints import EndpointTable
from breakeven.errors import shown
from breakeven.explain_command import explain_offline
from breakeven.flags import Parser, add_setting_flags, given_settings
from breakeven.serving import run
from breakeven.supervisor import Supervisor
from breakeven.table_command import show_schema, show_tables
from breakeven.wiring import Router, StartError
from breakeven_policies.policy import Policy
from breakeven_policies.registry import build_policy
from breakeven_policies.request import SamplingDefaults

ABOUT = "An OpenAI-compatible router in front of vLLM pools with and without speculative decoding."

MAIN_EXAMPLES = """\
examples:
  breakeven serve --baseline http://10.0.0.1:8000 --speculative http://10.0.0.2:8000
  breakeven check --config breakeven.yaml --probe
  breakeven explain --fleet fleet.json request.json
"""

SERVE_EXAMPLES = """\
Requests with temperature above 1.0 go to the baseline engines, all others to the speculative ones:

  breakeven serve --baseline http://10.0.0.1:8000 --speculative http://10.0.0.2:8000

Several engines in a pool, another threshold, another port:

  breakeven serve --baseline http://a:8000,http://b:8000 --speculative http://c:8000 --threshold 0.8 --port 80

More cores, one router: four processes serve behind one port and share what they know and count:

  breakeven serve --workers 4 --baseline http://10.0.0.1:8000 --speculative http://10.0.0.2:8000

Any number of pools of any kind, from a file (every flag is also a key of the file, with _ for -):

  breakeven serve --config breakeven.yaml

  pools:
    - name: plain
      kind: plain
      backends: [http://10.0.0.1:8000]
    - name: eagle
      kind: speculative
      method: eagle3
      speculative_tokens: 3
      backends: [http://10.0.0.2:8000, {name: big-one, url: http://10.0.0.3:8000}]
  models:
    llama-70b: {defaults: {temperature: 0.6, top_p: 0.9}}

Every setting is also an environment variable: BREAKEVEN_PORT=80, BREAKEVEN_BASELINE=http://a:8000,http://b:8000.
A flag wins over the environment, the environment over the file.
"""

CHECK_EXAMPLES = """\
examples:
  breakeven check --config breakeven.yaml            is the configuration sound?
  breakeven check --config breakeven.yaml --probe    and do the engines answer as it says?
"""

EXPLAIN_EXAMPLES = """\
examples:
  curl -s http://127.0.0.1:8081/fleet > fleet.json
  breakeven explain --fleet fleet.json request.json
  echo '{"model": "m", "messages": [], "temperature": 1.2}' | breakeven explain --fleet fleet.json -
  breakeven explain --fleet fleet.json --policy least_loaded --policy threshold:0.8 request.json
"""

TABLE_EXAMPLES = """\
examples:
  breakeven table                             the tables that ship
  breakeven table llama-70b.json tables/      are they sound, what do they say, what are their hashes?
  breakeven table --schema > table.schema.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        code: int = parsed.command(parsed)
    except ConfigError as error:
        for line in error.lines:
            complain(line)
        return 2
    except StartError as error:
        complain(str(error))
        return 1
    return code


def serve_command(arguments: argparse.Namespace) -> int:
    """`breakeven serve`."""
    given = given_settings(arguments)
    settings = build_settings(Settings, given)
    run(settings, lambda: build_settings(Settings, given), Supervisor if settings.workers > 1 else Router)
    return 0


def check_command(arguments: argparse.Namespace) -> int:
    """`breakeven check`."""
    return check(build_settings(Settings, given_settings(arguments)), probe=arguments.probe, say=print)


def table_command(arguments: argparse.Namespace) -> int:
    """`breakeven table`."""
    if arguments.schema:
        return show_schema(print)
    return show_tables(arguments.files, as_json=arguments.json, say=print)


def explain_command(arguments: argparse.Namespace) -> int:
    """`breakeven explain`: policy, aliases and defaults come from the file, where one is given."""
    if "config" in arguments:
        settings = build_settings(Settings, given_settings(arguments))
        models, threshold, specs = settings.model_table(), settings.threshold, arguments.policies or [settings.policy]
    else:
        models = ModelTable(aliases={}, defaults={}, fallback=SamplingDefaults())
        threshold, specs = threshold_of_flags(arguments), arguments.policies or ["threshold"]
    policies = policies_named(specs, threshold)
    return explain_offline(
        arguments.body, arguments.fleet, arguments.endpoint, policies, models, as_json=arguments.json, say=print
    )


def threshold_of_flags(arguments: argparse.Namespace) -> float:
    """The threshold where no file is given: there are no pools then, so the settings as a whole cannot be judged."""
    threshold = getattr(arguments, "threshold", "1.0")
    try:
        temperature = float(threshold)
    except ValueError:
        temperature = nan
    if not (isfinite(temperature) and temperature >= 0):
        raise ConfigError(f"threshold: expected a finite number, at least 0, got {shown(threshold)} (from --threshold)")
    return temperature


def policies_named(specs: Sequence[str], threshold: float) -> list[Policy]:
    """The policies to explain by; ConfigError names the one that there is not."""
    try:
        return [build_policy(spec, threshold) for spec in specs]
    except ValueError as error:
        raise ConfigError(f"policy: {error} (from --policy)") from None


def build_parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = Parser("breakeven", description=ABOUT, epilog=MAIN_EXAMPLES, formatter_class=shape, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"breakeven {version('breakeven')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, summary: str, examples: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=summary, description=summary, epilog=examples, formatter_class=shape, allow_abbrev=False
        )

    serving = add("serve", "run the router", SERVE_EXAMPLES)
    add_setting_flags(serving)
    serving.set_defaults(command=serve_command)

    checking = add("check", "check the configuration, and the engines it names", CHECK_EXAMPLES)
    checking.add_argument("--probe", action="store_true", help="ask the engines too")
    add_setting_flags(checking)
    checking.set_defaults(command=check_command)

    showing = add("table", "check measured tables and show what they say", TABLE_EXAMPLES)
    showing.add_argument("files", nargs="*", type=Path, help="files, or folders of them; none: those that ship")
    showing.add_argument("--json", action="store_true", help="print each as one line of JSON")
    showing.add_argument("--schema", action="store_true", help="print the JSON Schema of a table instead")
    showing.set_defaults(command=table_command)

    names = dict.fromkeys(endpoint.name for endpoint in EndpointTable())
    explaining = add("explain", "say what would be decided for a request, and why", EXPLAIN_EXAMPLES)
    explaining.add_argument("body", help="file with the JSON body of a request; - for standard input")
    explaining.add_argument("--fleet", required=True, metavar="FILE", help="what GET /fleet answered")
    explaining.add_argument(
        "--endpoint",
        default="chat.completions",
        help=f"the endpoint it is for: {', '.join(names)} (default %(default)s)",
    )
    explaining.add_argument("--json", action="store_true", help="print what POST /explain answers")
    explaining.add_argument(
        "--policy",
        dest="policies",
        action="append",
        metavar="POLICY",
        help="explain under this policy; repeat it to see several side by side (default: the configured one)",
    )
    add_setting_flags(explaining, frozenset(("config", "threshold")))
    explaining.set_defaults(command=explain_command)
    return parser


def complain(line: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"breakeven: {line}\n")
