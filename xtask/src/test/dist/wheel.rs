//! The wheel and its SBOM.

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::installed::Installed;
use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::house::House;

// pip installs the file without an index, and puts programs that serve into the environment. The
// wheel's SBOM lists the libraries of both and none of their tests.
pub(super) fn is_installed_and_serves(house: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-wheel")?;
    stdout_of(cmd(&folder, "python3", &["-m", "venv", "env"]))?;
    let bin = folder.join("env/bin");
    let pip = ["-m", "pip", "install", "--no-index", "--disable-pip-version-check"];
    let mut install = cmd(&folder, bin.join("python"), &pip);
    install.arg(&made.wheel);
    stdout_of(install)?;
    lists_libraries(made)?;
    let inside =
        "import glob, sys; sys.exit(not glob.glob(sys.prefix + '/lib/*/site-packages/*/sboms/*'))";
    stdout_of(cmd(&folder, bin.join("python"), &["-c", inside]))
        .context("the wheel has no SBOM")?;
    let installed = Installed::here(&bin, &folder)?;
    installed.are_version(&made.place.version)?;
    installed.serves(house.file("packaging/gateway.yaml")?)
}

fn lists_libraries(made: &Made) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&made.sbom).context("there is no SBOM")?;
    let sbom: Value = serde_json::from_str(&text).context("the SBOM is not JSON")?;
    ensure!(sbom["bomFormat"] == "CycloneDX", "the SBOM is not CycloneDX");
    let components = sbom["components"].as_array().context("the SBOM has no components")?;
    let lists = |name: &str| components.iter().any(|one| one["name"] == name);
    for name in ["hyper", "rustls", "tokio", "x509-parser", "indicatif"] {
        ensure!(lists(name), "{} lacks {name}", made.sbom.display());
    }
    for name in ["proptest", "windows-sys"] {
        ensure!(!lists(name), "{} lists {name}, which the programs lack", made.sbom.display());
    }
    Ok(())
}
