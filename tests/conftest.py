"""Settings for every test: no deadline per example, because the machines that run these tests are shared."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steelyard")
