//! Parts of pages that are generated from the binary's output.
//!
//! A made part stands between two comments, the first of which names its command.

use anyhow::Context as _;

use super::{Broken, of};
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

/// A page with a part that a command generates.
pub(super) struct MadePart {
    /// The page's path from the root.
    pub(super) path: &'static str,
    /// The arguments of `meridian`.
    pub(super) args: [&'static str; 2],
    /// Makes the part from the command's output.
    pub(super) render: fn(&str) -> anyhow::Result<String>,
}

const END: &str = "<!-- end of the made part -->\n";

impl MadePart {
    /// Checks that the part matches the binary's current output.
    pub(super) fn check(&self, house: &House) -> anyhow::Result<Vec<Broken>> {
        if !house.build()? {
            return Ok(vec![of("workspace", "does not build, so the binary can't be asked")]);
        }
        let page = house.file(self.path)?;
        let current = self.with(page, &self.part(house)?)?;
        Ok(if page == current {
            vec![]
        } else {
            vec![of(self.path, "is out of date; run ./x docs")]
        })
    }

    /// Writes the page with its current part.
    pub(super) fn write(&self, house: &House) -> anyhow::Result<()> {
        let page = self.with(house.file(self.path)?, &self.part(house)?)?;
        std::fs::write(house.root.join(self.path), page)?;
        println!("wrote {}", self.path);
        Ok(())
    }

    fn part(&self, house: &House) -> anyhow::Result<String> {
        (self.render)(&stdout_of(cmd(&house.root, house.meridian(), &self.args))?)
    }

    /// The page with this part between its comments.
    fn with(&self, page: &str, part: &str) -> anyhow::Result<String> {
        let start = format!("<!-- made by ./x docs from: meridian {} -->\n", self.args.join(" "));
        let lacks = |mark: &str| format!("{} lacks the line {}", self.path, mark.trim_end());
        let (before, rest) = page.split_once(&start).with_context(|| lacks(&start))?;
        let (_, after) = rest.split_once(END).with_context(|| lacks(END))?;
        Ok(format!("{before}{start}\n{}\n\n{END}{after}", part.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: MadePart =
        MadePart { path: "docs/a.md", args: ["a", "--b"], render: |text| Ok(text.to_owned()) };

    // The part is replaced, and the rest of the page stays; a page without the comments is an error.
    #[test]
    fn an_old_part_is_replaced() {
        let page = |part: &str| {
            format!("# A\n<!-- made by ./x docs from: meridian a --b -->\n{part}{END}\nB\n")
        };
        assert_eq!(PART.with(&page("\nold\n"), "\nnew\n").unwrap(), page("\nnew\n\n"));
        assert_eq!(PART.with(&page(""), "new\n").unwrap(), page("\nnew\n\n"));
        assert!(
            PART.with("# A\n", "new").unwrap_err().to_string().contains("lacks the line <!-- made")
        );
    }
}
