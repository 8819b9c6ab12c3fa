//! Service discovery: replicas that join and leave through a file and the DNS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use hickory_resolver::proto::op::ResponseCode;
use meridian_config::Source;
use meridian_gateway::Given;
use meridian_protocol::admin::{Source as SourceStatus, Status};

use crate::common::{Dns, Region, Replica, Script, call, chat, config, get, open, stream_chat};

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

async fn region(source: Source) -> Region {
    let mut config = config(&[]);
    config.discovery = vec![source];
    Region::start(config).await
}

/// The addresses of the replicas in service.
fn up(status: &Status) -> Vec<&str> {
    let up = status.replicas.iter().filter(|r| r.state == "up" && !r.models.is_empty());
    let mut up: Vec<&str> = up.map(|r| r.url.as_str()).collect();
    up.sort_unstable();
    up
}

async fn until(region: &Region, wanted: &[&Replica]) -> SourceStatus {
    let mut urls: Vec<String> = wanted.iter().map(|r| r.url()).collect();
    urls.sort_unstable();
    let there = |s: &Status| up(s) == urls && s.replicas.len() == urls.len();
    region.until("these replicas serve and no others are here", there).await.discovery[0].clone()
}

async fn failing(region: &Region, why: &str) -> SourceStatus {
    let shown = |s: &Status| s.discovery[0].trouble.as_ref().is_some_and(|t| t.contains(why));
    region.until(why, shown).await.discovery[0].clone()
}

/// A list in its own file, deleted after the test.
pub(crate) struct List(PathBuf);

impl List {
    pub(crate) fn new(name: &str) -> List {
        let id = std::process::id();
        List(std::env::temp_dir().join(format!("meridian-discovery-{id}-{name}.yaml")))
    }

    /// Written like an editor does: to a new file, which is then renamed.
    fn write(&self, text: &str) {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &self.0).unwrap();
    }

    pub(crate) fn of(&self, replicas: &[&Replica]) {
        let lines: Vec<String> = replicas.iter().map(|r| format!("- url: {}", r.url())).collect();
        self.write(&if lines.is_empty() { "[]".to_owned() } else { lines.join("\n") });
    }

    pub(crate) fn source(&self) -> Source {
        Source { file: Some(self.0.clone()), ..Source::default() }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// A file's replicas serve, join and leave with it, and have the attributes in it.
#[tokio::test(start_paused = true)]
async fn a_file_is_followed() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = List::new("followed");
    list.of(&[&a]);
    let region = region(list.source()).await;
    let source = until(&region, &[&a]).await;
    assert_eq!((source.replicas, source.failures, source.trouble), (1, 0, None));
    assert!(source.name.starts_with("file /"), "{}", source.name);
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    list.of(&[&a, &b]);
    until(&region, &[&a, &b]).await;
    list.of(&[&b]);
    until(&region, &[&b]).await;
    // The list may be JSON; a replica with a changed description leaves and joins again.
    list.write(&format!(r#"[{{"url":"{}","models":["other"]}}]"#, b.url()));
    region.until("it serves the other model", |s| s.replicas[0].models == ["other"]).await;
    list.of(&[]);
    until(&region, &[]).await;
}

// A file that is invalid, half written, too long or missing changes nothing and is reported; once
// valid again, it takes effect.
#[tokio::test(start_paused = true)]
async fn a_bad_file_keeps_the_last_good_list() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = List::new("bad");
    let region = region(list.source()).await;
    failing(&region, "cannot be read").await;
    list.of(&[&a]);
    let good = until(&region, &[&a]).await;
    assert_eq!((good.failures, good.trouble), (1, None));
    for (n, (text, why)) in [
        ("", "the list is empty"),
        ("- url: http://a:1\n- ur", "line 2"),
        ("- {url: http://a:1, wight: 2}", "wight"),
        ("- url: ftp://a:1", "[0].url: `ftp://a:1` has the scheme ftp"),
    ]
    .into_iter()
    .enumerate()
    {
        list.write(text);
        let source = failing(&region, why).await;
        assert_eq!((source.replicas, source.failures), (1, n as u64 + 2), "{why}");
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let page = get(region.admin, "/metrics").await;
    let page = page.text();
    let label = format!("{{source=\"file {}\"}}", list.0.display());
    for line in [
        "meridian_discovery_good{} 0",
        "meridian_discovery_replicas{} 1",
        "meridian_discovery_failures_total{} 5",
    ] {
        let line = line.replace("{}", &label);
        assert!(page.contains(&line), "{line} is missing in {page}");
    }
    list.of(&[&b]);
    assert_eq!(until(&region, &[&b]).await.trouble, None);
    std::fs::remove_file(&list.0).unwrap();
    failing(&region, "cannot be read").await;
    assert_eq!(up(&region.status().await), [b.url()]);
}

// A replica that is no longer listed finishes its requests and takes no new ones. If it is listed
// again meanwhile, it keeps serving, and no request is cut.
#[tokio::test(start_paused = true)]
async fn who_is_listed_no_more_drains() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = List::new("drains");
    list.of(&[&a]);
    let region = region(list.source()).await;
    until(&region, &[&a]).await;
    a.then(
        Script::sse().event(EVENT).wait(60_000 * MS).event("data: [DONE]\n\n").send("0\r\n\r\n"),
    );
    let mut long = open(region.listen, stream_chat("long")).await;
    long.read_to("w").await;
    list.of(&[&b]);
    let draining =
        |s: &Status| s.replicas.iter().any(|r| r.url == a.url() && r.state == "draining");
    region.until("a drains", draining).await;
    region.until("b serves", |s| up(s) == [b.url()]).await;
    for _ in 0..3 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    assert_eq!((a.count(), b.count()), (1, 3), "a draining replica gets no new requests");
    list.of(&[&a, &b]);
    region.until("both serve", |s| up(s).len() == 2).await;
    assert_eq!(
        region.status().await.replicas.iter().find(|r| r.url == a.url()).unwrap().outstanding,
        1
    );
    list.of(&[&b]);
    let rest = long.rest().await;
    assert!(!rest.cut && rest.text().ends_with("[DONE]\n\n"), "{:?}", rest.text());
    until(&region, &[&b]).await;
}

// A source can't remove replicas of the gateway's own file.
#[tokio::test(start_paused = true)]
async fn who_was_here_before_stays() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = List::new("before");
    list.of(&[&a, &b]);
    let mut config = config(&[&a]);
    config.discovery = vec![list.source()];
    let region = Region::start(config).await;
    assert_eq!(until(&region, &[&a, &b]).await.replicas, 1);
    list.of(&[]);
    until(&region, &[&a]).await;
}

/// The URLs of the replicas, whether or not they answer.
fn here(status: &Status) -> Vec<&str> {
    status.replicas.iter().map(|r| r.url.as_str()).collect()
}

// Beyond the limit, the first replicas of a list join and the rest are left out: one problem names
// the limit, the status and the metrics count the replicas. The next in the list joins when one
// leaves, and those that are here stay when others are listed before them.
#[tokio::test(start_paused = true)]
async fn beyond_the_limit() {
    let (a, b, c, d) = (
        Replica::start().await,
        Replica::start().await,
        Replica::start().await,
        Replica::start().await,
    );
    let list = List::new("limit");
    list.of(&[&b, &c, &d]);
    let mut config = config(&[&a]);
    config.limits.replicas = 2;
    config.discovery = vec![list.source()];
    let region = Region::start(config).await;
    let status = region.until("two are left out", |s| s.discovery[0].left_out == 2).await;
    assert_eq!(here(&status), [a.url(), b.url()]);
    let problems = &status.discovery[0].problems;
    assert_eq!(
        problems,
        &[
            "limits.replicas: the gateway has 2 replicas, as many as it may; raise the limit (to at most 65535), or remove a replica"
        ]
    );
    let page = get(region.admin, "/metrics").await;
    let path = list.0.display();
    let line = format!("meridian_replicas_left_out{{source=\"file {path}\"}} 2");
    assert!(page.text().contains(&line), "{line} is missing in {}", page.text());

    list.of(&[&c, &d]);
    let status = region.until("one is left out", |s| s.discovery[0].left_out == 1).await;
    assert_eq!(here(&status), [a.url(), c.url()]);
    list.of(&[&b, &d, &c]);
    let status = region.until("two are left out", |s| s.discovery[0].left_out == 2).await;
    assert_eq!(here(&status), [a.url(), c.url()]);
    list.of(&[&c]);
    let status = region.until("none is left out", |s| s.discovery[0].left_out == 0).await;
    assert_eq!(status.discovery[0].problems, [""; 0]);
}

// The addresses of a name join in their order, up to the limit.
#[tokio::test(start_paused = true)]
async fn addresses_beyond_the_limit() {
    let server = Dns::start().await;
    let ip = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    server.addresses("vllm.test.", 1, &[ip(9), ip(3), ip(7), ip(5)]);
    let mut config = config(&[]);
    config.limits.replicas = 2;
    config.discovery = vec![dns(&server, "vllm.test.:1")];
    let region = Region::start(config).await;
    let status = region.until("two are left out", |s| s.discovery[0].left_out == 2).await;
    assert_eq!(here(&status), ["http://127.0.0.3:1", "http://127.0.0.5:1"]);
}

fn dns(server: &Dns, name: &str) -> Source {
    Source { dns: Some(name.to_owned()), server: Some(server.addr), ..Source::default() }
}

// A reload reads the file and resolves the name at once, though the DNS answer is valid for
// minutes.
#[tokio::test(start_paused = true)]
async fn a_reload_asks_again() {
    let (server, a, b) = (Dns::start().await, Replica::start().await, Replica::start().await);
    server.addresses("vllm.test.", 300, &[ANY]);
    let list = List::new("reload");
    list.of(&[&b]);
    let mut config = config(&[]);
    let file = Source { file: Some(list.0.clone()), ..Source::default() };
    config.discovery = vec![file, dns(&server, &format!("vllm.test.:{}", a.addr.port()))];
    let given = Given::from(config);
    let reload = given.reload.clone();
    let region = Region::start(given).await;
    until(&region, &[&a, &b]).await;
    let asked = server.asked();
    let c = Replica::start().await;
    list.of(&[&b, &c]);
    reload.notify_one();
    tokio::time::sleep(100 * MS).await;
    assert!(server.asked() > asked);
    until(&region, &[&a, &b, &c]).await;
}

// One replica per address, A and AAAA; the name is resolved again when the answer has expired and
// not before.
#[tokio::test(start_paused = true)]
async fn a_name_is_followed() {
    let (server, a) = (Dns::start().await, Replica::start().await);
    server.addresses("vllm.test.", 10, &[ANY]);
    let region = region(dns(&server, &format!("vllm.test.:{}", a.addr.port()))).await;
    let source = until(&region, &[&a]).await;
    assert_eq!((source.replicas, source.failures), (1, 0));
    let asked = server.asked();
    tokio::time::sleep(6_000 * MS).await;
    assert_eq!(server.asked(), asked, "the answer holds for 10 s");
    server.addresses("vllm.test.", 10, &[ANY, IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    let six = format!("http://[::1]:{}", a.addr.port());
    region.until("the other address is here", |s| s.replicas.iter().any(|r| r.url == six)).await;
    assert!(server.asked() > asked);
    server.addresses("vllm.test.", 10, &[ANY]);
    until(&region, &[&a]).await;
}

// Whatever fails at the name server, the last replicas found stay and the trouble is reported.
#[tokio::test(start_paused = true)]
async fn failed_resolution_keeps_the_last_view() {
    let (server, a) = (Dns::start().await, Replica::start().await);
    server.addresses("vllm.test.", 1, &[ANY]);
    let name = format!("vllm.test.:{}", a.addr.port());
    let region = region(dns(&server, &name)).await;
    until(&region, &[&a]).await;
    for code in [
        ResponseCode::ServFail,
        ResponseCode::NXDomain,
        ResponseCode::Refused,
        ResponseCode::NoError,
    ] {
        server.fails(Some(code));
        let source = failing(&region, "vllm.test").await;
        assert_eq!((source.replicas, source.good_s.is_some()), (1, true), "{code}");
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
        server.fails(None);
        region.until("the trouble is over", |s| s.discovery[0].trouble.is_none()).await;
    }
    until(&region, &[&a]).await;
}

// SRV: addresses and ports of the targets of the lowest priority, with their weights.
#[tokio::test(start_paused = true)]
async fn services_are_followed() {
    let (server, a, b) = (Dns::start().await, Replica::start().await, Replica::start().await);
    let services = |first: &[(u16, &Replica)]| {
        let one = |(priority, r): &(u16, &Replica)| (*priority, 5, r.addr.port(), "host.test.");
        let all: Vec<_> = first.iter().map(one).collect();
        server.services("_http._tcp.vllm.test.", 1, &all);
    };
    server.addresses("host.test.", 60, &[ANY]);
    services(&[(1, &a), (2, &b)]);
    let srv = Some("_http._tcp.vllm.test.".to_owned());
    let region = region(Source { srv, server: Some(server.addr), ..Source::default() }).await;
    until(&region, &[&a]).await;
    services(&[(1, &a), (1, &b)]);
    until(&region, &[&a, &b]).await;
    services(&[(2, &b)]);
    until(&region, &[&b]).await;
}

// An unreachable name server is trouble like any other.
#[tokio::test(start_paused = true)]
async fn no_name_server() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = Some(silent.local_addr().unwrap());
    let dns = Some("vllm.test.:8000".to_owned());
    let region = region(Source { dns, server, ..Source::default() }).await;
    let source = failing(&region, "vllm.test").await;
    assert_eq!((source.replicas, source.good_s), (0, None));
}
