"""What is not installed is named with the extra that brings it."""

import pytest

from trca.common.extras import required


def test_a_library_that_is_there_is_imported():
    assert required("json.decoder", "trl").JSONDecoder


def test_a_library_that_is_not_there_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"'no_library': pip install 'trca\[trl\]'"):
        required("no_library", "trl")
