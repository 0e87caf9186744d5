"""The cross tests use the recordings of every upstream."""

from tests.unit.support.golden import GOLDEN
from tests.unit.support.recorded_replies import RECORDED_REPLIES


def test_every_folder_of_recordings_is_part_of_the_cross_test() -> None:
    recorded = {folder.name for folder in GOLDEN.iterdir() if folder.is_dir() and any(folder.glob("*.events"))}
    assert {recording.parent.name for recording in RECORDED_REPLIES} == recorded
