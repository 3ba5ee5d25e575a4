//! Controls Debian's chromium through WebDriver. The crate fantoccini talks to a chromedriver that the test starts.
//!
//! This module owns the browser process and the way in which a page is displayed (width, colours, paper). It also
//! collects the browser's complaints: console errors, and requests for anything except the page itself.

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::{Builder, Runtime};

/// How a page is displayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// On a screen of this width in pixels. `dark`: whether the user prefers dark colours.
    Screen { width: u32, dark: bool },
    /// Printed on a page of this width in pixels. `dark`: whether the user prefers dark colours on the screen.
    Paper { width: u32, dark: bool },
}

impl Look {
    /// All ways of displaying a report in which the report must work.
    pub const ALL: [Self; 6] = [
        Self::Screen { width: 1280, dark: false },
        Self::Screen { width: 1280, dark: true },
        Self::Screen { width: 390, dark: false },
        Self::Screen { width: 390, dark: true },
        Self::Paper { width: 1280, dark: true },
        // 703 pixels is the width of A4 between its margins.
        Self::Paper { width: 703, dark: false },
    ];

    /// Whether text is light on a dark background. Paper is never dark.
    pub fn is_dark(self) -> bool {
        matches!(self, Self::Screen { dark: true, .. })
    }

    /// The name used in file names.
    pub fn name(self) -> String {
        match self {
            Self::Screen { width, dark } => format!("{width}-{}", if dark { "dark" } else { "light" }),
            Self::Paper { width, .. } => format!("{width}-paper"),
        }
    }
}

/// A command that only chromedriver has. The fields are the end of the URL path, after the session ID, and the JSON
/// body.
#[derive(Debug)]
struct Own(&'static str, Value);

impl WebDriverCompatibleCommand for Own {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.0))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.1.to_string()))
    }
}

/// Whether the test must fail if a program that it needs is missing, as in CI.
pub fn is_required() -> bool {
    std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_some_and(|value| value == "1")
}

/// A browser with one page.
pub struct Browser {
    runtime: Runtime,
    client: Option<Client>,
    driver: Child,
}

impl Browser {
    /// Starts a browser. Returns `None` if no browser is installed; panics instead if the environment requires a
    /// browser.
    pub fn start() -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let spawned = runtime.block_on(async {
            Command::new("chromedriver")
                .arg("--port=0")
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .kill_on_drop(true)
                .spawn()
        });
        let mut driver = match spawned {
            Ok(driver) => driver,
            Err(error) => {
                assert!(!is_required(), "chromedriver: {error}; apt-get install chromium chromium-driver");
                println!("chromedriver: {error}; skipped: apt-get install chromium chromium-driver");
                return None;
            }
        };
        let client = runtime.block_on(async {
            let mut lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
            let port = loop {
                let line = lines.next_line().await.expect("readable").expect("it tells its port");
                if let Some((_, port)) = line.split_once("started successfully on port ") {
                    break port.trim_end_matches('.').to_owned();
                }
            };
            // Reads all further output of chromedriver, so that it does not block.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            let options = json!({
                "goog:chromeOptions": { "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                    "--disable-background-networking", "--disable-component-update", "--no-first-run",
                ] },
                "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            });
            let capabilities = options.as_object().cloned().unwrap_or_default();
            let connector = hyper_util::client::legacy::connect::HttpConnector::new();
            let mut builder = ClientBuilder::new(connector);
            builder.capabilities(capabilities);
            builder.connect(&format!("http://127.0.0.1:{port}")).await.expect("a session")
        });
        Some(Self { runtime, client: Some(client), driver })
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("until it is dropped")
    }

    fn own(&self, path: &'static str, body: Value) -> Value {
        self.runtime.block_on(self.client().issue_cmd(Own(path, body))).expect(path)
    }

    /// Sends a command of the browser's debugger.
    fn debugger(&self, command: &str, parameters: Value) -> Value {
        self.own("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    /// Opens a page and displays it as `look` says.
    pub fn open(&mut self, page: &Path, look: Look) {
        let (width, media, dark) = match look {
            Look::Screen { width, dark } => (width, "screen", dark),
            Look::Paper { width, dark } => (width, "print", dark),
        };
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.debugger("Emulation.setDeviceMetricsOverride", metrics);
        let scheme =
            json!([{ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } }]);
        self.debugger("Emulation.setEmulatedMedia", json!({ "media": media, "features": scheme }));
        let address = format!("file://{}", page.display());
        self.runtime.block_on(self.client().goto(&address)).expect("it opens");
    }

    /// Runs a script and returns its result.
    pub fn run(&mut self, script: &str) -> Value {
        self.runtime.block_on(self.client().execute(script, Vec::new())).expect("it runs")
    }

    /// Returns the number of A4 pages that the open page has on paper. Ends the emulation of a screen, because its
    /// style sheet would also be used for the printed page.
    pub fn printed_pages(&mut self) -> usize {
        self.debugger("Emulation.clearDeviceMetricsOverride", json!({}));
        self.debugger("Emulation.setEmulatedMedia", json!({ "media": "", "features": [] }));
        let print = json!({ "preferCSSPageSize": true, "printBackground": true });
        let printed = self.debugger("Page.printToPDF", print);
        let pdf = decode(printed["data"].as_str().unwrap_or_default());
        // Chromium does not compress the dictionaries of pages. That of the whole list has `/Type /Pages`.
        String::from_utf8_lossy(&pdf)
            .split("/Type /Page")
            .skip(1)
            .filter(|rest| !rest.starts_with('s'))
            .count()
    }

    /// Saves a screenshot of the page if the environment asks for it.
    pub fn keep(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("SCREENSHOTS") else { return };
        let whole = json!({ "format": "png", "captureBeyondViewport": false });
        let shot = self.debugger("Page.captureScreenshot", whole);
        let text = shot["data"].as_str().unwrap_or_default();
        let _ = std::fs::write(Path::new(&directory).join(format!("{name}.png")), decode(text));
    }

    /// Returns the messages in the browser's console and the URLs that the page requested over the network, since the
    /// last call.
    pub fn complaints(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in self.own("se/log", json!({ "type": "browser" })).as_array().into_iter().flatten() {
            found.push(format!("{}: {}", entry["level"], entry["message"]));
        }
        for entry in self.own("se/log", json!({ "type": "performance" })).as_array().into_iter().flatten() {
            let event: Value =
                serde_json::from_str(entry["message"].as_str().unwrap_or_default()).unwrap_or_default();
            let message = &event["message"];
            let address = message["params"]["request"]["url"].as_str().unwrap_or_default();
            let own = address.starts_with("file://")
                || address.starts_with("data:")
                || address.starts_with("blob:");
            if message["method"] == "Network.requestWillBeSent" && !own {
                found.push(format!("asked for {address}"));
            }
        }
        found
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.close());
        }
        let _ = self.runtime.block_on(self.driver.kill());
    }
}

/// Decodes base64, in which the debugger sends screenshots.
fn decode(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let symbols: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
    let mut bytes = Vec::with_capacity(symbols.len() * 3 / 4);
    for four in symbols.chunks(4) {
        let bits =
            four.iter().fold(0_u32, |bits, symbol| bits << 6 | u32::from(*symbol)) << (6 * (4 - four.len()));
        bytes.extend(bits.to_be_bytes()[1..four.len()].iter());
    }
    bytes
}
