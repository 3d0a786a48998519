"""Placement on two NUMA nodes: a guest with them says where each page is."""

import pytest

from experiments.guest.kernel import kept
from experiments.guest.machine import AMD64
from experiments.placement import nodes

#: An emulated machine takes many times as long beside other tests.
pytestmark = pytest.mark.serial


@pytest.fixture(scope="module")
def image():
    if words := AMD64.missing():
        pytest.skip(words)
    image = kept(nodes.KERNEL)
    if image is None:
        pytest.skip("there is no kernel for a guest: scripts/guest fetches one")
    return image


@pytest.fixture(scope="module")
def rows(image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guest")
    return {row.what: row for row in nodes.measured(folder, image)}


def test_pages_are_where_the_plan_has_them(rows):
    assert [row for row in rows.values() if not row.is_right] == []
    there_and_back = rows["moved there and back"]
    assert there_and_back.asked == there_and_back.there > 30_000


def test_a_node_that_cannot_be_had_is_one_sentence(rows):
    for what in ("a node that is not there", "a node without memory"):
        assert rows[what].is_same and "runs without a plan" in rows[what].said, rows[what]
