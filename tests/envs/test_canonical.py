"""Canonical panels have the same tasks everywhere, or raise an error."""

from dataclasses import replace

import pytest

from trca.envs.canonical import canonical_panel, canonical_panels
from trca.envs.panel import Panel

EMBEDDED = [name for name in canonical_panels() if name.startswith("embedded-")]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_panels_are_what_their_names_and_hashes_say(name):
    canonical = canonical_panel(name)
    panel = canonical.draw()
    assert panel.hash == canonical.hash
    assert len(panel.task_ids) == int(name.rpartition("-")[2])


def test_a_shuffled_panel_is_not_the_head_and_repeats_nothing():
    split = Panel("e", "s", tuple(map(str, range(140))))
    drawn = replace(canonical_panel("verl-agent-128"), hash=None).draw(split)
    assert len(set(drawn.task_ids)) == 128
    assert drawn.task_ids != split.task_ids[:128]


def test_other_data_are_refused():
    canonical = canonical_panel("embedded-alfworld-64")
    with pytest.raises(ValueError, match="use the data of the original panel"):
        replace(canonical, env_config={"games": "small-7"}).draw()
    with pytest.raises(ValueError, match="needs 500 tasks, the data have 218"):
        replace(canonical_panel("webshop-500"), env_config={}).draw()
    with pytest.raises(ValueError, match="did you mean 'official-134'"):
        canonical_panel("offical-134")
