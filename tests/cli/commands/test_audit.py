"""`trca audit` writes the agreement of each rule, and names the rules without one."""

import json

from tests.cli.calls import done

SHORT = ("--set", "env_config.max_steps=3", "--set", "group_size=2")


def test_every_rule_has_a_row_or_a_reason(tmp_path):
    few = ("--tasks", "2", "--rollouts", "2", "--playouts", "2")
    output = done("audit", "tiny", *few, *SHORT, "--output", tmp_path)
    (path,) = tmp_path.glob("audit_tiny.json")
    told = json.loads(path.read_text())
    assert told["policy"] == "tiny"
    assert told["steps"] == len(told["executed"]) == len(told["credit"]["TRCA"]) == 6
    assert 6 < told["played"] <= 12  # the two rollouts may share states
    assert path.with_suffix(".png").is_file()
    words = " ".join(output.split())
    left_out = {line.split()[0] for line in output.splitlines() if "is left out" in line}
    assert len(told["rules"]) + len(left_out) == 22
    assert "HiPER is left out: reads the values of its critic: audit a run of HiPER" in words
    assert "HCAPO" in told["rules"]
    assert "warning: noise hides most of the order" in words
