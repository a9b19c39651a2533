#!/usr/bin/env python3
"""Opens a page in headless Chromium and checks what only a browser knows.

    browser.py check PAGE…            prints what is wrong, 1 if anything is
    browser.py screenshot PAGE PNG [--width W] [--top Y] [--height H] [--dark] [--print]

Talks to Chromium over its debugging pipe (Chrome DevTools Protocol: JSON, ended by a null byte,
on file descriptors 3 and 4). Ends with 77 where there is no Chromium that runs.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
PHONE = 360
DESKTOP = 1440

# In the page: every visible text with its contrast and size, what is cut off, and the width.
CHECK = r"""((windowWidth) => {
  const problems = [];
  const parse = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return numbers.length === 3 ? [...numbers, 1] : numbers;
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((v) => {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  // What is painted below a label of a drawing: the last shape of a plain fill that holds it. Fills
  // with patterns count with both of their colours.
  const grounds = (text) => {
    const svg = text.ownerSVGElement;
    const box = text.getBBox();
    const point = svg.createSVGPoint();
    point.x = box.x + box.width / 2;
    point.y = box.y + box.height / 2;
    let found = [ground(svg.parentElement)];
    for (const shape of svg.querySelectorAll('path,rect')) {
      if (shape.closest('pattern') || !shape.isPointInFill(point)) continue;
      const fill = getComputedStyle(shape).fill;
      if (fill === 'none') continue;
      const id = fill.match(/url\("?#([^")]+)/);
      if (!id) {
        const colour = parse(fill);
        if (getComputedStyle(shape).fillOpacity === '1') found = [colour];
        continue;
      }
      found = [...document.getElementById(id[1]).children].map((child) =>
        parse(getComputedStyle(child)[child.tagName === 'rect' ? 'fill' : 'stroke']));
    }
    return found;
  };
  const name = (node) => JSON.stringify(node.textContent.trim().slice(0, 40));

  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest('title,desc,style,defs,.skip')) continue;
    if (!element.checkVisibility({contentVisibilityAuto: true})) continue;
    ++texts;
    const style = getComputedStyle(element);
    const drawn = element.ownerSVGElement != null;
    if (parseFloat(style.fontSize) < 11) problems.push(`${name(node)}: ${style.fontSize} high`);
    const colour = parse(drawn ? style.fill : style.color);
    for (const below of drawn ? grounds(element) : [ground(element)]) {
      const found = contrast(colour, below);
      if (found < 4.5) problems.push(`${name(node)}: contrast ${found.toFixed(2)}`);
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    const scroller = element.closest('.scroll');
    const left = scroller ? scroller.getBoundingClientRect().left - scroller.scrollLeft : 0;
    const right = scroller ? left + scroller.scrollWidth : windowWidth;
    if (box.left < left - 1 || box.right > right + 1) problems.push(`${name(node)}: cut off`);
    if (drawn) {
      const svg = element.ownerSVGElement.getBoundingClientRect();
      const inside = box.left >= svg.left - 1 && box.right <= svg.right + 1 &&
                     box.top >= svg.top - 1 && box.bottom <= svg.bottom + 1;
      if (!inside) problems.push(`${name(node)}: outside of its drawing`);
    }
  }
  if (texts < 20) problems.push(`only ${texts} texts are to be seen`);
  const width = document.documentElement.scrollWidth;
  if (width > windowWidth) problems.push(`the page is ${width} wide, the window ${windowWidth}`);

  const levels = [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => +h.tagName[1]);
  levels.forEach((level, i) => {
    if (level > (i === 0 ? 1 : levels[i - 1] + 1)) problems.push(`heading ${i}: skips a level`);
  });
  for (const tag of ['header', 'nav', 'main', 'footer']) {
    if (document.querySelectorAll(tag).length !== 1) problems.push(`not one <${tag}>`);
  }
  for (const cell of document.querySelectorAll('th')) {
    if (!cell.getAttribute('scope')) problems.push('a <th> without scope');
  }
  for (const svg of document.querySelectorAll('svg:not([aria-hidden])')) {
    const named = svg.getAttribute('role') === 'img' &&
        svg.getAttribute('aria-labelledby').split(' ').every(
            (id) => document.getElementById(id)?.textContent.length > 0);
    if (!named) problems.push('an image without a name');
  }
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  if (new Set(ids).size !== ids.length) problems.push('an id is there twice');
  for (const link of document.querySelectorAll('a')) {
    const target = link.getAttribute('href');
    const known = target.startsWith('#') && document.getElementById(target.slice(1));
    if (!known) problems.push(`a link to ${target}`);
  }
  const kinds = performance.getEntriesByType('resource').map((entry) => entry.name);
  if (kinds.length > 0) problems.push(`loads ${kinds}`);
  return problems;
})"""


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, executable, profile):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def connect():
            # the ends may have these very numbers already
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [executable, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", f"--user-data-dir={profile}", "--remote-debugging-pipe",
             "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._pending = b""
        self._number = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _message(self):
        while b"\0" not in self._pending:
            part = os.read(self._read, 1 << 16)
            if not part:
                raise EOFError("Chromium ended")
            self._pending += part
        text, self._pending = self._pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._message())

    def open(self, page, width, dark=False, medium="screen"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", media=medium,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def complaints(self):
        """What the page wrote to the console, and errors while it was loaded."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in kinds]

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def close(self):
        try:
            self.call("Browser.close")
        except (OSError, EOFError, RuntimeError):
            pass
        self._process.wait(timeout=30)


def check(browser, page):
    problems = []
    for width in (PHONE, DESKTOP):
        for dark in (False, True):
            for all_open in (False, True):
                browser.open(page, width, dark)
                if all_open:
                    browser.evaluate(
                        "document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                where = f"{page}, {width} px, {'dark' if dark else 'light'}"
                problems += [f"{where}: {found}" for found in browser.evaluate(f"{CHECK}({width})")]
                problems += [f"{where}: {event}" for event in browser.complaints()]
    browser.open(page, DESKTOP, dark=True, medium="print")
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = browser.evaluate("getComputedStyle(document.body).color")
    if "255, 255, 255" not in paper and "0, 0, 0, 0" not in paper:
        problems.append(f"{page}: printed on {paper}")
    if sum(int(part) for part in ink[ink.index("(") + 1:-1].split(",")[:3]) > 150:
        problems.append(f"{page}: printed in {ink}")
    pdf = browser.pdf()
    if not pdf.startswith(b"%PDF") or len(pdf) < 5000:
        problems.append(f"{page}: no PDF ({len(pdf)} bytes)")
    return problems


def screenshot(browser, arguments):
    medium = "print" if arguments.print else "screen"
    browser.open(arguments.page, arguments.width, arguments.dark, medium)
    size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    height = min(arguments.height or size["height"], size["height"] - arguments.top)
    clip = {"x": 0, "y": arguments.top, "width": arguments.width, "height": height, "scale": 1}
    picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    pathlib.Path(arguments.png).write_bytes(base64.b64decode(picture["data"]))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check")
    checking.add_argument("pages", nargs="+")
    drawing = commands.add_parser("screenshot")
    drawing.add_argument("page")
    drawing.add_argument("png")
    drawing.add_argument("--width", type=int, default=DESKTOP)
    drawing.add_argument("--top", type=int, default=0, help="where the picture begins, in px")
    drawing.add_argument("--height", type=int, help="of the picture (the rest of the page)")
    drawing.add_argument("--dark", action="store_true")
    drawing.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        print("SKIP: there is no Chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            browser = Browser(executable, profile)
        except (OSError, EOFError) as error:
            print(f"SKIP: Chromium does not run here: {error}")
            return SKIPPED
        try:
            if arguments.command == "screenshot":
                screenshot(browser, arguments)
                return 0
            problems = [problem for page in arguments.pages for problem in check(browser, page)]
        finally:
            browser.close()
    print("\n".join(problems[:60]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
