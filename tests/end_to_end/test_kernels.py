"""The kernel side on Linux 5.10, the oldest kernel that it is for: a guest records there."""

import pytest

from experiments.guest.kernel import Kernel, kept
from experiments.guest.machine import AMD64
from experiments.kernels import judged, recorded

#: An emulated machine takes many times as long beside other tests.
pytestmark = pytest.mark.serial

WAYS, SEEDS = ("malloc", "huge", "threads", "fork"), (4, 9)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    if words := AMD64.missing():
        pytest.skip(words)
    image = kept(Kernel("bullseye"))
    if image is None:
        pytest.skip("there is no kernel 5.10 for a guest: scripts/guest fetches one")
    script = recorded.RECORD + recorded.peaks(WAYS, SEEDS) + recorded.OTHERS
    return recorded.recorded(tmp_path_factory.mktemp("guest"), image, script).files


def test_resident_peaks_are_exact_to_the_page(files):
    names = [f"held-{way}" for way in WAYS] + [f"steps-{seed}" for seed in SEEDS]
    row = judged.exact(files, "resident peaks", names)
    assert row.holds, row.found


CHECKS = (judged.brief, judged.touched, judged.untouched, judged.mapped, judged.raw)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_faults_and_mappings_are_what_they_are_elsewhere(files, check):
    row = check(files)
    assert row.holds, row.found
