//! Requests to Route 53, at most four a second: an account has five in older quotas, ten in the present
//! one, and other programs use them, too.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_route53::Client;
use aws_sdk_route53::config::Region;
use aws_sdk_route53::types::{ChangeStatus, HealthCheck, ResourceRecordSet, RrType};
use aws_smithy_http_client::{Builder, tls};
use meridian_config::Route53 as Config;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::convert;
use super::failure::Failure;
use crate::route53::{Change, Key, Names, Probe, Zone};

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(250);
/// Timeout of a request with its repetitions, and of each of them.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(15)];
/// Attempts for each request; a throttled one is sent again after a growing pause.
const ATTEMPTS: u32 = 5;

/// A client of one hosted zone.
pub(super) struct Aws {
    client: Client,
    names: Names,
    /// When the next request may be sent.
    next: Mutex<Instant>,
}

/// The zone, and its own records in the form in which they have to be deleted.
pub(super) struct AwsFound {
    pub(super) zone: Zone,
    pub(super) sets: BTreeMap<Key, ResourceRecordSet>,
}

impl Aws {
    /// With the credentials of the environment, a profile, or the machine's role.
    pub(super) async fn new(names: Names) -> Aws {
        let [operation, attempt] = TIMEOUTS;
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(operation)
            .operation_attempt_timeout(attempt);
        let https = Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring));
        let mut config = aws_config::defaults(BehaviorVersion::latest())
            .http_client(https.build_https())
            .region(Region::new(signing_region(&names.config)))
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(timeouts.build());
        if let Some(endpoint) = &names.config.endpoint {
            config = config.endpoint_url(endpoint);
        }
        let client = Client::new(&config.load().await);
        Aws { client, names, next: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of the next request.
    async fn turn(&self) -> &Client {
        let mut next = self.next.lock().await;
        sleep_until(*next).await;
        *next = Instant::now() + PAUSE;
        &self.client
    }

    /// Reads the records at the name and below it, and the health checks.
    pub(super) async fn read(&self) -> Result<AwsFound, Failure> {
        let mut found = AwsFound { zone: Zone::default(), sets: BTreeMap::new() };
        self.records(&mut found).await?;
        self.checks(&mut found.zone).await?;
        Ok(found)
    }

    async fn records(&self, found: &mut AwsFound) -> Result<(), Failure> {
        let config = &self.names.config;
        // Records are ordered by their labels from the right, so those below a name follow it.
        let mut from = (format!("{}.", config.name), None, None);
        loop {
            let (name, kind, id): (String, Option<RrType>, Option<String>) = from;
            let list = self.turn().await.list_resource_record_sets();
            let list = list.hosted_zone_id(&config.zone).start_record_name(name);
            let list = list.set_start_record_type(kind).set_start_record_identifier(id);
            let page = list.send().await.map_err(|error| Failure::of(config, &error))?;
            for set in page.resource_record_sets {
                if !convert::add(&self.names, set, found) {
                    return Ok(());
                }
            }
            match page.next_record_name.filter(|_| page.is_truncated) {
                Some(name) => from = (name, page.next_record_type, page.next_record_identifier),
                None => return Ok(()),
            }
        }
    }

    async fn checks(&self, zone: &mut Zone) -> Result<(), Failure> {
        let own = self.names.reference();
        let mut marker = None;
        loop {
            let list = self.turn().await.list_health_checks().set_marker(marker);
            let page =
                list.send().await.map_err(|error| Failure::of(&self.names.config, &error))?;
            let checks = page.health_checks.into_iter();
            let checks = checks.filter(|check| check.caller_reference.starts_with(&own));
            zone.checks.extend(checks.map(|HealthCheck { id, health_check_config, .. }| {
                (id, health_check_config.as_ref().and_then(convert::probe))
            }));
            match page.next_marker.filter(|_| page.is_truncated) {
                Some(next) => marker = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Makes a batch of changes, as a whole or not at all. Returns the id by which Route 53 says when
    /// all its servers have it.
    pub(super) async fn change(
        &self,
        batch: &[Change],
        found: &AwsFound,
    ) -> Result<String, Failure> {
        assert!(!batch.is_empty(), "Route 53 takes no batch without a change");
        let config = &self.names.config;
        let batch = convert::batch(config, batch, &found.sets)?;
        let change = self.turn().await.change_resource_record_sets();
        let change = change.hosted_zone_id(&config.zone).change_batch(batch);
        let done = change.send().await.map_err(|error| Failure::of(config, &error))?;
        Ok(done.change_info.map(|info| info.id).unwrap_or_default())
    }

    /// Creates a health check; `unique` was never used before. Returns its id.
    pub(super) async fn create(&self, probe: &Probe, unique: u64) -> Result<String, Failure> {
        let config = &self.names.config;
        let reference = format!("{}{unique:x}", self.names.reference());
        let create = self.turn().await.create_health_check().caller_reference(reference);
        let create = create.health_check_config(convert::check(probe)?);
        let made = create.send().await.map_err(|error| Failure::of(config, &error))?;
        let id = made.health_check.map(|check| check.id);
        id.ok_or_else(|| Failure::new("Route 53 did not name the health check that it made"))
    }

    /// Deletes a health check. One that is gone is fine.
    pub(super) async fn delete(&self, id: &str) -> Result<(), Failure> {
        let delete = self.turn().await.delete_health_check().health_check_id(id);
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_no_such_health_check()) => {
                Ok(())
            }
            Err(error) => Err(Failure::of(&self.names.config, &error)),
        }
    }

    /// Whether all servers of Route 53 have a change.
    pub(super) async fn has_spread(&self, change: &str) -> Result<bool, Failure> {
        let get = self.turn().await.get_change().id(change.trim_start_matches("/change/"));
        let got = get.send().await.map_err(|error| Failure::of(&self.names.config, &error))?;
        Ok(got.change_info.is_some_and(|info| info.status == ChangeStatus::Insync))
    }
}

/// Route 53 has one endpoint in each partition of AWS; requests are signed for its region.
fn signing_region(config: &Config) -> &'static str {
    let all = |start: &str| config.regions.values().all(|aws| aws.starts_with(start));
    match () {
        () if all("cn-") => "cn-northwest-1",
        () if all("us-gov-") => "us-gov-west-1",
        () => "us-east-1",
    }
}
