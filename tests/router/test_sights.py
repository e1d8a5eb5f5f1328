"""`breakeven.sights`: what the admin port shows is known without the framework that shows it."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_neither_the_sights_nor_a_worker_load_the_framework_of_the_admin_port():
    code = (
        "import sys, breakeven.sights, breakeven.worker; print([m for m in ('fastapi', 'uvicorn') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
