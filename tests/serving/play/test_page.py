"""The page in Chromium: upload, ask, slide, keyboard, phone width."""

import time

import pytest

from report.browser import complaints, requests


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except Exception:  # noqa: BLE001, S110 - the page is being drawn again
            pass
        time.sleep(0.05)
    pytest.fail("the page did not get there")


def open_page(page, width=1280, height=1000):
    driver = page.driver
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.url)
    wait_for(lambda: driver.find_element("css selector", "#picture input[type=file]"))
    return driver


def upload(driver, path):
    driver.find_element("css selector", "#picture input[type=file]").send_keys(str(path))
    wait_for(lambda: driver.find_element("css selector", "#picture img"))


def write(driver, text):
    box = driver.find_element("css selector", "#question textarea")
    box.clear()
    box.send_keys(text)
    return box


def text_of(driver, place):
    return driver.find_element("css selector", place).text


def share(driver):
    """The pruned share of FLOPs that the table shows, in percent."""
    line = next(line for line in text_of(driver, "#answers").splitlines() if line.startswith("of unpruned"))
    return float(line.split()[-1].rstrip("%"))


@pytest.mark.parametrize("width", [1280, 390])
def test_upload_ask_and_slide(page, picture, width):
    from selenium.webdriver.common.keys import Keys

    driver = open_page(page, width)
    upload(driver, picture)
    write(driver, "how many rings are there?")
    driver.find_element("id", "ask").click()
    wait_for(lambda: "of unpruned" in text_of(driver, "#answers"))
    assert share(driver) <= 50
    budget = driver.find_element("css selector", "#budget input[type=range]")
    for _ in range(4):
        budget.send_keys(Keys.ARROW_LEFT)  # 0.05 each
    wait_for(lambda: share(driver) <= 30)
    layer = driver.find_element("css selector", "#layer input[type=range]")
    layer.send_keys(Keys.HOME)
    wait_for(lambda: text_of(driver, "#caption").startswith("Layer 0:"))
    layer.send_keys(Keys.END)
    wait_for(lambda: text_of(driver, "#caption").startswith("Layer 9:"))
    wait_for(lambda: driver.find_element("css selector", "#left img"))
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_alone_asks(page, picture):
    from selenium.webdriver.common.keys import Keys

    driver = open_page(page)
    upload(driver, picture)
    write(driver, "what color is the star?").send_keys(Keys.ENTER)
    wait_for(lambda: "of unpruned" in text_of(driver, "#answers"))


def test_what_is_wrong_is_told_on_the_page(page, tmp_path, picture):
    driver = open_page(page)
    write(driver, "how many?")
    driver.find_element("id", "ask").click()
    wait_for(lambda: "Drop one" in text_of(driver, ".toast-body, .toast-wrap"))
    assert "of unpruned" not in text_of(driver, "#answers")
    cut = tmp_path / "cut.png"
    cut.write_bytes(picture.read_bytes()[:200])
    driver = open_page(page)
    driver.find_element("css selector", "#picture input[type=file]").send_keys(str(cut))
    write(driver, "how many?")
    time.sleep(0.5)
    driver.find_element("id", "ask").click()
    wait_for(lambda: "cannot be read" in text_of(driver, ".toast-body, .toast-wrap"))


def test_nothing_is_fetched_from_elsewhere(page):
    driver = open_page(page)
    own = ("http://127.0.0.1", "http://localhost", "data:", "blob:", "chrome")
    assert [address for address in requests(driver) if not address.startswith(own)] == []
    errors = [line for line in complaints(driver) if "favicon" not in line and "manifest" not in line]
    assert [line for line in errors if "SEVERE" in line] == []


def test_the_page_of_a_shipped_model_names_it_and_opens_with_an_answer(session):
    pytest.importorskip("gradio")
    from vispco.serving.play.page import build_page

    config = build_page(session, name="tiny-qwen").get_config_file()
    texts = [str(each["props"].get("value", "")) for each in config["components"]]
    assert any("Which visual tokens can tiny-qwen do without?" in text for text in texts)
    events = [target[1] for each in config["dependencies"] for target in each["targets"]]
    assert "load" in events
