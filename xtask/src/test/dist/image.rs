//! The OCI image, read by programs of other projects.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::root;
use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::house::House;

// skopeo reads the archive in both of its forms, umoci unpacks it, and the unpacked files are all
// that the programs need to serve.
pub(super) fn is_unpacked_and_serves(house: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-image")?;
    let image = made.image.display();
    let (oci, docker) = (format!("oci-archive:{image}"), format!("docker-archive:{image}"));
    let skopeo = |args: &[&str]| stdout_of(cmd(&folder, "skopeo", args));
    let config = skopeo(&["inspect", "--config", &oci])?;
    let config: Value = serde_json::from_str(&config).context("skopeo prints no JSON")?;
    let config = &config["config"];
    ensure!(config["User"] == "65532:65532", "the image runs as {}", config["User"]);
    ensure!(config["Entrypoint"] == json!(["/usr/bin/meridian"]), "the image starts {config}");
    let version = &config["Labels"]["org.opencontainers.image.version"];
    ensure!(*version == made.place.version, "the image has version {version}");
    skopeo(&["--insecure-policy", "copy", "--quiet", &docker, "dir:docker"])?;
    skopeo(&["--insecure-policy", "copy", "--quiet", &oci, "oci:layout:test"])?;
    let unpack = ["unpack", "--rootless", "--image", "layout:test", "bundle"];
    stdout_of(cmd(&folder, "umoci", &unpack))?;
    let installed = root::enter(&folder.join("bundle/rootfs"), Some("meridian"))?;
    installed.are_version(&made.place.version)?;
    installed.serves(house.file("packaging/gateway.yaml")?)
}
