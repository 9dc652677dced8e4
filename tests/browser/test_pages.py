import pytest

PAGES = [
    *("arm", "arm-single", "comparison", "replicates", "line", "grid", "wide", "objects", "one task", "one object"),
    *("none solved", "no history", "same fitness", "failures", "raises", "image", "busy"),
]


@pytest.mark.parametrize("name", PAGES)
def test_every_kind_of_page_opens_cleanly(look, name):
    page, _ = look(name)
    assert page.locator("h1").inner_text()
    assert "NaN" not in page.inner_html("main")
    assert "undefined" not in page.inner_text("main")
