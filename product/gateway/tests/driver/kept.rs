//! Gateways that start while the control plane is down, with the view saved in a file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use meridian_config::Gateway as Config;
use meridian_protocol::admin::Status;
use meridian_protocol::registry::Kept;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::common::{Region, Replica, call, chat, config, eventually};
use crate::plane::Plane;

/// A file for one test.
pub(crate) struct View(pub(crate) PathBuf);

impl View {
    pub(crate) fn new() -> View {
        static VIEWS: AtomicU32 = AtomicU32::new(0);
        let number = VIEWS.fetch_add(1, Ordering::Relaxed);
        let name = format!("meridian-view-{}-{number}", std::process::id());
        View(std::env::temp_dir().join(name))
    }

    fn read(&self) -> Option<Kept> {
        Kept::read(&std::fs::read(&self.0).ok()?, "eu").ok()
    }

    /// Waits until it contains this many replicas.
    async fn holds(&self, replicas: usize) -> Kept {
        let held = async || self.read().filter(|kept| kept.view.replicas.len() == replicas);
        eventually("the view is saved", held).await
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The gateway of eu, which has no replica of its own and saves its view.
fn keeper(url: &str, view: &View) -> Config {
    let file = view.0.display();
    let text =
        format!("version: 1\ncontrol: {{url: '{url}', name: eu-1, lease: 3s, view: '{file}'}}\n");
    let mut config = config(&[]);
    config.region = "eu".to_owned();
    config.control = Config::read(&text).unwrap().control;
    config
}

async fn add(plane: &Plane, name: &str, replica: &Replica) {
    let record = json!({"region": "eu", "spec": {"url": replica.url()}});
    let (status, said) =
        plane.ask("PUT", &format!("/admin/replicas/{name}?force=true"), record).await;
    assert_eq!(status, 201, "{said}");
}

async fn set_policy(plane: &Plane, policy: &str) {
    let (status, said) = plane.ask("PUT", "/admin/regions/eu/policy", json!(policy)).await;
    assert_eq!(status, 200, "{said}");
}

fn word(status: &Status) -> &str {
    &status.control.as_ref().unwrap().state
}

fn problems(status: &Status) -> String {
    status.control.as_ref().unwrap().problems.join("\n")
}

fn serve(count: usize) -> impl Fn(&Status) -> bool {
    move |s| s.replicas.iter().filter(|r| r.state == "up" && !r.models.is_empty()).count() == count
}

// A gateway that starts while the control plane is down serves the same replicas as before, with
// the policy that was in force, and reports the age of its view. When the control plane is back,
// missed changes are applied, and the file is updated.
#[tokio::test(start_paused = true)]
async fn a_start_without_the_control_plane() {
    let (mut plane, view) = (Plane::start("").await, View::new());
    let (one, two) = (Replica::start().await, Replica::start().await);
    add(&plane, "a", &one).await;
    set_policy(&plane, "least_outstanding").await;
    let eu = Region::start(keeper(&plane.url(), &view)).await;
    eu.until("it serves", serve(1)).await;
    view.holds(1).await;
    eu.served.abort();
    plane.stop().await;

    let eu = Region::start(keeper(&plane.url(), &view)).await;
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    sleep(Duration::from_secs(60)).await;
    let status = eu.until("it serves", serve(1)).await;
    assert_eq!((word(&status), &*status.policy), ("kept", "least_outstanding"));
    let control = status.control.as_ref().unwrap();
    assert!(control.lost_s.unwrap() >= 60.0 && control.view_age_s.unwrap() >= 60.0);
    assert_eq!(control.losses, 1);
    let page = eu.admin("GET", "/metrics", "").await.text().to_owned();
    assert!(page.contains("meridian_control_up{} 0"), "{page}");
    let age = page.lines().find_map(|l| l.strip_prefix("meridian_control_view_age_seconds{} "));
    assert!(age.unwrap().parse::<f64>().unwrap() >= 60.0, "{age:?}");

    plane.start_again().await;
    add(&plane, "b", &two).await;
    set_policy(&plane, "random").await;
    let follows = |s: &Status| word(s) == "up" && serve(2)(s) && s.policy == "random";
    let status = eu.until("it catches up", follows).await;
    assert!(status.control.unwrap().view_age_s.unwrap() < 10.0);
    sleep(Duration::from_secs(5)).await;
    let (kept, now) = (view.holds(2).await.view, plane.snapshot().await);
    assert_eq!((kept.regions, kept.replicas), (now.regions, now.replicas));
}

// The control plane's view replaces the file's: it is read in full and not as an update, though the
// file has a later revision.
#[tokio::test(start_paused = true)]
async fn the_control_plane_replaces_the_file() {
    let (mut plane, view) = (Plane::start("").await, View::new());
    let (one, two) = (Replica::start().await, Replica::start().await);
    add(&plane, "a", &one).await;
    let mut stale = plane.snapshot().await;
    stale.replicas.get_mut("a").unwrap().spec.url = two.url();
    stale.revision += 10;
    let stale = Kept { region: "eu".into(), at: 0, view: stale };
    std::fs::write(&view.0, stale.to_bytes()).unwrap();
    plane.stop().await;
    let eu = Region::start(keeper(&plane.url(), &view)).await;
    let status = eu.until("it serves", serve(1)).await;
    assert_eq!((word(&status), &status.replicas[0].url), ("kept", &two.url()));
    assert_eq!(view.read(), Some(stale), "the saved view is unchanged");
    plane.start_again().await;
    let replaced = |s: &Status| word(s) == "up" && serve(1)(s) && s.replicas[0].url == one.url();
    eu.until("the file is replaced", replaced).await;
    let now = async || view.read().filter(|kept| kept.at > 0);
    let kept = eventually("the file was written again", now).await;
    assert_eq!(kept.view.replicas["a"].spec.url, one.url());
}

// A control plane that accepts connections and stays silent delays clients for two seconds.
#[tokio::test(start_paused = true)]
async fn a_silent_control_plane() {
    let view = View::new();
    let replica = Replica::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let snapshot = serde_json::from_value(json!({
        "store": "s", "revision": 7, "regions": {}, "gateways": {},
        "replicas": {"a": {"region": "eu", "spec": {"url": replica.url()}}}
    }));
    let kept = Kept { region: "eu".into(), at: 1_700_000_000, view: snapshot.unwrap() };
    std::fs::write(&view.0, kept.to_bytes()).unwrap();
    let start = Instant::now();
    let eu = Region::start(keeper(&url, &view)).await;
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let status = eu.status().await;
    assert_eq!(word(&status), "kept");
    assert!(status.control.unwrap().view_age_s.unwrap() > 1e6);
}

// A file that is damaged or of another region's gateway prevents no start. It is reported, and
// replaced as soon as the control plane has sent its view.
#[tokio::test(start_paused = true)]
async fn bad_files_are_ignored() {
    let mut plane = Plane::start("").await;
    let replica = Replica::start().await;
    add(&plane, "a", &replica).await;
    let snapshot = plane.snapshot().await;
    let good = Kept { region: "eu".into(), at: 1_700_000_000, view: snapshot }.to_bytes();
    let other = String::from_utf8(good.clone()).unwrap().replacen("\"eu\"", "\"us\"", 1);
    for (bytes, part) in
        [(&good[..good.len() - 9], "incomplete"), (other.as_bytes(), "region: is `us`")]
    {
        let view = View::new();
        std::fs::write(&view.0, bytes).unwrap();
        plane.stop().await;
        let eu = Region::start(keeper(&plane.url(), &view)).await;
        let status = eu.until("it is reported", |s| problems(s).contains("control.view: ")).await;
        assert!(word(&status) == "unseen" && problems(&status).contains(part), "{status:#?}");
        plane.start_again().await;
        eu.until("it serves", serve(1)).await;
        view.holds(1).await;
        eu.until("there is no problem any more", |s| problems(s).is_empty()).await;
        eu.served.abort();
        let gone = async || plane.get("/admin/gateways").await.as_array()?.is_empty().then_some(());
        eventually("its name is free", gone).await;
    }
}

// If no file can be written at the start, that is an error; if it vanishes later, that is reported,
// and the gateway keeps serving.
#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_written() {
    let plane = Plane::start("").await;
    let replica = Replica::start().await;
    let folder = View::new();
    let inside = View(folder.0.join("eu-1.view"));
    let config = keeper(&plane.url(), &inside);
    let error = meridian_gateway::serve(config, 0, |_| {}, std::future::pending()).await;
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("control.view: ") && error.contains("; use a file in"), "{error}");

    std::fs::create_dir(&folder.0).unwrap();
    let eu = Region::start(keeper(&plane.url(), &inside)).await;
    inside.holds(0).await;
    std::fs::remove_dir_all(&folder.0).unwrap();
    add(&plane, "a", &replica).await;
    let is_reported = |s: &Status| problems(s).contains("cannot be written");
    eu.until("the problem is reported", is_reported).await;
    eu.until("it serves", serve(1)).await;
    std::fs::create_dir(&folder.0).unwrap();
    sleep(Duration::from_secs(40)).await;
    inside.holds(1).await;
    eu.until("there is no problem any more", |s| problems(s).is_empty()).await;
    std::fs::remove_dir_all(&folder.0).unwrap();
}

// A burst of changes is written at most once a second. An unchanged view is rewritten from time to
// time, so its age shows the last contact with the control plane and not the last change.
#[tokio::test(start_paused = true)]
async fn changes_are_gathered() {
    let (plane, view) = (Plane::start("").await, View::new());
    let eu = Region::start(keeper(&plane.url(), &view)).await;
    eu.until("it is alive", |s| s.control.as_ref().unwrap().leased).await;
    let mut files = 0;
    let mut last = Vec::new();
    let start = Instant::now();
    for number in 0..40 {
        let path = format!("/admin/replicas/r{number}?force=true");
        let record =
            json!({"region": "us", "spec": {"url": format!("http://10.0.0.1:{}", 1000 + number)}});
        assert_eq!(plane.ask("PUT", &path, record).await.0, 201);
        sleep(Duration::from_millis(100)).await;
        let now = std::fs::read(&view.0).unwrap_or_default();
        files += u64::from(now != last);
        last = now;
    }
    assert!(files <= start.elapsed().as_secs() + 2, "{files} in {:?}", start.elapsed());
    view.holds(40).await;
    std::fs::write(&view.0, "").unwrap();
    sleep(Duration::from_secs(40)).await;
    assert!(view.read().is_some(), "an unchanged view is rewritten");
}
