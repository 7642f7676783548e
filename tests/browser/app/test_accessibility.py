"""The page for everybody: axe-core looks at every part of it, light and dark, wide and narrow."""

import pytest

from browsing import browser, running, web_files
from browsing import page as opened
from toy_images import make_folder

pytest.importorskip("starlette", reason="needs the extra app")
GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = make_folder(
        tmp_path_factory.mktemp("app") / "birds", {"robin": 6, "reed warbler": 6, "wren": 6, "unsorted": 4}
    )
    (script,) = web_files("LPP_AXE", "axe-core", "axe.min.js")
    with running(root) as (address, _), browser() as chromium:
        yield chromium, address, script.read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_nothing_serious_stands_in_anybodys_way(page, width, scheme):
    chromium, address, script = page
    found = []
    with opened(chromium, address, viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
        tabs = tab.get_by_role("tab")
        tabs.first.wait_for()
        assert tabs.count() >= 6
        for part in tabs.all():
            name = part.inner_text()
            part.click()
            tab.wait_for_timeout(800)  # Until colours no longer fade.
            tab.evaluate(script)
            result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
            for one in result["violations"]:
                if one["impact"] in GRAVE:
                    nodes = [f"{node['html'][:160]} — {node['failureSummary'][:200]}" for node in one["nodes"][:3]]
                    found.append((name, one["id"], len(one["nodes"]), nodes))
            wider = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{name}: {wider} pixels wider than the window"
        assert tab.said == []
    assert found == []
