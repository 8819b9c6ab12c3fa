//! Hot reload of the configuration file: tenants and rules change while the gateway serves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meridian_config::{Gateway as Config, TenantLimits};
use meridian_gateway::Given;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::common::{Region, Replica, call, chat, config};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";

/// A gateway with one replica, and its file.
struct World {
    file: PathBuf,
    config: Config,
    region: Region,
    reload: Arc<Notify>,
    // Keeps the replica serving.
    _replica: Replica,
}

impl World {
    async fn new(name: &str) -> World {
        let replica = Replica::start().await;
        let mut config = config(&[&replica]);
        config.tenants = vec![tenant("acme", KEY)];
        let id = std::process::id();
        let file = std::env::temp_dir().join(format!("meridian-access-{name}-{id}.yaml"));
        std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
        let given =
            Given { config: config.clone(), file: Some(file.clone()), ..config.clone().into() };
        let reload = given.reload.clone();
        let region = Region::start(given).await;
        region.until("the replica is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
        World { file, config, region, reload, _replica: replica }
    }

    /// Writes the file, and waits until the change takes effect.
    async fn write(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    async fn change(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.write(&self.config.print_with_secrets().unwrap()).await;
    }

    async fn status_of(&self, key: &str) -> u16 {
        call(self.region.listen, bearing(chat("hi"), key)).await.status
    }

    /// The statuses of requests with the two keys.
    async fn both(&self) -> [u16; 2] {
        [self.status_of(KEY).await, self.status_of(OTHER).await]
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

// An added key works, a removed one does not, and the configuration page shows the state in force.
#[tokio::test(start_paused = true)]
async fn keys_are_given_and_taken_back() {
    let mut world = World::new("keys").await;
    assert_eq!(world.both().await, [200, 401]);
    world.change(|config| config.tenants.push(tenant("other", OTHER))).await;
    assert_eq!(world.both().await, [200, 200]);
    world.change(|config| drop(config.tenants.remove(0))).await;
    assert_eq!(world.both().await, [401, 200]);
    let page = world.region.admin("GET", "/admin/config", "").await;
    let page = page.text();
    assert!(page.contains("other") && !page.contains("acme"), "{page}");
}

// A new rule applies to the requests that arrive after it, and is counted by its name; a widened
// rule lets them through again. The last rule can't be removed while the gateway serves.
#[tokio::test(start_paused = true)]
async fn rules_are_made_and_widened() {
    let mut world = World::new("rules").await;
    const KEYS: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
    let rules = |places: &str| {
        let text = format!(
            "version: 1\ntenants: [{{name: acme, keys: ['{KEYS}']}}]\nresidency: {{rules: [{{name: kept, tenants: [acme], run_in: {places}}}]}}"
        );
        Config::read(&text).unwrap().residency
    };
    world.change(|config| config.residency = rules("[elsewhere]")).await;
    let answer = call(world.region.listen, bearing(chat("hi"), KEY)).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "not_permitted"));
    let own = world.config.region.clone();
    world.change(|config| config.residency = rules(&format!("[elsewhere, {own}]"))).await;
    let answer = call(world.region.listen, bearing(chat("hi"), KEY)).await;
    assert_eq!((answer.status, answer.header("x-meridian-residency")), (200, "kept"));
    let counted = world.region.status().await.residency.unwrap().rules;
    assert_eq!((counted[0].rule.as_str(), counted[0].served, counted[0].refused), ("kept", 1, 1));
    world.change(|config| config.residency = Default::default()).await;
    let answer = call(world.region.listen, bearing(chat("hi"), KEY)).await;
    assert_eq!(answer.header("x-meridian-residency"), "kept");
}

// An unreadable, truncated or missing file leaves everything as it is. So does a change that only one
// poll sees.
#[tokio::test(start_paused = true)]
async fn nothing_else_counts() {
    let world = World::new("others").await;
    let whole = world.config.print_with_secrets().unwrap();
    for text in ["version: 1\ntenants: [", "version: 1\n", "version: 1\ntenants: [{nam: a}]\n"] {
        world.write(text).await;
        assert_eq!(world.both().await, [200, 401], "{text}");
    }
    std::fs::remove_file(&world.file).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.both().await, [200, 401]);
    world.write(&whole).await;
    // No two polls in a row see the same contents.
    for _ in 0..4 {
        std::fs::write(&world.file, whole.replace("acme", "acme2")).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        std::fs::write(&world.file, &whole).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let page = world.region.admin("GET", "/admin/config", "").await;
    let page = page.text();
    assert!(!page.contains("acme2"), "{page}");
}

// A requested reload uses the file at once, without the two polls that a change otherwise needs,
// however often it is requested in a row. An invalid file changes nothing then either, and the next
// reload uses the repaired file.
#[tokio::test(start_paused = true)]
async fn a_reload_is_at_once() {
    let mut world = World::new("reload").await;
    world.config.tenants.push(tenant("other", OTHER));
    let good = world.config.print_with_secrets().unwrap();
    for (text, expected) in [("version: 1\ntenants: [", [200, 401]), (&good, [200, 200])] {
        std::fs::write(&world.file, text).unwrap();
        for _ in 0..3 {
            world.reload.notify_one();
            // Lets the gateway's task run; paused time passes in steps far below the polling
            // interval.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let start = Instant::now();
        assert_eq!(world.both().await, expected, "{text}");
        assert!(start.elapsed() < Duration::from_secs(1), "the file was polled meanwhile");
    }
}

// A tenant's limit keeps its state when the file changes elsewhere, and starts full when the limit
// itself changes.
#[tokio::test(start_paused = true)]
async fn limits_keep_their_state() {
    let mut world = World::new("limits").await;
    let limits =
        |requests| TenantLimits { requests_per_minute: Some(requests), ..TenantLimits::default() };
    world.change(|config| config.tenants[0].limits = limits(1)).await;
    assert_eq!(world.both().await, [200, 401]);
    assert_eq!(world.both().await, [429, 401]);
    world.change(|config| config.tenants.push(tenant("other", OTHER))).await;
    assert_eq!(world.both().await, [429, 200]);
    world.change(|config| config.tenants[0].limits = limits(2)).await;
    assert_eq!(world.both().await, [200, 200]);
}
