//! Records and health checks in the SDK's types, and back.

use std::collections::BTreeMap;
use std::net::IpAddr;

use aws_sdk_route53::types::{
    AliasTarget, Change as SdkChange, ChangeAction, ChangeBatch, HealthCheckConfig,
    HealthCheckType, ResourceRecord, ResourceRecordSet, ResourceRecordSetRegion, RrType,
};
use meridian_config::{Route53 as Config, Scheme};

use super::aws::AwsFound;
use super::failure::Failure;
use crate::route53::{Body, Change, Key, Kind, Names, Probe};

/// Adds a record of the zone. Returns whether further ones may be of interest.
pub(super) fn add(names: &Names, set: ResourceRecordSet, found: &mut AwsFound) -> bool {
    let name = set.name.trim_end_matches('.').to_owned();
    if name != names.config.name && !name.ends_with(&format!(".{}", names.config.name)) {
        return false;
    }
    let kinds: &[Kind] = match set.r#type {
        RrType::A => &[Kind::A],
        RrType::Aaaa => &[Kind::Aaaa],
        RrType::Cname => &Kind::ALL,
        _ => &[],
    };
    let id = set.set_identifier.clone().filter(|id| names.owns(&name, id));
    match (kinds, id) {
        (&[kind], Some(id)) => {
            let key = Key { name, kind, id };
            found.zone.records.insert(key.clone(), body(&set, &names.config));
            found.sets.insert(key, set);
        }
        (kinds, _) => {
            found.zone.used_by_others.extend(set.health_check_id);
            found.zone.foreign.extend(kinds.iter().map(|&kind| (name.clone(), kind)));
        }
    }
    true
}

/// The form of an own record.
fn body(set: &ResourceRecordSet, config: &Config) -> Body {
    read(set, config).unwrap_or(Body::Other)
}

fn read(set: &ResourceRecordSet, config: &Config) -> Option<Body> {
    let further = set.weight.is_some()
        || set.geo_location.is_some()
        || set.failover.is_some()
        || set.traffic_policy_instance_id.is_some()
        || set.cidr_routing_config.is_some()
        || set.geo_proximity_location.is_some();
    if further {
        return None;
    }
    let is_multi = set.multi_value_answer == Some(true);
    if let (Some(alias), Some(region)) = (&set.alias_target, &set.region) {
        let plain = !is_multi && set.health_check_id.is_none();
        let here = alias.hosted_zone_id == config.zone && alias.evaluate_target_health;
        let target = alias.dns_name.trim_end_matches('.').to_owned();
        return (plain && here).then(|| Body::Region { aws: region.as_str().to_owned(), target });
    }
    let [record] = set.resource_records() else { return None };
    let address = record.value.parse().ok()?;
    let (ttl, check) = (u32::try_from(set.ttl?).ok()?, set.health_check_id.clone()?);
    (is_multi && set.region.is_none()).then_some(Body::Gateway { address, ttl, check })
}

/// A batch of changes. Route 53 deletes a record only if it is named as it is.
pub(super) fn batch(
    config: &Config,
    changes: &[Change],
    sets: &BTreeMap<Key, ResourceRecordSet>,
) -> Result<ChangeBatch, Failure> {
    let mut batch = ChangeBatch::builder();
    for change in changes {
        let (action, set) = match change {
            Change::Upsert(key, body) => (ChangeAction::Upsert, record(config, key, body)?),
            Change::Delete(key) => {
                let set = sets.get(key).cloned();
                (ChangeAction::Delete, set.ok_or_else(|| Failure::new("a record is not known"))?)
            }
        };
        let change = SdkChange::builder().action(action).resource_record_set(set).build();
        batch = batch.changes(change.map_err(Failure::new)?);
    }
    batch.build().map_err(Failure::new)
}

fn record(config: &Config, key: &Key, body: &Body) -> Result<ResourceRecordSet, Failure> {
    let kind = match key.kind {
        Kind::A => RrType::A,
        Kind::Aaaa => RrType::Aaaa,
    };
    let set = ResourceRecordSet::builder().name(format!("{}.", key.name)).r#type(kind);
    let set = set.set_identifier(&key.id);
    let set = match body {
        Body::Region { aws, target } => {
            let alias = AliasTarget::builder().hosted_zone_id(&config.zone);
            let alias = alias.dns_name(format!("{target}.")).evaluate_target_health(true);
            set.region(ResourceRecordSetRegion::from(aws.as_str()))
                .alias_target(alias.build().map_err(Failure::new)?)
        }
        Body::Gateway { address, ttl, check } => {
            let value = ResourceRecord::builder().value(address.to_string()).build();
            set.multi_value_answer(true)
                .ttl(i64::from(*ttl))
                .resource_records(value.map_err(Failure::new)?)
                .health_check_id(check)
        }
        Body::Other => return Err(Failure::new("a record of another form is not written")),
    };
    set.build().map_err(Failure::new)
}

/// The settings of a health check.
pub(super) fn check(probe: &Probe) -> Result<HealthCheckConfig, Failure> {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let (kind, sni) = match probe.scheme {
        Scheme::Https => (HealthCheckType::Https, true),
        Scheme::Http => (HealthCheckType::Http, false),
    };
    let config = HealthCheckConfig::builder()
        .r#type(kind)
        .ip_address(probe.address.to_string())
        .port(i32::from(probe.port))
        .resource_path(&probe.path)
        .fully_qualified_domain_name(&probe.host)
        .request_interval(number(probe.interval))
        .failure_threshold(number(probe.failures))
        .enable_sni(sni);
    config.build().map_err(Failure::new)
}

/// The same back; none if another program has changed what Meridian does not set.
pub(super) fn probe(config: &HealthCheckConfig) -> Option<Probe> {
    let (scheme, sni) = match config.r#type {
        HealthCheckType::Https => (Scheme::Https, true),
        HealthCheckType::Http => (Scheme::Http, false),
        _ => return None,
    };
    let on = |flag: Option<bool>| flag == Some(true);
    let changed = on(config.inverted)
        || on(config.disabled)
        || config.search_string.as_ref().is_some_and(|text| !text.is_empty())
        || on(config.enable_sni) != sni;
    let address: IpAddr = config.ip_address.as_ref()?.parse().ok()?;
    (!changed).then_some(Probe {
        address,
        scheme,
        port: u16::try_from(config.port?).ok()?,
        path: config.resource_path.clone()?,
        host: config.fully_qualified_domain_name.clone()?,
        interval: u32::try_from(config.request_interval?).ok()?,
        failures: u32::try_from(config.failure_threshold?).ok()?,
    })
}
