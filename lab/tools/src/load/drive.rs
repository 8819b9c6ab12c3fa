//! Runs a load: starts programs, walks them, and stops.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::HeaderValue;
use meridian_workload::{Day, Poisson, ProgramKey, Walk};
use tokio::task::JoinSet;

use super::body::{self, Reply};
use super::exchange::exchange;
use super::live::{Progress, Ticker};
use super::options::{Arrivals, Options};
use super::outcome::{End, ErrorKind, Seen};
use super::report::Report;
use super::state::Load;
use super::tally::Started;
use super::{gateway, http as client, warm};

/// Pause of a closed-loop client after a failed program: it must not hammer a dead endpoint.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the load until its limits are reached or `stop` resolves, waits for requests in flight, and
/// reports.
pub async fn run(
    options: Options,
    mut progress: Option<Box<dyn Progress>>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    options.validate()?;
    let http = client::client(options.connect_timeout);
    let model = model(&options).await?;
    let mut load = Load::new(options, http, &model)?;
    let mut stop = Box::pin(stop);
    let warmed = match &load.options.warm {
        Some(warm) => tokio::select! {
            warmed = warm::warm(&load, warm) => Some(warmed?),
            () = &mut stop => bail!("stopped while warming; no request was sent"),
        },
        None => None,
    };
    let before = match &load.options.check_gateway {
        Some(admin) => Some(gateway::status(&load.http, admin).await?),
        None => None,
    };
    load.start = Instant::now();
    let load = Arc::new(load);
    let mut programs = JoinSet::new();
    start(&load, &mut programs);

    let mut ticker = Ticker::default();
    let mut ticks = tokio::time::interval(load.options.tick);
    ticks.tick().await;
    let mut deadline = Box::pin(limit(load.options.duration));
    let mut draining = false;
    loop {
        tokio::select! {
            ended = programs.join_next() => match ended {
                Some(ended) => ended.context("a client of the load generator failed")?,
                None => break,
            },
            _ = ticks.tick() => {
                load.flush_records();
                if let Some(progress) = &mut progress {
                    let live = ticker.tick(load.start.elapsed().as_secs_f64(), &mut load.tally());
                    progress.tick(&live);
                }
            }
            () = &mut stop, if !draining => {
                draining = load.stop();
                deadline.set(limit(Some(load.options.drain)));
            }
            () = &mut deadline => {
                if draining {
                    break;
                }
                draining = load.stop();
                deadline.set(limit(Some(load.options.drain)));
            }
        }
    }
    load.stop();
    programs.shutdown().await;
    if let Some(progress) = &mut progress {
        let live = ticker.tick(load.start.elapsed().as_secs_f64(), &mut load.tally());
        progress.tick(&live);
    }
    let mut report = load.report(&model)?;
    report.warmed = warmed;
    report.gateway = gateway::check(&load.http, &load.options, before, &report).await?;
    Ok(report)
}

async fn limit(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

/// The requested model, or the first one that the endpoint serves.
///
/// # Errors
/// An endpoint that lists no model.
pub(crate) async fn model(options: &Options) -> anyhow::Result<String> {
    if let Some(model) = &options.model {
        return Ok(model.clone());
    }
    let first = models(options).await?.into_iter().next();
    first.with_context(|| format!("{} lists no model: name one with --model", options.url))
}

/// The models that the endpoint lists.
///
/// # Errors
/// An endpoint without such a list.
pub(crate) async fn models(options: &Options) -> anyhow::Result<Vec<String>> {
    let http = client::client(options.connect_timeout);
    let uri = client::join(&options.url, "/v1/models")?;
    let list = client::get_json(&http, uri, options.any_key(), Duration::from_secs(10)).await?;
    let ids = list["data"].as_array().into_iter().flatten();
    Ok(ids.filter_map(|model| model["id"].as_str().map(str::to_owned)).collect())
}

/// Spawns the clients of a closed loop, or the clock of an open one.
fn start(load: &Arc<Load>, programs: &mut JoinSet<()>) {
    let per_second = match load.options.arrivals {
        Arrivals::Closed { clients } | Arrivals::Throughput { most: clients } => {
            for client in 0..clients {
                programs.spawn(closed(load.clone(), client, clients));
            }
            return;
        }
        Arrivals::Recorded { .. } => {
            let recorded = load.options.recorded.clone();
            let times = recorded.map(|recorded| recorded.times().to_vec()).unwrap_or_default();
            programs.spawn(open(load.clone(), times.into_iter()));
            return;
        }
        Arrivals::Programs { per_second } => per_second,
        Arrivals::Requests { per_second } => per_second / load.generator.mean_requests().max(1.0),
    };
    let seed = load.options.arrival_seed.unwrap_or(load.options.seed);
    programs.spawn(open(load.clone(), Poisson::new(seed, per_second)));
}

/// One client of a closed loop.
async fn closed(load: Arc<Load>, client: u32, clients: u32) {
    tokio::time::sleep(load.options.ramp * client / clients).await;
    for ordinal in 0..load.options.share_of(client, clients) {
        if load.stopped.load(Relaxed) {
            return;
        }
        while client >= load.awake(clients) {
            tokio::time::sleep(Day::NAP).await;
            if load.stopped.load(Relaxed) {
                return;
            }
        }
        let well = walk(&load, load.key(client, ordinal), None).await;
        if !well {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The clock of an open loop, with the programs that it starts at these times from the start.
async fn open(load: Arc<Load>, arrivals: impl Iterator<Item = Duration>) {
    let mut on = JoinSet::new();
    let most = load.options.programs.unwrap_or(u64::MAX);
    for (ordinal, after) in (0..most).zip(arrivals) {
        let due = load.start + after;
        tokio::time::sleep_until(due.into()).await;
        while on.try_join_next().is_some() {}
        if load.stopped.load(Relaxed) {
            break;
        }
        if on.len() >= load.options.max_programs {
            load.tally().counts.shed += 1;
            continue;
        }
        let load = load.clone();
        on.spawn(async move {
            walk(&load, load.key(0, ordinal), Some(due)).await;
        });
    }
    while on.join_next().await.is_some() {}
}

/// Walks one program to its end; returns whether the endpoint served it.
async fn walk(load: &Arc<Load>, key: ProgramKey, due: Option<Instant>) -> bool {
    let mut walk = Walk::<Reply>::new(load.generator.program(key));
    load.tally().counts.programs += 1;
    let session = HeaderValue::from_str(&format!("{:016x}", walk.program().session))
        .expect("hexadecimal digits are a header value");
    let order = load.order(key, walk.program().session);
    let tenant = walk.program().tenant;
    let (mut on, mut due, mut well) = (JoinSet::new(), due, true);
    loop {
        let mut open = !load.stopped.load(Relaxed);
        while open && let Some(node) = walk.take() {
            open = load.ticket();
            if !open {
                walk.failed(node);
                break;
            }
            let body = body::chat(&load.options, load.model_of(key), &walk, node);
            let (load, session, due) = (load.clone(), session.clone(), due.take());
            let think = walk.program().nodes[node].think;
            on.spawn(async move {
                if !load.thinks(think).await {
                    return (node, Err(End::Aborted));
                }
                let asked = DriveAsked { key, node, order, session: &session, tenant };
                (node, request(&load, asked, body, due).await)
            });
        }
        let Some(ended) = on.join_next().await else { break };
        let (node, reply) = ended.expect("a request is aborted only when its program is dropped");
        match reply {
            Ok(reply) => walk.answered(node, reply),
            Err(end) => {
                walk.failed(node);
                well &= end == End::Aborted;
            }
        }
    }
    if !load.stopped.load(Relaxed) {
        load.tally().counts.lost_below += walk.lost() as u64;
    }
    well
}

/// A request of a program.
#[derive(Clone, Copy)]
struct DriveAsked<'a> {
    key: ProgramKey,
    node: usize,
    /// The endpoints it goes to.
    order: usize,
    session: &'a HeaderValue,
    /// 0 for none.
    tenant: u64,
}

/// A request that is dropped before its end was cut off by the end of the run.
struct Open<'a> {
    load: &'a Load,
    start: Started,
    has_ended: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.load.cut_off(self.start);
        }
    }
}

/// Sends one request and records its end; returns the reply if it is complete.
async fn request(
    load: &Load,
    asked: DriveAsked<'_>,
    body: Bytes,
    due: Option<Instant>,
) -> Result<Reply, End> {
    let start = load.begin(due);
    let mut open = Open { load, start, has_ended: false };
    let hang_up = load.hangs_up(asked.key, asked.node);
    let most = hang_up.unwrap_or(load.options.timeout);
    let mut seen = Seen::default();
    let work = somewhere(load, asked, body, start.from, &mut seen);
    let end = match tokio::time::timeout(most, work).await {
        Ok(Ok(())) => End::Ok,
        Ok(Err(kind)) => End::Error(kind),
        Err(_) if hang_up.is_some() => End::Aborted,
        Err(_) => End::Error(ErrorKind::Timeout),
    };
    open.has_ended = true;
    load.end(start, end, &seen);
    match end {
        End::Ok => Ok(body::as_reply(&seen.reply)),
        end => Err(end),
    }
}

/// Tries the endpoints one after the other until one starts to answer, like clients with several
/// addresses.
async fn somewhere(
    load: &Load,
    DriveAsked { order, session, tenant, .. }: DriveAsked<'_>,
    body: Bytes,
    from: Instant,
    seen: &mut Seen,
) -> Result<(), ErrorKind> {
    let order = &load.orders[order];
    let (last, others) = order.split_last().expect("there is at least one endpoint");
    for uri in others {
        let request = load.http_request(uri, session, tenant, body.clone());
        let end = exchange(&load.http, request, load.options.stream, from, seen).await;
        if seen.answered || end.is_ok() {
            return end;
        }
        load.tally().counts.moved += 1;
    }
    let request = load.http_request(last, session, tenant, body);
    exchange(&load.http, request, load.options.stream, from, seen).await
}
