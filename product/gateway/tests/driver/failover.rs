//! Gateways that follow several control planes of one registry: when the one in use fails, all
//! tasks use the next. Clients notice nothing, and no lease is lost.

use std::time::Duration;

use meridian_config::Gateway as Config;
use meridian_protocol::admin::Status;
use meridian_protocol::intervals::Intervals;
use meridian_protocol::peer::Party;
use meridian_protocol::registry::{Kept, Snapshot};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::admin::Lines;
use crate::common::{Does, Fleet, Region, Replica, StandIn, call, chat, config, eventually};
use crate::kept::View;
use crate::plane::Plane;

const LEASE: Duration = Duration::from_secs(3);

/// A registry with two control planes, and one replica in it.
struct World {
    plane: Plane,
    one: StandIn,
    two: StandIn,
    replica: Replica,
}

impl World {
    async fn new() -> World {
        let (plane, replica) = (Plane::start("").await, Replica::start().await);
        let (one, two) = (StandIn::of(plane.address()).await, StandIn::of(plane.address()).await);
        let world = World { plane, one, two, replica };
        world.add("a", &world.replica).await;
        world
    }

    async fn add(&self, name: &str, replica: &Replica) {
        let record = json!({"region": "eu", "spec": {"url": replica.url()}});
        let path = format!("/admin/replicas/{name}?force=true");
        let (status, said) = self.plane.ask("PUT", &path, record).await;
        assert_eq!(status, 201, "{said}");
    }

    /// The gateway of eu, with more fields in its section.
    fn config(&self, more: &str) -> Config {
        follower(&format!("['{}', '{}']", self.one.url(), self.two.url()), more)
    }

    /// A gateway that uses the first control plane and serves the replica.
    async fn gateway(&self) -> Region {
        let eu = Region::start(self.config("")).await;
        eu.until("it uses the first control plane", |s| uses(s, &self.one) && serves(s, 1)).await;
        eu
    }

    /// When the gateway was alive, as the control plane saw it: each interval by its cause.
    async fn lives(&self) -> Vec<String> {
        let read: Intervals =
            serde_json::from_value(self.plane.get("/admin/intervals").await).unwrap();
        let all = read.gateways.iter().flat_map(|gateway| &gateway.intervals);
        all.map(|one| format!("{} {}", one.state, one.cause)).collect()
    }
}

/// The gateway of eu without replicas of its own.
fn follower(urls: &str, more: &str) -> Config {
    let text = format!("version: 1\ncontrol: {{url: {urls}, name: eu-1, lease: 3s{more}}}\n");
    let mut config = config(&[]);
    config.region = "eu".to_owned();
    config.control = Config::read(&text).unwrap().control;
    config
}

/// Whether a gateway follows the registry and holds its lease at this control plane, and its last
/// requests have not failed.
fn uses(status: &Status, plane: &StandIn) -> bool {
    let control = status.control.as_ref().unwrap();
    let well = control.state == "up" && control.problems.is_empty();
    well && control.leased && control.url == plane.url()
}

fn serves(status: &Status, count: usize) -> bool {
    let up = status.replicas.iter().filter(|r| r.state == "up" && !r.models.is_empty());
    up.count() == count
}

fn control(status: &Status) -> &meridian_protocol::admin::Control {
    status.control.as_ref().unwrap()
}

/// Clients that send requests one after the other, each of which must be answered.
struct Clients {
    stop: oneshot::Sender<()>,
    served: JoinHandle<usize>,
}

impl Clients {
    fn of(region: &Region) -> Clients {
        let listen = region.listen;
        let (stop, mut stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            let mut count = 0;
            while stopped.try_recv().is_err() {
                assert_eq!(call(listen, chat("hi")).await.status, 200);
                count += 1;
                sleep(Duration::from_millis(50)).await;
            }
            count
        });
        Clients { stop, served }
    }

    async fn stop(self) {
        self.stop.send(()).expect("no request has failed");
        assert!(self.served.await.unwrap() > 20, "requests were sent throughout");
    }
}

/// Whether the watch resumed at this control plane, without reading the whole registry again.
fn resumed(plane: &StandIn) -> bool {
    let requests = plane.requests();
    let watches = requests.iter().any(|line| line.starts_with("GET /admin/watch?from="));
    watches && !requests.contains(&"GET /admin/registry".to_owned())
}

// The first control plane is killed: the watch resumes at the second, which sends later changes, and
// the lease is renewed there. The gateway stays there when the first is back, and goes back when the second is
// killed. It was never lost, and the status and the metrics tell what happened.
#[tokio::test(start_paused = true)]
async fn one_is_killed_and_comes_back() {
    let mut world = World::new().await;
    let eu = world.gateway().await;
    let clients = Clients::of(&eu);
    let before = eu.status().await;
    assert_eq!(control(&before).others.len(), 1);
    assert_eq!((&control(&before).others[0].url, control(&before).moves), (&world.two.url(), 0));
    assert_eq!((&control(&before).others[0].problem, world.two.requests().len()), (&None, 0));

    world.one.kill().await;
    let status = eu.until("it uses the second", |s| uses(s, &world.two)).await;
    let other = &control(&status).others[0];
    assert_eq!(other.url, world.one.url());
    assert!(other.problem.is_some() && other.failed_s.is_some(), "{other:?}");
    sleep(LEASE * 4).await;
    assert!(resumed(&world.two));
    let late = Replica::start().await;
    world.add("b", &late).await;
    eu.until("a later change arrives", |s| serves(s, 2)).await;

    world.one.start_again().await;
    world.one.requests();
    sleep(LEASE * 4).await;
    assert!(uses(&eu.status().await, &world.two));
    assert_eq!(world.one.requests(), [""; 0], "it stays where it is");
    world.two.kill().await;
    eu.until("it uses the first again", |s| uses(s, &world.one)).await;
    sleep(LEASE * 4).await;
    assert!(resumed(&world.one));

    let status = eu.status().await;
    let now = control(&status);
    assert_eq!((now.losses, now.moves, now.problems.len()), (0, 2, 0), "{now:?}");
    assert_eq!(world.lives().await, ["up registered"]);
    let page = eu.admin("GET", "/metrics", "").await;
    assert!(page.text().contains("meridian_control_moves_total{} 2"), "{}", page.text());
    clients.stop().await;
}

// The first control plane hangs: it accepts connections and says nothing. Before the lease ends, it
// is renewed at the second, and the watch moves together with it.
#[tokio::test(start_paused = true)]
async fn one_hangs() {
    let world = World::new().await;
    let eu = world.gateway().await;
    let clients = Clients::of(&eu);
    world.one.does(Does::Hangs);
    let start = Instant::now();
    eu.until("it uses the second", |s| uses(s, &world.two)).await;
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    sleep(LEASE * 4).await;
    assert!(resumed(&world.two));
    let status = eu.status().await;
    assert_eq!((control(&status).losses, control(&status).moves), (0, 1));
    assert_eq!(world.lives().await, ["up registered"]);
    clients.stop().await;
}

// The first control plane loses its store: it answers 503 and keeps its watches open, with beats and
// without changes. The renewal that fails moves the watch, too.
#[tokio::test(start_paused = true)]
async fn one_loses_its_store() {
    let world = World::new().await;
    let eu = world.gateway().await;
    let clients = Clients::of(&eu);
    world.one.does(Does::Answers(503));
    let status = eu.until("it uses the second", |s| uses(s, &world.two)).await;
    let problem = control(&status).others[0].problem.clone().unwrap();
    assert_eq!(problem, "the control plane refuses (503): as the test says: 503");
    sleep(LEASE * 4).await;
    assert!(resumed(&world.two));
    assert_eq!((control(&status).losses, control(&status).moves), (0, 1));
    assert_eq!(world.lives().await, ["up registered"]);
    clients.stop().await;
}

// A refusal of this gateway moves nothing, since the other control planes have the same registry. It
// is reported as with one control plane.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_final() {
    let world = World::new().await;
    let eu = world.gateway().await;
    for status in [401, 403, 404] {
        world.one.does(Does::Answers(status));
        sleep(LEASE * 2).await;
        let now = eu.status().await;
        assert_eq!((&control(&now).url, control(&now).moves), (&world.one.url(), 0));
        assert_eq!(control(&now).state, "lost");
        let text = format!("{}: the control plane refuses ({status})", world.one.url());
        assert!(control(&now).problems.iter().any(|p| p.contains(&text)), "{now:#?}");
        assert_eq!(world.two.requests(), [""; 0]);
        world.one.does(Does::Serves);
        eu.until("it is up again", |s| uses(s, &world.one)).await;
    }
}

// Both are lost: that is one loss, reported once with its cause at each, and the gateway keeps its
// view. When one of them is back, the gateway catches up. While all is well it logs nothing more.
#[tokio::test(start_paused = true)]
async fn both_are_lost() {
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("meridian_gateway::registry=info")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut world = World::new().await;
    let eu = world.gateway().await;
    let clients = Clients::of(&eu);
    let said = |part: &str| lines.text().lines().filter(|line| line.contains(part)).count();
    let (moves, lost) = ("this gateway uses another control plane", "lost the control plane");

    world.one.kill().await;
    eu.until("it uses the second", |s| uses(s, &world.two)).await;
    assert_eq!((said(moves), said(lost)), (1, 0), "{}", lines.text());
    let text = lines.text();
    let line = text.lines().find(|line| line.contains(moves)).unwrap();
    let (from, to) =
        (format!("from=\"{}\"", world.one.url()), format!("to=\"{}\"", world.two.url()));
    assert!(line.contains(&from) && line.contains(&to) && line.contains("error="), "{line}");

    world.two.kill().await;
    eu.until("both are lost", |s| control(s).state == "lost").await;
    sleep(Duration::from_secs(60)).await;
    let status = eu.status().await;
    let now = control(&status);
    assert_eq!((now.state.as_str(), now.losses), ("lost", 1));
    assert!(serves(&status, 1));
    assert!(now.problems.iter().all(|p| p.contains(": cannot connect: ")), "{now:?}");
    assert_eq!((said(moves), said(lost)), (2, 1), "{}", lines.text());

    let late = Replica::start().await;
    world.add("b", &late).await;
    world.one.start_again().await;
    eu.until("it catches up", |s| uses(s, &world.one) && serves(s, 2)).await;
    assert_eq!(world.lives().await, ["up registered", "down lease_expired", "up registered"]);
    assert_eq!((said(moves), said(lost)), (2, 1), "{}", lines.text());
    assert_eq!(said("connected to the control plane"), 1, "{}", lines.text());
    clients.stop().await;
}

// Longer pauses follow only after all have failed, and then they grow to a third of the lease.
#[tokio::test(start_paused = true)]
async fn pauses_grow_by_rounds() {
    let mut world = World::new().await;
    let eu = world.gateway().await;
    world.one.kill().await;
    world.two.does(Does::Answers(500));
    eu.until("both are lost", |s| control(s).state == "lost").await;
    sleep(LEASE * 4).await;
    world.two.requests();
    sleep(Duration::from_secs(60)).await;
    let count = world.two.requests().len();
    // Two tasks, each with a short pause and one of 1 s in each round.
    assert!((40..=280).contains(&count), "{count}");
}

// A gateway that starts while the nearest control plane hangs soon gets its replicas from the next
// one, and its first client is answered.
#[tokio::test(start_paused = true)]
async fn a_start_while_one_hangs() {
    let world = World::new().await;
    world.one.does(Does::Hangs);
    let start = Instant::now();
    let eu = Region::start(world.config("")).await;
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    eu.until("it uses the second", |s| uses(s, &world.two)).await;
}

// The saved view is for an outage of all control planes. It is not used if only the first is down.
#[tokio::test(start_paused = true)]
async fn a_saved_view_waits_for_all() {
    let mut world = World::new().await;
    let view = View::new();
    let saved = Snapshot { store: "other".to_owned(), revision: 7, ..Snapshot::default() };
    let kept = Kept { region: "eu".to_owned(), at: 1_700_000_000, view: saved };
    std::fs::write(&view.0, kept.to_bytes()).unwrap();
    world.one.kill().await;
    let eu = Region::start(world.config(&format!(", view: '{}'", view.0.display()))).await;
    let states = async || {
        let state = control(&eu.status().await).state.clone();
        assert_ne!(state, "kept");
        (state == "up").then_some(())
    };
    eventually("it follows the second", states).await;
}

// A gateway that shuts down deregisters at the next control plane if its own one hangs.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_goes_says_so_elsewhere() {
    let world = World::new().await;
    let mut eu = world.gateway().await;
    world.one.does(Does::Hangs);
    let start = Instant::now();
    eu.shut_down();
    let left = async || (world.lives().await.len() == 2).then_some(());
    eventually("it has left", left).await;
    assert_eq!(world.lives().await, ["up registered", "removed left"]);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

// An address at which no TLS is spoken counts as one that cannot be reached.
#[tokio::test(start_paused = true)]
async fn one_speaks_no_tls() {
    let fleet = Fleet::new("prod");
    let files = fleet.issue(&Party::control("prod", "c-1").unwrap(), "control");
    let tls = |files: &meridian_tls::Files| {
        let (ca, certificate, key) = (fleet.ca(), &files.certificate, &files.key);
        format!(
            "tls: {{ca: '{}', certificate: '{}', key: '{}'}}",
            ca.display(),
            certificate.display(),
            key.display()
        )
    };
    let plane = Plane::start(&format!("{}\n", tls(&files))).await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let _other = tokio::spawn(async move {
        loop {
            let (mut stream, _) = other.accept().await.unwrap();
            let text = b"220 mail.example.org ESMTP\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, text).await;
        }
    });
    let own = fleet.issue(&Party::Gateway(fleet.identity("eu")), "eu");
    let urls = format!("['https://{address}', 'https://{}']", plane.address());
    let eu = Region::start(follower(&urls, &format!(", {}", tls(&own)))).await;
    let url = format!("https://{}", plane.address());
    let is_up = |s: &Status| control(s).state == "up" && control(s).leased;
    let status = eu.until("it uses the other", is_up).await;
    assert_eq!((&control(&status).url, control(&status).losses), (&url, 0));
    let problem = control(&status).others[0].problem.clone().unwrap();
    assert!(problem.starts_with("cannot connect: "), "{problem}");
}

// A gateway announces the addresses at which clients reach it; without any, it announces none.
#[tokio::test(start_paused = true)]
async fn public_addresses_are_announced() {
    let plane = Plane::start("").await;
    let url = format!("'{}'", plane.url());
    let eu = Region::start(follower(&url, ", public: [203.0.113.7, '2001:db8::7']")).await;
    let mut us = follower(&url, "");
    us.region = "us".to_owned();
    us.control.as_mut().unwrap().name = Some("us-1".to_owned());
    let us = Region::start(us).await;
    for region in [&eu, &us] {
        region.until("it is alive", |s| control(s).leased).await;
    }
    let gateways = plane.get("/admin/gateways").await;
    assert_eq!(gateways[0]["public"], json!(["203.0.113.7", "2001:db8::7"]), "{gateways}");
    assert_eq!((&gateways[1]["name"], &gateways[1]["public"]), (&json!("us-1"), &Value::Null));
}
