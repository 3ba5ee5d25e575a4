"""Chromium over the DevTools protocol: loads a page in a fresh browser context and keeps what the network panel sees."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from datetime import datetime, timezone

FLAGS = [
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync",
    "--disable-client-side-phishing-detection", "--disable-domain-reliability", "--metrics-recording-only",
    "--no-default-browser-check", "--password-store=basic", "--mute-audio", "--window-size=1280,900",
    "--remote-debugging-pipe",
]


class Failed(Exception):
    """A load or a command did not succeed."""


class Chromium:
    """A running browser. Use it in a `with` statement, which ends the process."""

    def __init__(self, flags=(), binary="chromium"):
        self.profile = tempfile.mkdtemp(prefix="rig-chromium-")
        # The browser reads commands from descriptor 3 and writes events to descriptor 4; the shell's own are above.
        command_read, self.commands = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe())
        self.events, event_write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe())
        start = f'exec "$@" 3<&{command_read} 4>&{event_write} {command_read}<&- {event_write}>&-'
        self.process = subprocess.Popen(
            ["bash", "-c", start, "bash", binary, *FLAGS, f"--user-data-dir={self.profile}", *flags, "about:blank"],
            pass_fds=(command_read, event_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.profile})
        os.close(command_read)
        os.close(event_write)
        self.buffer, self.queue, self.number = b"", [], 0
        self.version = self.command("Browser.getVersion", limit=60)["product"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.command("Browser.close", limit=5)
            self.process.wait(timeout=10)
        except (Failed, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(timeout=10)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, limit):
        """The next message that the browser sends within `limit` seconds, else `None`."""
        end = time.monotonic() + limit
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.events], [], [], left)[0]:
                return None
            data = os.read(self.events, 1 << 20)
            if not data:
                raise Failed("chromium ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def command(self, method, session=None, limit=30, **params):
        """Sends a command and returns its result. Events that arrive meanwhile wait in `queue`."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        try:
            os.write(self.commands, json.dumps(request).encode() + b"\0")
        except BrokenPipeError:
            raise Failed("chromium ended") from None
        end = time.monotonic() + limit
        while True:
            got = self.message(end - time.monotonic())
            if got is None:
                raise Failed(f"no answer to {method} within {limit} s")
            if got.get("id") == self.number:
                if "error" in got:
                    raise Failed(f"{method}: {got['error']['message']}")
                return got["result"]
            self.queue.append(got)

    def event(self, limit):
        return self.queue.pop(0) if self.queue else self.message(limit)

    def load(self, url, count, limit):
        """Loads `url` in a fresh context until `count` responses and the load event are complete.

        Returns the load's events: see `Load`.
        """
        context = self.command("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        try:
            target = self.command("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.command("Network.enable", session)
            self.command("Page.enable", session)
            self.queue.clear()
            self.command("Page.navigate", session, url=url, limit=limit)
            load, end = Load(), time.monotonic() + limit
            while not load.is_complete(count):
                got = self.event(end - time.monotonic())
                if got is None:
                    raise Failed(f"{len(load.finished)} of {count} objects within {limit} s")
                if got.get("sessionId") == session:
                    load.take(got["method"], got["params"])
            return load
        finally:
            self.command("Target.disposeBrowserContext", browserContextId=context)


class Load:
    """The requests of one load by their DevTools identifier, with times in milliseconds since navigation start."""

    def __init__(self):
        self.requests, self.responses, self.heads, self.finished = {}, {}, {}, {}
        self.sizes, self.bodies = {}, {}
        # The last priority of a request, if it was changed, and when.
        self.priorities = {}
        self.start, self.wall, self.onload, self.content_loaded = None, None, None, None

    def take(self, method, params):
        identifier = params.get("requestId")
        if method == "Network.requestWillBeSent" and params["request"]["url"].startswith("https:"):
            if self.start is None:
                self.start, self.wall = params["timestamp"], params["wallTime"]
            self.requests[identifier] = params
        elif method == "Network.resourceChangedPriority":
            self.priorities[identifier] = params["newPriority"], params["timestamp"]
        elif method == "Network.responseReceivedExtraInfo":
            self.heads[identifier] = params.get("headersText")
        elif method == "Network.responseReceived":
            self.responses[identifier] = params["response"]
        elif method == "Network.dataReceived":
            self.bodies[identifier] = self.bodies.get(identifier, 0) + params["dataLength"]
        elif method == "Network.loadingFinished" and identifier in self.requests:
            self.finished[identifier] = params["timestamp"]
            self.sizes[identifier] = params["encodedDataLength"]
        elif method == "Network.loadingFailed" and identifier in self.requests:
            raise Failed(f"{self.requests[identifier]['request']['url']}: {params['errorText']}")
        elif method == "Page.loadEventFired":
            self.onload = params["timestamp"]
        elif method == "Page.domContentEventFired":
            self.content_loaded = params["timestamp"]

    def is_complete(self, count):
        return self.onload is not None and len(self.finished) >= count

    def since_start(self, timestamp):
        return round((timestamp - self.start) * 1000, 1)

    def milliseconds(self):
        """Navigation start to the last byte of the last response."""
        return self.since_start(max(self.finished.values()))

    def protocols(self):
        return sorted({response["protocol"] for response in self.responses.values()})

    def connections(self):
        return len({response["connectionId"] for response in self.responses.values()})

    def timeline(self):
        """A row for each request in the order in which they were made: found, sent, first byte and last byte."""
        rows = []
        for identifier, request in self.requests.items():
            response = self.responses[identifier]
            timing = response["timing"]
            at = (timing["requestTime"] - self.start) * 1000
            rows.append({
                "url": request["request"]["url"],
                "priority": request["request"]["initialPriority"],
                "changed": [self.priorities[identifier][0], self.since_start(self.priorities[identifier][1])]
                if identifier in self.priorities else None,
                "initiator": request["initiator"]["type"],
                "found": self.since_start(request["timestamp"]),
                "connect": [round(at + timing[k], 1) if timing[k] >= 0 else None for k in ("connectStart", "connectEnd")],
                "sent": round(at + timing["sendStart"], 1),
                "head": round(at + timing["receiveHeadersEnd"], 1),
                "end": self.since_start(self.finished[identifier]),
                "bytes": self.sizes[identifier],
                "connection": response["connectionId"],
                "protocol": response["protocol"],
            })
        return rows

    def har(self):
        """The load as DevTools exports it, without bodies, headers and cookies (front_end/models/har/Log.ts).

        A request's `startedDateTime` is when it was found, and `blocked` is its wait before anything was sent for it.
        """
        entries = []
        for identifier, sent in self.requests.items():
            response, timing = self.responses[identifier], self.responses[identifier]["timing"]
            begun = timing["requestTime"]
            queued = (begun - sent["timestamp"]) * 1000

            def span(name):
                start, end = timing[f"{name}Start"], timing[f"{name}End"]
                return round(end - start, 3) if start >= 0 else -1

            first = next(timing[k] for k in ("dnsStart", "connectStart", "sendStart") if timing[k] >= 0)
            waited = max(timing["sendEnd"], timing["connectEnd"], timing["sslEnd"], timing["dnsEnd"])
            received = (self.finished[identifier] - begun) * 1000 - timing["receiveHeadersEnd"]
            timings = {
                "blocked": round(queued + first, 3), "dns": span("dns"), "connect": span("connect"), "ssl": span("ssl"),
                "send": span("send"), "wait": round(timing["receiveHeadersEnd"] - waited, 3),
                "receive": round(max(0.0, received), 3), "_blocked_queueing": round(queued, 3),
            }
            head = self.heads.get(identifier)
            entry = {
                "_connectionId": str(response["connectionId"]), "_initiator": initiator(sent["initiator"]),
                "_priority": self.priorities.get(identifier, [sent["request"]["initialPriority"]])[0], "_resourceType": sent["type"].lower(),
                "cache": {}, "connection": str(response["connectionId"]), "pageref": "page_1",
                "request": {
                    "method": sent["request"]["method"], "url": sent["request"]["url"], "httpVersion": response["protocol"],
                    "headers": [], "queryString": [], "cookies": [], "headersSize": -1, "bodySize": 0,
                },
                "response": {
                    "status": response["status"], "statusText": response["statusText"], "httpVersion": response["protocol"],
                    "headers": [], "cookies": [],
                    "content": {"size": self.bodies.get(identifier, 0), "mimeType": response["mimeType"]}, "redirectURL": "",
                    "headersSize": len(head) if head else -1,
                    "bodySize": self.sizes[identifier] - len(head) if head else -1,
                    "_transferSize": self.sizes[identifier], "_error": None, "_fetchedViaServiceWorker": False,
                },
                "serverIPAddress": response["remoteIPAddress"], "startedDateTime": self.date(sent["timestamp"]),
                "time": round(sum(part for name, part in timings.items() if part > 0 and name not in ("ssl", "_blocked_queueing")), 3),
                "timings": timings,
            }
            entries.append(entry)
        url = next(iter(self.requests.values()))["request"]["url"]
        times = {"onContentLoad": self.since_start(self.content_loaded), "onLoad": self.since_start(self.onload)}
        return {"log": {
            "version": "1.2", "creator": {"name": "WebInspector", "version": "537.36"},
            "pages": [{"startedDateTime": self.date(self.start), "id": "page_1", "title": url, "pageTimings": times}],
            "entries": entries,
        }}

    def date(self, timestamp):
        moment = datetime.fromtimestamp(self.wall + timestamp - self.start, timezone.utc)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def initiator(given):
    """An initiator without the stack's columns and identifiers of scripts."""
    kept = {key: given[key] for key in ("type", "url", "lineNumber") if key in given}
    if "stack" in given:
        frames = given["stack"]["callFrames"]
        kept["stack"] = {"callFrames": [{k: frame[k] for k in ("functionName", "url", "lineNumber")} for frame in frames]}
    return kept
