import pytest

from trca.common.strict_yaml import MAX_BYTES, parse, read_text


def test_scientific_notation_is_a_number():
    assert parse("[4e-4, 4.0e-4, -1E3, 4e-4x]") == [4e-4, 4e-4, -1000.0, "4e-4x"]


def test_integers_are_those_of_yaml_1_2():
    assert parse("[010, 008, -07, 1_000, 0x10, 0, 1:30]") == [10, "008", -7, 1000, 16, 0, "1:30"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' is repeated in line 3"),
        ("a: {b: 1, b: 2}", "'b' is repeated in line 1"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("? [1]\n: 2\n", "line 1 has .* as a key"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: [1, 2", "expected ',' or ']'"),
        ("a: \x00", "unacceptable character"),
        ("[" * 5000, "recursion"),
        ("a: 2001-99-99", "month must be in"),
    ],
)
def test_invalid_yaml_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


def test_huge_and_binary_files_are_refused(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_text(path)
    path.write_bytes(b"a" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match="larger than"):
        read_text(path)
