//! Metrics of requests, by model and tenant. All come from the one record of each request, which the
//! access log and the journal show too, so the three count the same requests.
//!
//! No client can make the page longer. Models are named as the engines name them and tenants as the
//! configuration does, and the number of both is limited: beyond it they share the label `other`. A
//! request that was refused before its model was known has no model, and without tenants there is no
//! tenant; an empty label is an absent one to Prometheus.
//!
//! Times have one histogram for each model. Only counts have tenants, since a histogram has some 20
//! series.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use meridian_base::ModelId;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::buckets;
use crate::facts::{DONE, Record};
use crate::lock::RwLock;
use crate::model_ids::ModelIds;

/// Models with a label of their own: the first that engines served.
const MODELS: usize = 64;
/// Pairs of a model and a tenant with a label of their own.
const PAIRS: usize = 256;
const OTHER: &str = "other";

/// A label's text, shared by many label sets.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Name(Arc<str>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&&*self.0, encoder)
    }
}

/// A status code that HTTP defines, or else its class, since engines may answer with any number;
/// empty if the client disconnected first.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Status(Option<StatusCode>);

impl EncodeLabelValue for Status {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(code) if code.canonical_reason().is_some() => encoder.write_str(code.as_str()),
            Some(code) => write!(encoder, "{}xx", code.as_u16() / 100),
        }
    }
}

impl Status {
    fn of(code: Option<StatusCode>) -> Status {
        let known = |code: StatusCode| match code.canonical_reason() {
            Some(_) => code,
            // The code of its class that HTTP does not define either.
            None => StatusCode::from_u16(code.as_u16() / 100 * 100 + 99).unwrap_or(code),
        };
        Status(code.map(known))
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    model: Name,
    tenant: Name,
    from: &'static str,
    outcome: &'static str,
    status: Status,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Tokens {
    model: Name,
    tenant: Name,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfModel {
    model: Name,
}

type Times = Family<OfModel, Histogram, fn() -> Histogram>;

pub(crate) struct RequestMetrics {
    /// Names the models.
    model_ids: Arc<ModelIds>,
    families: Families,
    /// By the model's id; the last one is shared by the models beyond.
    models: Box<[OnceLock<Model>]>,
    /// Requests without a model.
    unknown: Tenants,
    /// Pairs with a label of their own.
    pairs: AtomicUsize,
}

struct Families {
    ended: Family<Ended, Counter>,
    tokens: Family<Tokens, Counter>,
    ttft: Times,
    tpot: Times,
    queue: Times,
    e2e: Times,
}

/// One model's series.
struct Model {
    ttft: Histogram,
    tpot: Histogram,
    queue: Histogram,
    e2e: Histogram,
    tenants: Tenants,
}

/// One model's tenants.
struct Tenants {
    model: Name,
    /// Requests without a tenant.
    none: Counts,
    named: RwLock<HashMap<Box<[u8]>, Arc<Counts>>>,
    /// Tenants that the configuration does not name, and those beyond the limit.
    other: OnceLock<Counts>,
}

/// One pair's series.
struct Counts {
    tenant: Name,
    /// The usual end, a client's answer of status 200, without a lookup by its labels.
    done: OnceLock<Counter>,
    tokens: Option<TokenCounts>,
}

struct TokenCounts {
    prompt: Counter,
    cached: Counter,
    completion: Counter,
}

impl RequestMetrics {
    pub(super) fn new(model_ids: Arc<ModelIds>) -> RequestMetrics {
        let families = Families {
            ended: Family::default(),
            tokens: Family::default(),
            ttft: Family::new_with_constructor(buckets::first_token),
            tpot: Family::new_with_constructor(buckets::per_token),
            queue: Family::new_with_constructor(buckets::first_token),
            e2e: Family::new_with_constructor(buckets::whole),
        };
        let unknown = Tenants::new(Name("".into()), &families, false);
        let models = (0..=MODELS).map(|_| OnceLock::new()).collect();
        RequestMetrics { model_ids, families, models, unknown, pairs: AtomicUsize::new(0) }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        let Families { ended, tokens, ttft, tpot, queue, e2e } = &self.families;
        let help = "Requests of the access log, by model, tenant and how they ended";
        r.register("http_requests", help, ended.clone());
        let help = "Tokens for requests of clients, as engines counted them, or as they passed if an answer ended before its count; cached ones are of the prompt";
        r.register("tokens", help, tokens.clone());
        for (name, help, times) in [
            ("ttft_gateway", "Request's first byte in to first token", ttft),
            ("tpot_gateway", "Time for each token after the first", tpot),
            ("queue_gateway", "Time in the gateway's queue", queue),
            ("e2e_gateway", "Request's first byte in to its end", e2e),
        ] {
            r.register_with_unit(name, help, Unit::Seconds, times.clone());
        }
    }

    /// Shows a model's series from its first replica on: a rate needs a zero to start from.
    pub(super) fn knows(&self, model: &str) {
        if let Some(id) = self.model_ids.get(model) {
            let _ = self.model(id);
        }
    }

    /// A request's first token has arrived.
    pub(crate) fn first_token(&self, record: &Record, ttft: Duration) {
        if let Some(asked) = &record.asked {
            self.model(asked.model).ttft.observe(ttft.as_secs_f64());
        }
    }

    /// A request has ended.
    pub(crate) fn ended(&self, record: &Record) {
        let Some(asked) = &record.asked else { return self.count(&self.unknown, record) };
        let model = self.model(asked.model);
        model.queue.observe(record.queued().as_secs_f64());
        if let Some(tpot) = record.tpot() {
            model.tpot.observe(tpot.as_secs_f64());
        }
        if record.outcome == DONE {
            model.e2e.observe(record.e2e().as_secs_f64());
        }
        self.count(&model.tenants, record);
    }

    fn count(&self, tenants: &Tenants, record: &Record) {
        let Some(tenant) = &record.tenant else {
            return self.count_pair(tenants, &tenants.none, record);
        };
        let name = tenant.as_bytes();
        if record.is_tenant_known {
            let known = tenants.named.read().get(name).cloned();
            if let Some(counts) = known.or_else(|| self.pair(tenants, name)) {
                return self.count_pair(tenants, &counts, record);
            }
        }
        let other = || Counts::new(&tenants.model, OTHER, &self.families, tenants.has_tokens());
        self.count_pair(tenants, tenants.other.get_or_init(other), record);
    }

    /// The series of a tenant's first request; none beyond the limit.
    fn pair(&self, tenants: &Tenants, name: &[u8]) -> Option<Arc<Counts>> {
        if self.pairs.load(Ordering::Relaxed) >= PAIRS {
            return None;
        }
        let mut named = tenants.named.write();
        if let Some(counts) = named.get(name) {
            return Some(counts.clone());
        }
        let more = |n| (n < PAIRS).then_some(n + 1);
        self.pairs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let text = String::from_utf8_lossy(name);
        let counts = Counts::new(&tenants.model, &text, &self.families, tenants.has_tokens());
        Some(named.entry(name.into()).or_insert(Arc::new(counts)).clone())
    }

    fn count_pair(&self, tenants: &Tenants, counts: &Counts, record: &Record) {
        let ended = || Ended {
            model: tenants.model.clone(),
            tenant: counts.tenant.clone(),
            from: if record.from_client { "client" } else { "peer" },
            outcome: record.outcome,
            status: Status::of(record.status),
        };
        let all = &self.families.ended;
        let is_usual =
            record.from_client && record.outcome == DONE && record.status == Some(StatusCode::OK);
        match is_usual {
            true => counts.done.get_or_init(|| all.get_or_create_owned(&ended())).inc(),
            false => all.get_or_create(&ended()).inc(),
        };
        // A forwarded request has the same tokens at both gateways.
        let tokens = counts.tokens.as_ref().filter(|_| record.from_client);
        if let (Some(tokens), Some(usage)) = (tokens, record.usage) {
            tokens.prompt.inc_by(usage.prompt_tokens.into());
            tokens.cached.inc_by(usage.cached_tokens.unwrap_or(0).into());
            tokens.completion.inc_by(usage.completion_tokens.into());
        }
    }

    fn model(&self, id: ModelId) -> &Model {
        let at = usize::from(id.0).min(MODELS);
        self.models[at].get_or_init(|| {
            let own = self.model_ids.name(id).filter(|_| at < MODELS);
            Model::new(Name(own.as_deref().unwrap_or(OTHER).into()), &self.families)
        })
    }
}

impl Model {
    fn new(name: Name, families: &Families) -> Model {
        let of = OfModel { model: name.clone() };
        let series = |times: &Times| times.get_or_create_owned(&of);
        Model {
            ttft: series(&families.ttft),
            tpot: series(&families.tpot),
            queue: series(&families.queue),
            e2e: series(&families.e2e),
            tenants: Tenants::new(name, families, true),
        }
    }
}

impl Tenants {
    fn new(model: Name, families: &Families, has_tokens: bool) -> Tenants {
        let none = Counts::new(&model, "", families, has_tokens);
        Tenants { model, none, named: RwLock::default(), other: OnceLock::new() }
    }

    /// A request without a model has no tokens either.
    fn has_tokens(&self) -> bool {
        self.none.tokens.is_some()
    }
}

impl Counts {
    fn new(model: &Name, tenant: &str, families: &Families, has_tokens: bool) -> Counts {
        let tenant = Name(tenant.into());
        let series = |kind| {
            let of = Tokens { model: model.clone(), tenant: tenant.clone(), kind };
            families.tokens.get_or_create_owned(&of)
        };
        let tokens = has_tokens.then(|| TokenCounts {
            prompt: series("prompt"),
            cached: series("cached"),
            completion: series("completion"),
        });
        Counts { tenant, done: OnceLock::new(), tokens }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::facts::tests::answered;

    fn metrics(models: usize) -> (RequestMetrics, Registry) {
        let model_ids = Arc::new(ModelIds::default());
        for n in 0..models {
            model_ids.intern(&format!("model-{n}"));
        }
        let metrics = RequestMetrics::new(model_ids);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        (metrics, registry)
    }

    fn page(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    /// An answered request; `known`: the configuration names its tenant.
    fn record(model: u16, tenant: &str, known: bool) -> Record {
        let mut record = answered();
        record.asked.as_mut().unwrap().model = ModelId(model);
        record.tenant = Some(HeaderValue::from_str(tenant).unwrap());
        record.is_tenant_known = known;
        record
    }

    /// The same with a change.
    fn changed(change: impl FnOnce(&mut Record)) -> Record {
        let mut record = record(0, "acme", true);
        change(&mut record);
        record
    }

    fn sum(page: &str, name: &str, label: &str) -> u64 {
        let of = page.lines().filter(|line| line.starts_with(name) && line.contains(label));
        of.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    // Many models and tenants share a label beyond the limits. The sums are those of all requests.
    #[test]
    fn limits() {
        let (metrics, registry) = metrics(200);
        for model in 0..200 {
            for tenant in 0..20 {
                metrics.ended(&record(model, &format!("tenant-{tenant}"), true));
            }
        }
        let page = page(&registry);
        let lines = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
        // Each pair has one outcome and status here. The pairs beyond share one for each model.
        let most = PAIRS + MODELS + 1;
        let pairs = lines("http_requests_total");
        assert!((PAIRS..=most).contains(&pairs), "{pairs}");
        assert!(lines("tokens_total") <= 3 * (most + MODELS + 1));
        assert_eq!(lines("e2e_gateway_seconds_count"), MODELS + 1);
        assert_eq!(sum(&page, "http_requests_total", "from=\"client\""), 4000);
        assert_eq!(sum(&page, "e2e_gateway_seconds_count", ""), 4000);
        assert_eq!(sum(&page, "tokens_total", "kind=\"prompt\""), 400_000);
        let other = "e2e_gateway_seconds_count{model=\"other\"}";
        assert_eq!(sum(&page, other, ""), (200 - MODELS as u64) * 20);
    }

    // A tenant that the configuration does not name gets no label, whatever its name; none is an empty
    // label.
    #[test]
    fn unknown_tenants() {
        let (metrics, registry) = metrics(1);
        for n in 0..50 {
            metrics.ended(&record(0, &format!("made-up-{n}"), false));
        }
        metrics.ended(&changed(|record| record.tenant = None));
        metrics.ended(&changed(|record| record.asked = None));
        let page = page(&registry);
        assert!(!page.contains("made-up"), "{page}");
        assert_eq!(sum(&page, "http_requests_total", "model=\"model-0\",tenant=\"other\""), 50);
        assert_eq!(sum(&page, "http_requests_total", "model=\"model-0\",tenant=\"\""), 1);
        assert_eq!(sum(&page, "http_requests_total", "model=\"\",tenant=\"acme\""), 1);
    }

    // A status that HTTP does not define is its class. Quotes in a model's name are escaped.
    #[test]
    fn odd_labels() {
        let model_ids = Arc::new(ModelIds::default());
        model_ids.intern("a\"b\nc");
        let metrics = RequestMetrics::new(model_ids);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        for code in [299, 298, 200, 599, 999] {
            let status = StatusCode::from_u16(code).ok();
            metrics.ended(&changed(|record| (record.status, record.tenant) = (status, None)));
        }
        metrics.ended(&changed(|record| (record.status, record.tenant) = (None, None)));
        let page = page(&registry);
        for (status, n) in [("2xx", 2), ("200", 1), ("5xx", 1), ("9xx", 1), ("", 1)] {
            assert_eq!(sum(&page, "http_requests", &format!("status=\"{status}\"")), n, "{page}");
        }
        assert!(page.contains("model=\"a\\\"b\\nc\""), "{page}");
    }
}
