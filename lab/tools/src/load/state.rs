//! State shared by all clients of a run: options, connections, counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use meridian_base::{keyed, mix};
use meridian_workload::{Generator, ProgramKey};

use super::http::{self as client, Http};
use super::options::{Arrivals, Options};
use super::outcome::{End, ErrorKind, Seen};
use super::records::{Record, Records};
use super::report::{Report, Row};
use super::tally::{Started, Tally};
use crate::commit;

/// The random paths that decide whether and when a node's client disconnects.
const ABORTS: u64 = 1 << 40;
/// Salt for spreading sessions over endpoints.
const SPREAD: u64 = 0x434C_4945;

/// The addresses of the chat completions in the order that clients use them, by location.
fn endpoints(options: &Options) -> anyhow::Result<Vec<Vec<Uri>>> {
    let all = options.orders();
    let join = |url: &&str| client::join(url, "/v1/chat/completions");
    all.iter().map(|order| order.iter().map(join).collect()).collect()
}

/// State shared by all clients of a run.
pub(super) struct Load {
    pub(super) options: Options,
    pub(super) http: Http,
    /// The endpoint of a request and its fallbacks, by its client's location.
    pub(super) orders: Vec<Vec<Uri>>,
    headers: HeaderMap,
    /// Values for `Authorization`.
    keys: Vec<HeaderValue>,
    /// Those of recorded tenants.
    tenant_keys: BTreeMap<u64, HeaderValue>,
    session_header: Option<HeaderName>,
    /// The model's name as JSON.
    model_json: String,
    pub(super) generator: Arc<dyn Generator>,
    pub(super) start: Instant,
    pub(super) stopped: AtomicBool,
    tickets: AtomicU64,
    window_end: Mutex<Option<Instant>>,
    tally: Mutex<Tally>,
    records: Option<Records>,
}

impl Load {
    pub(super) fn new(options: Options, http: Http, model: &str) -> anyhow::Result<Load> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let bearer = |key: &String| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .context("the API key is not a header value")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        };
        let name = |name: &String| {
            name.parse().with_context(|| format!("session_header {name:?} is not a header name"))
        };
        let with_key = |(tenant, key): (&u64, &String)| anyhow::Ok((*tenant, bearer(key)?));
        Ok(Load {
            orders: endpoints(&options)?,
            headers,
            keys: options.api_keys.iter().map(bearer).collect::<Result<_, _>>()?,
            tenant_keys: options.tenant_keys.iter().map(with_key).collect::<Result<_, _>>()?,
            session_header: options.session_header.as_ref().map(name).transpose()?,
            model_json: serde_json::to_string(model)?,
            generator: match &options.recorded {
                Some(recorded) => recorded.clone(),
                None => options.workload.generator()?,
            },
            start: Instant::now(),
            stopped: AtomicBool::new(false),
            tickets: AtomicU64::new(0),
            window_end: Mutex::new(None),
            tally: Mutex::new(Tally::new(options.seed)),
            records: options.records.as_deref().map(Records::to).transpose()?,
            options,
            http,
        })
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no thread panics while it counts")
    }

    /// The order of endpoints for a program's requests. Programs of an open loop come from the
    /// locations in turn; endpoints that share the sessions get them at random, like the
    /// simulator's gateways.
    pub(super) fn order(&self, key: ProgramKey, session: u64) -> usize {
        let turn = match self.options.arrivals {
            _ if !self.options.also.is_empty() => mix(session, SPREAD),
            Arrivals::Closed { .. } | Arrivals::Throughput { .. } => u64::from(key.client),
            _ => key.ordinal,
        };
        (turn % self.orders.len() as u64) as usize
    }

    /// The model that a program requests, as JSON.
    pub(super) fn model_of(&self, key: ProgramKey) -> &str {
        let recorded = self.options.recorded.as_ref();
        recorded.and_then(|recorded| recorded.model(key.ordinal)).unwrap_or(&self.model_json)
    }

    pub(super) fn key(&self, client: u32, ordinal: u64) -> ProgramKey {
        let Options { seed, region, first_client, .. } = self.options;
        ProgramKey { seed, region, client: first_client + client, ordinal }
    }

    /// Permission to send one more request.
    pub(super) fn ticket(&self) -> bool {
        let Some(most) = self.options.requests else { return true };
        let granted = self.tickets.fetch_add(1, Relaxed) < most;
        if !granted {
            self.stop();
        }
        granted
    }

    /// Stops starting requests and ends the window of throughput. Always true.
    pub(super) fn stop(&self) -> bool {
        self.stopped.store(true, Relaxed);
        let mut end = self.window_end.lock().expect("no thread panics while it looks");
        if end.is_none() {
            *end = Some(Instant::now());
            self.tally().window.closed = true;
        }
        true
    }

    /// Waits for a client's think time; false if the run ended meanwhile.
    pub(super) async fn thinks(&self, think: Duration) -> bool {
        if think.is_zero() {
            return true;
        }
        tokio::time::sleep(think).await;
        !self.stopped.load(Relaxed)
    }

    pub(crate) fn begin(&self, due: Option<Instant>) -> Started {
        let now = Instant::now();
        let from = due.unwrap_or(now);
        let warm = from < self.start + self.options.warmup;
        let mut tally = self.tally();
        tally.begin(warm);
        if due.is_some() && !warm {
            tally.lateness.record(now.saturating_duration_since(from));
        }
        Started { from, warm }
    }

    /// Records the end of a request.
    pub(super) fn end(&self, start: Started, end: End, seen: &Seen) {
        let record = Record::of(start.from - self.start, start.from.elapsed(), end, seen);
        if let Some(records) = &self.records {
            records.write(&record);
        }
        let mut tally = self.tally();
        tally.end(start, end, seen, self.options.slo.as_ref());
        if !start.warm && end != End::Aborted {
            tally.kept.add(record);
        }
    }

    /// Lets readers of the records see those so far.
    pub(super) fn flush_records(&self) {
        self.records.iter().for_each(Records::flush);
    }

    /// Records a request that the end of the run cuts off. The report counts it as what is left.
    pub(super) fn cut_off(&self, start: Started) {
        let end = End::Error(ErrorKind::Cancelled);
        let record =
            Record::of(start.from - self.start, start.from.elapsed(), end, &Seen::default());
        if let Some(records) = &self.records {
            records.write(&record);
        }
        if !start.warm {
            self.tally().kept.add(record);
        }
    }

    /// When the client of this request disconnects, if it does: drawn from the request's own path.
    pub(super) fn hangs_up(&self, key: ProgramKey, node: usize) -> Option<Duration> {
        let mut rng = key.rng(ABORTS + node as u64);
        (rng.unit() < self.options.abort_share)
            .then(|| self.options.abort_within.mul_f64(rng.unit()))
            .filter(|after| *after < self.options.timeout)
    }

    pub(super) fn http_request(
        &self,
        uri: &Uri,
        session: &HeaderValue,
        tenant: u64,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(key) = self.bearer(session, tenant) {
            request.headers_mut().insert(header::AUTHORIZATION, key.clone());
        }
        if let Some(name) = &self.session_header {
            request.headers_mut().insert(name.clone(), session.clone());
        }
        request
    }

    /// A tenant's own key, or one of the others: the same for all requests of a tenant, or of a
    /// session without one.
    fn bearer(&self, session: &HeaderValue, tenant: u64) -> Option<&HeaderValue> {
        let own = self.tenant_keys.get(&tenant);
        let by = match tenant {
            0 => keyed(0, session.as_bytes()),
            tenant => mix(tenant, SPREAD),
        };
        let at = by.checked_rem(self.keys.len() as u64);
        own.or_else(|| self.keys.get(at? as usize))
    }

    /// How many clients of a closed loop are awake now.
    pub(super) fn awake(&self, clients: u32) -> u32 {
        self.options.day.map_or(clients, |day| day.awake(clients, self.start.elapsed()))
    }

    pub(super) fn report(&self, model: &str) -> anyhow::Result<Report> {
        let end = self.window_end.lock().expect("no thread panics while it looks");
        let end = end.unwrap_or_else(Instant::now);
        let begin = self.start + self.options.warmup;
        let window_s = end.saturating_duration_since(begin).as_secs_f64();
        let mut tally = self.tally();
        let cut_off = tally.in_flight();
        tally.counts.errors += cut_off;
        let mut errors: BTreeMap<_, _> = ErrorKind::ALL.into_iter().map(|kind| (kind, 0)).collect();
        errors.extend(tally.errors.iter().map(|(kind, n)| (*kind, *n)));
        errors.insert(ErrorKind::Cancelled, cut_off);
        let options = serde_json::to_vec(&self.options)?;
        Ok(Report {
            experiment: "bench".into(),
            commit: commit(),
            seeds: vec![self.options.seed],
            rows: vec![self.row(&tally, window_s)],
            params: format!("{:016x}", keyed(0, &options)),
            options: self.options.clone(),
            model: model.to_owned(),
            window_s,
            counts: tally.counts,
            errors,
            replicas: tally.replicas.clone(),
            lateness_ms: tally.lateness.quantiles(),
            warmed: None,
            gateway: None,
            beside: Vec::new(),
            requests: tally.kept.take(),
        })
    }

    fn row(&self, tally: &Tally, window_s: f64) -> Row {
        let (window, slo) = (&tally.window, self.options.slo);
        let rate = |n: u64| (window_s > 0.0).then(|| n as f64 / window_s);
        let measured = window.measured;
        Row {
            system: self.options.system.clone(),
            workload: self.options.workload.name.clone(),
            throughput_rps: rate(window.ok),
            output_tps: rate(window.tokens),
            goodput_rps: slo.and_then(|_| rate(window.good)),
            slo_attainment: slo
                .filter(|_| measured > 0)
                .map(|_| window.met as f64 / measured as f64),
            ttft_ms: tally.ttft.quantiles(),
            e2e_ms: tally.e2e.quantiles(),
            tpot_ms: tally.tpot.quantiles(),
            prefix_hit_ratio: tally.counts.cached_share(),
            lost: Some(tally.counts.sent - tally.counts.ended()),
            ..Row::default()
        }
    }
}
