"""The engine of planted faults on a short source; ``make lint`` checks the real list."""

import ast
from pathlib import Path

import pytest

from benchmarks.planted_faults.lists import read_faults
from benchmarks.planted_faults.plant import Fault

SOURCE = """
import torch

LIMIT: float = 0.9


class Loss:
    def clipped(self, ratio, advantage):
        bound = torch.clamp(ratio, 0.8,
                            1.2)  # "é" has two bytes
        if bound is None:
            return 0.0
        elif ratio > bound:
            return ratio
        for each in (ratio, bound):
            self.log("é", each, step=1, name="each")
        return -torch.minimum(ratio * advantage, bound * advantage)

    def plain(self, ratio, advantage):
        return -ratio * advantage
"""


def planted(old, new="", place="loss:Loss.clipped", source=SOURCE):
    return Fault("a fault", place, old, new, "tests").planted(source)


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("$ratio > $bound", "$bound > $ratio", "ratio > bound", "(bound > ratio)"),
        ("-$x", "$x", "-torch.minimum(ratio * advantage, bound * advantage)",
         "(torch.minimum(ratio * advantage, bound * advantage))"),
        ("step=1", "step=2", "step=1", "step=(2)"),
        ("self.log(*$before, step=1, **$after)", "self.log(*$before, step=2, **$after)",
         'self.log("é", each, step=1, name="each")', "(self.log('é', each, step=2, name='each'))"),
        ("$ratio > $bound", "[*$ratio, *$bound]", "ratio > bound", "([*ratio, *bound])"),
        ("torch.clamp($x, *$bounds)", "$x",
         "torch.clamp(ratio, 0.8,\n                            1.2)", "(ratio)"),
        ("if $bound is None:\n    return 0.0\nelif $other:\n    *$body",
         "if $bound is None:\n    return 0.0",
         "\n        elif ratio > bound:\n            return ratio", ""),
        ("for $each in $all:\n    self.log(*$texts, **$rest)", "self.log($all)",
         'for each in (ratio, bound):\n            self.log("é", each, step=1, name="each")',
         "self.log((ratio, bound))"),
        ("for $each in $all:\n    *$body", "",
         'for each in (ratio, bound):\n            self.log("é", each, step=1, name="each")',
         "pass"),
    ],
)  # fmt: skip
def test_only_the_matched_code_changes(old, new, before, after):
    assert SOURCE.count(before) == 1
    assert planted(old, new) == SOURCE.replace(before, after)


def test_a_name_of_the_module_is_a_place():
    result = planted("LIMIT: $type = $value", "LIMIT: $type = 1.0", "loss:LIMIT")
    assert result == SOURCE.replace("LIMIT: float = 0.9", "LIMIT: float = 1.0")


def test_renamed_variables_and_another_layout_keep_the_fault():
    old, new = "torch.minimum($a * $c, $b * $c)", "torch.minimum($b * $c, $a * $c)"
    renamed = SOURCE.replace("bound", "limited").replace("advantage", "gain")
    source = ast.unparse(ast.parse(renamed))
    before = "torch.minimum(ratio * gain, limited * gain)"
    after = "(torch.minimum(limited * gain, ratio * gain))"
    assert planted(old, new, source=source) == source.replace(before, after)


def test_the_same_metavariable_stands_for_equal_code():
    with pytest.raises(ValueError, match="matches 0 times"):
        planted("torch.minimum($a * $b, $a * $b)", "$a")


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("$a * $b", "$a", "loss:Loss.clipped", "matches 2 times, not once, line 17, line 17"),
        ("$a + $b", "$a", "loss:Loss.clipped", "matches 0 times"),
        ("-$x", "$x", "loss:Loss.cliped", r"no Loss\.cliped; similar: Loss\.clipped"),
        ("ratio > $b", "$b", "loss:Loss.clipped", r"ratio is a local variable; write \$ratio"),
        ("$a is None", "lost", "loss:Loss.clipped", "the new code reads lost, which the function"),
        ("$a is None", "$b", "loss:Loss.clipped", r"\$b is in the new code and not in the old"),
        ("$a is", "$a", "loss:Loss.clipped", "not Python"),
        ("return 0.0", "continue", "loss:Loss.clipped", "'continue' not properly in loop"),
    ],
)
def test_an_inapplicable_fault_is_refused(old, new, place, message):
    with pytest.raises(ValueError, match=f"fault 'a fault' in {place}: .*{message}"):
        planted(old, new, place)


def test_a_file_that_is_not_python_is_matched_by_words():
    source = "node.append( child instanceof Node\n ? child : text(child) );"
    old, new = "node.append($c instanceof Node ? $c : text($c))", "node.append($c)"
    assert planted(old, new, "loss/page.js", source) == "node.append(child);"
    with pytest.raises(ValueError, match="matches 0 times"):
        planted(old, new, "loss/page.js", source.replace("text(child)", "text(node)"))


def test_a_list_has_faults_below_their_test_file(tmp_path: Path):
    (tmp_path / "losses.txt").write_text(
        "[tests/test_loss.py]\n\n# no sign\nloss:Loss.plain\n- return -$x\n+ return $x\n\n"
        "# no log\nloss:Loss.clipped\n- for $e in $all:\n-     *$body\n"
    )
    assert read_faults(tmp_path) == [
        Fault("no sign", "loss:Loss.plain", "return -$x", "return $x", "tests/test_loss.py"),
        Fault("no log", "loss:Loss.clipped", "for $e in $all:\n    *$body", "",
              "tests/test_loss.py"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# a\nm:f\n- $x\n+ 1\n", r"losses\.txt, line 1: not a fault"),
        ("[tests/t.py]\n\n# a\nm:f\n+ 1\n", r"losses\.txt, line 3: not a fault"),
        ("[tests/t.py]\n\n# a\nm:f\n- $x\n\n# a\nm:g\n- $x\n", "two faults have the name 'a'"),
    ],
)
def test_a_broken_list_is_named_with_its_line(text, message, tmp_path: Path):
    (tmp_path / "losses.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_faults(tmp_path)


def test_a_moved_module_is_named(tmp_path: Path):
    (tmp_path / "trca").mkdir()
    (tmp_path / "trca" / "loss.py").touch()
    assert Fault("a", "trca.loss:f", "", "", "").path(tmp_path) == tmp_path / "trca/loss.py"
    with pytest.raises(ValueError, match=r"fault 'a': trca\.gone:f has no file"):
        Fault("a", "trca.gone:f", "", "", "").path(tmp_path)
