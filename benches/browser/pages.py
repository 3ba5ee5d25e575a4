"""The rig's pages. One description of a page makes both the files of a static site and the HAR file that `race` reads,
so that the browser and the simulation load objects of the same sizes.

The description is a list of objects. Each one says how its initiator names it: see `Object.named`.
"""

import json
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parents[1] / "crates/http/pages"

MIME = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "jpg": "image/jpeg", "png": "image/png",
    "gif": "image/gif", "svg": "image/svg+xml", "woff2": "font/woff2", "json": "application/json",
}
# What DevTools writes as `_resourceType` and `_priority` of an object, by how it is named.
DEVTOOLS = {
    "document": ("document", "VeryHigh"),
    "style": ("stylesheet", "VeryHigh"),
    "blocking": ("script", "High"),
    "async": ("script", "Low"),
    "defer": ("script", "Low"),
    "img": ("image", "Low"),
    "background": ("image", "Low"),
    "font": ("font", "VeryHigh"),
    "fetch": ("fetch", "High"),
}
# In the window of 1280x900 pixels, four rows of four images are visible. Text with fonts takes the place of one image.
VISIBLE_IMAGES = 16
# The preload scanner requests the first images of a document with at least this area at medium priority.
BOOSTED_IMAGES = 5
# Sizes of the heads that nginx and Chromium send over HTTP/1.1, in bytes.
REQUEST_HEAD, RESPONSE_HEAD = 560, 260


@dataclass(frozen=True)
class Object:
    """An object of a page.

    `named` is how `initiator` (a path) names it. The HTML has `style`, `blocking`, `async` and `defer` in its head, and
    `img` evenly over its body. CSS names `background` and `font`; a script names `fetch`.
    """

    host: str
    path: str
    size: int
    named: str
    initiator: str | None = "/"

    @property
    def kind(self):
        return "html" if self.path == "/" else self.path.rsplit(".", 1)[1]


def news(scripts):
    """The shipped news page, whose scripts are `blocking` or `async`.

    The shipped HAR names no initiator for some objects. Here the style sheet names the fonts and the SVG images among
    them, and the last script of the head fetches the two parts.
    """
    objects = []
    for entry in json.loads((SHIPPED / "news.har").read_text())["log"]["entries"]:
        host, path = entry["request"]["url"].removeprefix("https://").split("/", 1)
        made = Object(host, "/" + path, entry["response"]["bodySize"], "img")
        if made.path == "/":
            made = replace(made, named="document", initiator=None)
        elif made.kind == "css":
            made = replace(made, named="style")
        elif made.kind == "js":
            made = replace(made, named=scripts)
        elif made.kind == "woff2":
            made = replace(made, named="font", initiator="/css/01.css")
        elif made.kind == "html":
            made = replace(made, named="fetch", initiator="/js/06.js")
        elif "_initiator" not in entry:
            made = replace(made, named="background", initiator="/css/01.css")
        objects.append(made)
    return objects


def gallery():
    """100 photographs on three hosts of their own: the 25 sizes of the shipped gallery at four scales."""
    host = "gallery.example"
    sizes = [entry["response"]["bodySize"] for entry in json.loads((SHIPPED / "gallery.har").read_text())["log"]["entries"]
             if entry["request"]["url"].endswith(".jpg")]
    objects = [
        Object(host, "/", 40_000, "document", None),
        Object(host, "/css/gallery.css", 8_000, "style"),
        Object(host, "/js/gallery.js", 30_000, "blocking"),
    ]
    for scale in (100, 60, 80, 40):
        for size in sizes:
            number = len(objects) - 2
            objects.append(Object(f"photos{number % 3 + 1}.{host}", f"/photo/{number:03}.jpg", size * scale // 100, "img"))
    return objects


def article():
    """12 objects of an article, on three hosts: text, two style sheets, three scripts, four images and two fonts."""
    host, static, fonts = "article.example", "static.article.example", "fonts.article.example"
    return [
        Object(host, "/", 30_000, "document", None),
        Object(host, "/css/article.css", 24_000, "style"),
        Object(fonts, "/css/fonts.css", 2_000, "style"),
        Object(static, "/js/menu.js", 45_000, "blocking"),
        Object(static, "/js/reader.js", 90_000, "defer"),
        Object(static, "/js/measure.js", 55_000, "async"),
        Object(static, "/img/hero.jpg", 180_000, "img"),
        Object(static, "/img/second.jpg", 70_000, "img"),
        Object(static, "/img/third.jpg", 60_000, "img"),
        Object(static, "/img/author.jpg", 6_000, "img"),
        Object(fonts, "/font/text.woff2", 28_000, "font", "/css/fonts.css"),
        Object(fonts, "/font/heads.woff2", 32_000, "font", "/css/fonts.css"),
    ]


def harbour():
    """16 objects of an invented timetable of ferries, on one host: the page of examples/site.har."""
    host = "harbour.example"
    return [
        Object(host, "/", 18_240, "document", None),
        Object(host, "/css/base.css", 12_410, "style"),
        Object(host, "/css/timetable.css", 5_930, "style"),
        Object(host, "/js/menu.js", 9_120, "blocking"),
        Object(host, "/js/timetable.js", 51_380, "defer"),
        Object(host, "/img/logo.svg", 3_870, "img"),
        Object(host, "/img/harbour-wide.jpg", 141_600, "img"),
        Object(host, "/img/ferry-1.jpg", 38_450, "img"),
        Object(host, "/img/ferry-2.jpg", 42_110, "img"),
        Object(host, "/img/ferry-3.jpg", 35_720, "img"),
        Object(host, "/fonts/plain-regular.woff2", 22_680, "font", "/css/base.css"),
        Object(host, "/fonts/plain-bold.woff2", 23_940, "font", "/css/base.css"),
        Object(host, "/img/waves.png", 7_460, "background", "/css/timetable.css"),
        Object(host, "/img/flags.png", 15_820, "background", "/css/timetable.css"),
        Object(host, "/api/departures.json", 3_180, "fetch", "/js/timetable.js"),
        Object(host, "/api/weather.json", 1_240, "fetch", "/js/timetable.js"),
    ]


PAGES = {
    "news": lambda: news("blocking"),
    "news-async": lambda: news("async"),
    "gallery": gallery,
    "article": article,
    "harbour": harbour,
}


def page(name, hosts):
    """The objects of a page; with `hosts` `one` they all lie on the host of the document."""
    objects = PAGES[name]()
    return objects if hosts != "one" else [replace(o, host=objects[0].host) for o in objects]


def url(made):
    return f"https://{made.host}{made.path}"


def padding(count, salt):
    """`count` bytes of letters and digits that no server compresses and no parser reads as markup."""
    text = bytearray()
    block = 0
    while len(text) < count:
        text += f"{zlib.crc32(f'{salt}{block}'.encode()):08x}".encode()
        block += 1
    return bytes(text[:count])


def filled(before, size, salt, opening, closing, after=b""):
    """`before`, a comment and `after`: `size` bytes. The comment is left out if there is no room for it."""
    room = size - len(before) - len(after) - len(opening) - len(closing)
    if room < 0:
        assert len(before) + len(after) <= size, f"{salt}: {size} bytes are too few for {len(before) + len(after)}"
        return before + b" " * (size - len(before) - len(after)) + after
    return before + opening + padding(room, salt) + closing + after


def image(made):
    """An image that decodes, where the size has room for one, with bytes behind it that decoders skip."""
    if made.kind == "svg":
        head = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
        return filled(head, made.size, made.path, b"<!--", b"-->", b"</svg>")
    if made.kind == "gif":
        body = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
    else:
        # A PNG of one grey pixel. Browsers go by the content and not by the name of a JPEG file.
        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        body = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        body += chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")
    return body[:made.size] + padding(max(0, made.size - len(body)), made.path)


def style_sheet(made, objects):
    rules = [b"img { display: inline-block }"]
    for other in objects:
        if other.initiator == made.path and other.named == "font":
            name = other.path.rsplit("/", 1)[1].split(".")[0]
            rules.append(f"@font-face {{ font-family: f{name}; src: url({url(other)}) }} .f{name} {{ font-family: f{name} }}".encode())
        elif other.initiator == made.path:
            name = other.path.rsplit("/", 1)[1].split(".")[0]
            rules.append(f".b{name} {{ background: url({url(other)}); width: 9px; height: 9px }}".encode())
    return filled(b"\n".join(rules) + b"\n", made.size, made.path, b"/*", b"*/")


def script(made, objects):
    calls = [f"fetch({url(o)!r});" for o in objects if o.initiator == made.path]
    return filled("".join(calls).encode(), made.size, made.path, b"/*", b"*/")


def document(made, objects):
    """The HTML: style sheets and scripts in their order in the head, images evenly over the body, each in a line."""
    head, body, classes = [], [], []
    for other in objects:
        name = other.path.rsplit("/", 1)[-1].split(".")[0]
        if other.named == "style":
            head.append(f'<link rel="stylesheet" href="{url(other)}">')
        elif other.named in ("blocking", "async", "defer"):
            word = "" if other.named == "blocking" else f" {other.named}"
            head.append(f'<script{word} src="{url(other)}"></script>')
        elif other.named == "img":
            body.append(f'<img width="300" height="200" src="{url(other)}">')
        elif other.named == "background":
            classes.append(f'<i class="b{name}"></i>')
        elif other.named == "font":
            classes.append(f'<b class="f{name}">text</b>')
    top = "<!doctype html><html><head><meta charset=utf-8><title>page</title>\n" + "\n".join(head)
    top += '\n<link rel="icon" href="data:,"></head><body>\n' + "".join(classes) + "\n"
    end = b"</body></html>\n"
    room = made.size - len(top) - len(end) - sum(len(line) + 1 for line in body)
    assert room >= 0, f"{made.host}: the HTML needs {-room} bytes more"
    text = bytearray(top.encode())
    share = max(9, room // (len(body) + 1))
    for line in body:
        text += b"<!--" + padding(share - 8, line) + b"-->\n" + line.encode()
    text += b"\n"
    return filled(bytes(text), made.size, made.path, b"<!--", b"-->", end)


def content(made, objects):
    if made.path == "/":
        return document(made, objects)
    if made.kind == "css":
        return style_sheet(made, objects)
    if made.kind == "js":
        return script(made, objects)
    if made.named in ("img", "background"):
        return image(made)
    return padding(made.size, made.path)


def write_site(directory, objects):
    """Writes the files of the site, in a directory for each host."""
    for made in objects:
        path = Path(directory) / made.host / (made.path[1:] or "index.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content(made, objects)
        assert len(data) == made.size, f"{made.path}: {len(data)} bytes and not {made.size}"
        path.write_bytes(data)


def har(name, hosts, objects):
    """The page as DevTools would export it, without times and with the text of HTML and style sheets.

    Hosts that a browser would coalesce share an address and a connection. Fonts of other origins are requested without
    credentials, for which Chromium has connections of their own.
    """
    html = document(objects[0], objects).decode().split("\n")
    first, images, entries = objects[0], 0, []
    visible = VISIBLE_IMAGES - any(made.named == "font" for made in objects)
    addresses = {}
    for made in objects:
        kind, priority = DEVTOOLS[made.named]
        if made.named == "img":
            images += 1
            priority = "High" if images <= visible else "Medium" if images <= BOOSTED_IMAGES else priority
        if made.initiator is None:
            initiator = {"type": "other"}
        elif made.named == "fetch":
            initiator = {"type": "script", "stack": {"callFrames": [{"url": initiator_url(made, objects), "lineNumber": 0}]}}
        else:
            initiator = {"type": "parser", "url": initiator_url(made, objects)}
            if made.initiator == first.path:
                initiator["lineNumber"] = next(n for n, line in enumerate(html) if f'"{url(made)}"' in line)
        number = addresses.setdefault(made.host if hosts == "kept" else "", len(addresses) + 1)
        connection = number + (100 if made.named == "font" and made.host != first.host else 0)
        body = {"size": made.size, "mimeType": MIME[made.kind]}
        if made.named in ("document", "style"):
            body["text"] = content(made, objects).decode()
        entries.append({
            "pageref": "page", "startedDateTime": "2026-11-28T00:00:00.000Z", "time": 0,
            "_initiator": initiator, "_priority": priority, "_resourceType": kind,
            "request": {"method": "GET", "url": url(made), "httpVersion": "h2", "headersSize": REQUEST_HEAD,
                        "bodySize": 0, "headers": [], "queryString": [], "cookies": []},
            "response": {"status": 200, "statusText": "OK", "httpVersion": "h2", "headersSize": RESPONSE_HEAD,
                         "bodySize": made.size, "headers": [], "cookies": [], "redirectURL": "",
                         "content": body,
                         "_transferSize": made.size + RESPONSE_HEAD},
            "serverIPAddress": f"192.0.2.{number}", "connection": str(connection), "cache": {},
            "timings": {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": 0, "receive": 0},
        })
    return {"log": {
        "version": "1.2", "creator": {"name": "anabranch benches/browser", "version": "1"},
        "comment": f"{name}, hosts: {hosts}; written by benches/browser/pages.py",
        "pages": [{"id": "page", "startedDateTime": "2026-11-28T00:00:00.000Z", "title": url(first),
                   "pageTimings": {"onContentLoad": None, "onLoad": None}}],
        "entries": entries,
    }}


def initiator_url(made, objects):
    return next(url(o) for o in objects if o.path == made.initiator)


def write(directory, name, hosts):
    """Writes the site and `page.har` of a page to `directory`, and returns its objects."""
    objects = page(name, hosts)
    write_site(Path(directory) / "site", objects)
    (Path(directory) / "page.har").write_text(json.dumps(har(name, hosts, objects), indent=1) + "\n")
    return objects
