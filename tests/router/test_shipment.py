"""What goes to an engine is one value, the same for every engine that is tried."""

import pytest

from breakeven.headers import Headers
from breakeven.shipment import Shipment


def test_a_shipment_does_not_change_between_attempts() -> None:
    shipment = Shipment(
        method=b"POST", target=b"/", headers=Headers([]), body=b"{}", coded_body=None, decoded=False, alias=None,
        must_end=True, lines=b"",
    )  # fmt: skip
    assert not shipment.answers_cors
    with pytest.raises(AttributeError):
        shipment.body = b""
