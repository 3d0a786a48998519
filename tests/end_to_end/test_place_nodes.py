"""Placement on two and three NUMA nodes: guests with them say where each page is."""

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


def test_blocks_are_in_each_of_three_nodes(rows):
    full = rows["three tiers: the same, room for 9 and 4 MB"]
    for row in (rows["three tiers: some blocks in each"], full):
        assert row.asked == row.there > 30_000, row


def test_a_node_that_cannot_be_had_is_one_sentence(rows):
    whats = (
        "a node that is not there",
        "a node without memory",
        "three tiers: a middle node without memory",
    )
    for what in whats:
        assert rows[what].is_same and "runs without a plan" in rows[what].said, rows[what]
