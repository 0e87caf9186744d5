"""What the doctor has found, for pages that show its report."""

from gateway.doctor.report_origin import ReportOrigin
from tests.unit.gateway.doctor.diagnoses import diagnosis

LONG = "organisation/a-model-with-a-name-that-is-longer-than-a-phone-is-wide-Q4_K_M-0123456789"
ORIGIN = ReportOrigin(product_version="0.1.0", date="2026-11-23T08:00:00Z", config_digest="abcdef012345")
REPORTED = [diagnosis("demo", "tools", "tools_streamed", "stop"), diagnosis(LONG, "images")]
