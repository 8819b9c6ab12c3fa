//! Pages that are generated from the binary's output.

use super::{Broken, of};
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

/// A page and the command that generates it.
pub(super) struct MadePage {
    /// Its path from the root.
    pub(super) path: &'static str,
    /// The arguments of `meridian`.
    pub(super) args: [&'static str; 2],
    /// Makes the page from the command's output.
    pub(super) render: fn(&str) -> anyhow::Result<String>,
}

impl MadePage {
    /// Checks that the page matches the binary's current output.
    pub(super) fn check(&self, house: &House) -> anyhow::Result<Vec<Broken>> {
        if !house.build()? {
            return Ok(vec![of("workspace", "does not build, so the binary can't be asked")]);
        }
        Ok(self.broken(house.text(self.path).unwrap_or_default(), &self.page(house)?))
    }

    /// Writes the page.
    pub(super) fn write(&self, house: &House) -> anyhow::Result<()> {
        std::fs::create_dir_all(house.root.join("docs"))?;
        std::fs::write(house.root.join(self.path), self.page(house)?)?;
        println!("wrote {}", self.path);
        Ok(())
    }

    fn page(&self, house: &House) -> anyhow::Result<String> {
        (self.render)(&stdout_of(cmd(&house.root, house.meridian(), &self.args))?)
    }

    fn broken(&self, found: &str, wanted: &str) -> Vec<Broken> {
        if found == wanted { vec![] } else { vec![of(self.path, "is out of date; run ./x docs")] }
    }
}

#[cfg(test)]
mod tests {
    // A page written for another version is a violation, and so is a missing one.
    #[test]
    fn an_old_page_is_found() {
        let page = &crate::check::policies::PAGE;
        assert_eq!(page.broken("", "new")[0].what, "is out of date; run ./x docs");
        assert_eq!(page.broken("new", "new"), []);
    }
}
