//! An OCI image in one archive, put together without a container engine.
//!
//! Two layers: Debian's C library and certificate authorities, which change rarely, and the programs.
//! There is no shell. The archive is an OCI image layout, and it also has the `manifest.json` with
//! which older versions of docker load images.

mod blobs;
mod roots;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::archive::tar;
use super::place::Place;
use super::programs::Programs;
use crate::cmd::{cmd, stdout_of};
use crate::house::House;
use blobs::{Blobs, Layer};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub(super) fn path(place: &Place) -> PathBuf {
    place.out.join(format!("meridian-{}-amd64.oci.tar", place.version))
}

pub(super) fn make(house: &House, place: &Place, programs: &Programs) -> anyhow::Result<()> {
    let layout = place.stage("image")?;
    let blobs = Blobs::in_layout(&layout)?;
    let layers = [
        blobs.add_layer(place, &roots::libraries(house, place)?)?,
        blobs.add_layer(place, &roots::programs(house, place, programs)?)?,
    ];
    let config = blobs.add_json(CONFIG, &config(house, place, &layers)?)?;
    let layers: Vec<Value> =
        layers.iter().map(|layer| described(LAYER, &layer.digest, layer.bytes)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
    });
    let mut manifest = blobs.add_json(MANIFEST, &manifest)?;
    let name = format!("meridian:{}", place.version);
    manifest["platform"] = json!({"architecture": "amd64", "os": "linux"});
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": place.version,
        "io.containerd.image.name": format!("localhost/{name}"),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    let blob = |one: &Value| one["digest"].as_str().map(|digest| digest.replace(':', "/"));
    let blob = |one: &Value| format!("blobs/{}", blob(one).unwrap_or_default());
    let docker = json!([{
        "Config": blob(&config),
        "RepoTags": [name],
        "Layers": layers.iter().map(blob).collect::<Vec<_>>(),
    }]);
    std::fs::write(layout.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    std::fs::write(layout.join("index.json"), index.to_string())?;
    std::fs::write(layout.join("manifest.json"), docker.to_string())?;
    tar(place, &layout, &path(place))
}

/// The image's configuration: how a container starts, and the layers it consists of.
fn config(house: &House, place: &Place, layers: &[Layer]) -> anyhow::Result<Value> {
    let time = format!("--date=@{}", place.epoch);
    let created = stdout_of(cmd(&house.root, "date", &["--utc", "+%FT%TZ", &time]))?;
    let created = created.trim();
    let diffs: Vec<&str> = layers.iter().map(|layer| layer.diff.as_str()).collect();
    let history: Vec<Value> =
        ["libraries of Debian 12", "meridian"].map(|what| made(what, created)).to_vec();
    Ok(json!({
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": "65532:65532",
            "Entrypoint": ["/usr/bin/meridian"],
            "Cmd": ["gateway", "-c", "/etc/meridian/gateway.yaml"],
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": labels(house, place, created),
        },
        "rootfs": {"type": "layers", "diff_ids": diffs},
        "history": history,
    }))
}

fn made(what: &str, created: &str) -> Value {
    json!({"created": created, "created_by": format!("./x dist image: {what}")})
}

fn labels(house: &House, place: &Place, created: &str) -> Value {
    let commit = stdout_of(cmd(&house.root, "git", &["rev-parse", "HEAD"])).unwrap_or_default();
    let source = "https://github.com/meridian-llm/meridian";
    json!({
        "org.opencontainers.image.title": "meridian",
        "org.opencontainers.image.description": "The network layer of LLM serving",
        "org.opencontainers.image.version": place.version,
        "org.opencontainers.image.revision": commit.trim(),
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": source,
        "org.opencontainers.image.documentation": format!("{source}/tree/main/docs"),
    })
}

fn described(kind: &str, digest: &str, bytes: u64) -> Value {
    json!({"mediaType": kind, "digest": digest, "size": bytes})
}
