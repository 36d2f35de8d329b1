"""Names of a package that are imported on first use."""

import sys

import pytest

from mrafno._lazy import lazy_exports


def test_a_module_is_imported_when_its_name_is_used():
    sys.modules.pop("colorsys", None)
    load, listed = lazy_exports("package", {"hsv_to_rgb": "colorsys", "Fraction": "fractions"})
    assert listed() == ["Fraction", "hsv_to_rgb"]
    assert "colorsys" not in sys.modules
    assert load("hsv_to_rgb")(0.0, 0.0, 1.0) == (1.0, 1.0, 1.0)
    assert "colorsys" in sys.modules


def test_an_unknown_name_is_an_attribute_error():
    load, _ = lazy_exports("package", {})
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'missing'"):
        load("missing")
