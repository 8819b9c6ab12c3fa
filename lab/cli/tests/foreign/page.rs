//! The page of a gateway and of `meridian up` in a headless Chromium.

use crate::browser::Browser;
use crate::common::{LIMIT, fleet, must};
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, GatewaySpec, Process};
use serde_json::json;

const TOKEN: &str = "visitors-of-this-machine";
const PHONE: (u32, u32) = (390, 844);
const DESKTOP: (u32, u32) = (1440, 1000);

/// Two model engines behind a gateway whose admin port has a token.
async fn guarded(fleet: &Fleet) -> (Vec<Process>, Gateway) {
    let mut engines = Vec::new();
    for name in ["engine-0", "engine-1"] {
        let spec = EngineSpec { time_scale: 4.0, ..EngineSpec::default() };
        engines.push(must(fleet.engine(name, &spec).await));
    }
    // The hash of the token, as `meridian tenant-key` prints it.
    let hash = "sha256:dd31497288eed11c5328751aa826e94ac79e0cc74ab6b3d3c425de51fa71fcae";
    let spec = GatewaySpec {
        region: "frankfurt".into(),
        replicas: engines.iter().map(|engine| engine.said(0).to_owned()).collect(),
        further: format!("admin_access:\n  tokens: [\"{hash}\"]\n"),
        ..GatewaySpec::default()
    };
    (engines, must(fleet.gateway("gateway", &spec).await))
}

async fn ask(client: &Client, gateway: &Gateway, text: &str) -> u16 {
    let body = json!({
        "model": "llama-3.1-8b", "max_tokens": 4, "stream": true,
        "messages": [{ "role": "user", "content": text }],
    });
    let url = format!("{}/v1/chat/completions", gateway.url);
    must(client.post(&url, body.to_string()).await).status
}

const HEALTH: &str = "document.querySelector('#health')?.dataset.level";
const ROWS: &str = "document.querySelectorAll('table.decisions [data-decision]').length";

/// The focus moves by Tab until it is on an element of this selector.
fn tab_to(browser: &mut Browser, selector: &str) {
    let is_there = format!("document.activeElement.matches(\"{selector}\")");
    for _ in 0..200 {
        browser.key("Tab");
        if browser.evaluate(&is_there) == json!(true) {
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(browser.evaluate(outline), "solid", "the focus is visible on {selector}");
            return;
        }
    }
    panic!("the Tab key does not reach {selector}");
}

/// The document is as wide as the window, at both sizes and in both colours.
fn fits(browser: &mut Browser) {
    for (size, colours) in
        [(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "dark"), (DESKTOP, "light")]
    {
        browser.window(size, colours);
        browser.when("the width of the window", &format!("innerWidth == {}", size.0));
        let wide = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right \
             > innerWidth + 1 && !e.closest('.unseen, .log, svg, canvas')).map(e => e.outerHTML.slice(0, 90))";
        browser.when("no horizontal scroll", "document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(browser.evaluate(wide), json!([]), "{size:?} {colours}");
        let background = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        let is_dark = background != json!("rgb(243, 245, 248)");
        assert_eq!(is_dark, colours == "dark", "{background}");
    }
}

/// The decision that is open has a bar for each candidate of its explanation, and one is the winner.
fn bars_are_whole(browser: &mut Browser, candidates: usize) {
    let bars = "document.querySelectorAll('.panel [data-candidate]').length";
    browser.when("a bar for each candidate", &format!("{bars} == {candidates}"));
    browser.when("terms in the bars", "document.querySelectorAll('.panel .stack i').length > 1");
    let won = "document.querySelector('.panel .bars .name.won').textContent.startsWith('✓')";
    browser.when("the winner is marked", won);
    let outcome = "document.querySelector('.panel .outcome').textContent";
    let outcome = browser.evaluate(outcome);
    let outcome = outcome.as_str().unwrap_or_default();
    for word in ["Sent to", "first token predicted after", " ms"] {
        assert!(outcome.contains(word), "{outcome}");
    }
}

// A gateway's page asks for the token, then shows the gateway's state. Decisions open and close by
// keyboard, the page fits phones, and it loads nothing from elsewhere. An engine that is killed is
// named in the header and on its tile.
#[tokio::test]
async fn a_gateway_has_a_page() {
    let fleet = fleet();
    let (mut engines, gateway) = guarded(&fleet).await;
    let (url, profile) = (gateway.admin.clone(), fleet.dir().join("browser"));
    let own = url.clone();
    let browser = tokio::task::spawn_blocking(move || {
        let mut browser = Browser::open(&url, &profile);
        browser.when("the login", "document.querySelector('#log-in button:enabled') !== null");
        browser.evaluate(&format!("document.querySelector('#token').value = '{TOKEN}'"));
        browser.click("#log-in button");
        browser.when("everything works", &format!("location.pathname == '/' && {HEALTH} == 'ok'"));
        browser
    });
    let mut browser = browser.await.expect("the page is as it should be");
    let client = Client::new();
    for turn in 0..6 {
        assert_eq!(
            ask(&client, &gateway, &format!("the same start of {} prompts", turn % 3)).await,
            200
        );
    }
    let looked = tokio::task::spawn_blocking(move || {
        look_at(&mut browser);
        assert_eq!(browser.complaints(&own), Vec::<String>::new());
        browser
    });
    let mut browser = looked.await.expect("the page is as it should be");
    must(engines[1].kill().await);
    let killed = tokio::task::spawn_blocking(move || {
        browser.when("degraded", &format!("{HEALTH} == 'degraded'"));
        browser.when(
            "the header names it",
            "document.querySelector('#health-text').textContent.includes('r1')",
        );
        browser.when(
            "so does the list",
            "document.querySelector('#problems').textContent.includes('r1 at http')",
        );
        browser.when(
            "the tile",
            "document.querySelector(\"[data-replica='r1'] .state\").textContent == 'down'",
        );
        browser.click("#log-out");
        browser.when("the login again", "document.querySelector('#token') !== null");
    });
    killed.await.expect("the page is as it should be");
}

/// A healthy gateway's page: all of its parts are there, and the keyboard opens and closes them.
fn look_at(browser: &mut Browser) {
    browser.when("the decisions", &format!("{ROWS} >= 6"));
    let log_out = "!document.querySelector('#log-out').hidden";
    browser.when("a way out", log_out);
    browser.when("charts", "document.querySelectorAll('.plot canvas').length == 8");
    browser.when(
        "a text for each chart",
        "[...document.querySelectorAll('.plot')].every(p => \
            p.getAttribute('aria-label').includes('Now:'))",
    );
    browser.when("the place", "document.querySelector('#map svg').getAttribute('aria-label').includes('frankfurt: works')");
    browser
        .when("the version", "document.querySelector('#foot').textContent.includes('Meridian 0.')");
    fits(browser);
    browser.evaluate("document.activeElement.blur()");
    tab_to(browser, ".skip");
    tab_to(browser, ".tile button");
    browser.key("Enter");
    browser.when(
        "details of the replica",
        "document.querySelector('.details').textContent.includes('http://')",
    );
    browser.key("Escape");
    browser.when("no details", "document.querySelector('.details') === null");
    tab_to(browser, "[data-decision]");
    browser.key("Enter");
    bars_are_whole(browser, 2);
    fits(browser);
    browser.key("Escape");
    browser.when("closed", "document.querySelector('.panel') === null");
    browser.when("the focus is back", "document.activeElement.matches('[data-decision]')");
    browser.evaluate("document.activeElement.blur()");
}

// The page of `meridian up` shows all regions. A replica that its button kills is dead on its tile and
// in the header, and works again after the other button. A decision shows the bars of all candidates.
#[tokio::test]
async fn up_has_a_page() {
    let fleet = fleet();
    let args = ["up", "--time-scale", "4", "--load", "light"];
    let mut run = must(fleet.meridian("up", args, &["  page     "]).await);
    let (url, profile) = (run.said(0).to_owned(), fleet.dir().join("browser"));
    tokio::task::spawn_blocking(move || {
        let mut browser = Browser::open(&url, &profile);
        browser.when("everything works", &format!("{HEALTH} == 'ok'"));
        browser.when("the decisions", &format!("{ROWS} >= 6"));
        browser.when("all tiles", "document.querySelectorAll('.tile').length == 12");
        browser.when("roles", "document.querySelector(\"[data-replica='asia-engine-0'] .role\").textContent == 'prefill'");
        browser.when("the saved", "document.querySelector('#saved .big') !== null");
        browser.when("the rule", "document.querySelector('#rules').textContent.includes('eu-only')");
        fits(&mut browser);
        let open = "(() => { const all = [...document.querySelectorAll('[data-decision]')]; \
            const us = all.find(b => b.closest('tr').textContent.includes('us → us-engine')); us?.click(); return !!us; })()";
        browser.when("a decision of us", open);
        bars_are_whole(&mut browser, 4);
        browser.key("Escape");
        browser.click("[data-order='kill replica us-engine-1']");
        let state = "document.querySelector(\"[data-replica='us-engine-1'] .state\").textContent";
        browser.when("the tile says so", &format!("{state} == 'dead'"));
        browser.when("degraded", &format!("{HEALTH} == 'degraded'"));
        browser.when("the header names it", "document.querySelector('#health-text').textContent.includes('us-engine-1')");
        browser.click("[data-order='revive replica us-engine-1']");
        browser.when("it is back", &format!("{state} == 'up' && {HEALTH} == 'ok'"));
        assert_eq!(browser.complaints(&url), Vec::<String>::new());
    })
    .await
    .expect("the page is as it should be");
    run.terminate();
    assert!(must(run.wait(LIMIT).await).success());
}
