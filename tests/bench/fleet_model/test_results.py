"""The results that policies/README.md shows are those that are kept in docs/data."""

from pathlib import Path

from breakeven_bench.fleet_model.page import between_markers, page
from breakeven_bench.fleet_model.result import decode, together

ROOT = Path(__file__).resolve().parents[3]


def test_the_tables_of_the_page_are_made_from_the_kept_results():
    kept = sorted((ROOT / "docs" / "data" / "policies").glob("*.json"))
    study = together(decode(path.read_bytes()) for path in kept)
    assert between_markers((ROOT / "policies" / "README.md").read_text(encoding="utf-8")) == page(study)
