//! The sizes of the packages, and the file that `sha256sum --check` reads.

use anyhow::Context as _;

use super::archive::sha256;
use super::place::Place;

const NAME: &str = "SHA256SUMS";

/// Writes the sum of every package.
pub(super) fn write(place: &Place) -> anyhow::Result<()> {
    let mut text = String::new();
    for (name, _) in sizes(place)? {
        text += &format!("{}  {name}\n", sha256(&place.out.join(&name))?);
    }
    std::fs::write(place.out.join(NAME), text).context(NAME)
}

/// The sum of each package, by its name.
pub(crate) fn read(place: &Place) -> anyhow::Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(place.out.join(NAME)).context(NAME)?;
    let sum = |line: &str| line.split_once("  ").map(|(sum, name)| (name.into(), sum.into()));
    Ok(text.lines().filter_map(sum).collect())
}

/// Names and bytes of the packages, in order.
pub(super) fn sizes(place: &Place) -> anyhow::Result<Vec<(String, u64)>> {
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(&place.out).with_context(|| place.out.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != NAME {
            sizes.push((name, entry.metadata()?.len()));
        }
    }
    sizes.sort();
    Ok(sizes)
}
