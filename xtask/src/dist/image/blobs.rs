//! The blobs of an image layout: files that are named by their own SHA-256.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::dist::archive::{gzip, sha256, tar};
use crate::dist::place::Place;

pub(super) struct Blobs(PathBuf);

/// A layer in the layout.
pub(super) struct Layer {
    /// The sum of the compressed file, which is its name.
    pub(super) digest: String,
    /// The sum before compression, by which the image's configuration names the layer.
    pub(super) diff: String,
    pub(super) bytes: u64,
}

impl Blobs {
    pub(super) fn in_layout(layout: &Path) -> anyhow::Result<Blobs> {
        let folder = layout.join("blobs/sha256");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Blobs(folder))
    }

    /// Packs the files below `root` as a layer.
    pub(super) fn add_layer(&self, place: &Place, root: &Path) -> anyhow::Result<Layer> {
        let file = self.0.join("layer");
        tar(place, root, &file)?;
        let diff = format!("sha256:{}", sha256(&file)?);
        let (digest, bytes) = self.add(&gzip(&file)?)?;
        Ok(Layer { digest, diff, bytes })
    }

    /// Adds a document; the descriptor by which others refer to it.
    pub(super) fn add_json(&self, kind: &str, value: &Value) -> anyhow::Result<Value> {
        let file = self.0.join("document");
        std::fs::write(&file, value.to_string()).with_context(|| file.display().to_string())?;
        let (digest, bytes) = self.add(&file)?;
        Ok(json!({"mediaType": kind, "digest": digest, "size": bytes}))
    }

    /// Renames the file to its sum.
    fn add(&self, file: &Path) -> anyhow::Result<(String, u64)> {
        let (sum, bytes) = (sha256(file)?, std::fs::metadata(file)?.len());
        std::fs::rename(file, self.0.join(&sum)).with_context(|| file.display().to_string())?;
        Ok((format!("sha256:{sum}"), bytes))
    }
}
