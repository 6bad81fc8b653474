"""The error that ends a command."""

import pytest

from nri_numamem.config import errors
from nri_numamem.config.documents import DocumentError


def test_an_invalid_document_is_a_usage_error_with_origin_and_line() -> None:
    with pytest.raises(errors.UsageError, match=r"^file:3: problem; remedy$"):
        raise DocumentError("file", 3, "problem; remedy")
