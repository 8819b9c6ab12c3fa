//! Numbers that may only improve, one by one.
//!
//! `xtask/ratchets/NAME.txt` records today's numbers, as one `key number` on each line; a comment
//! starts with `#`. A number that got worse is a violation, and one that got better is recorded at
//! once, so that it can't get worse again unseen: `./x check --write NAME` does that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Context as _;

use super::{Broken, of};
use crate::house::House;

/// Numbers by key: a crate, a path, a word.
pub(super) type Numbers = BTreeMap<String, usize>;

pub(super) struct Ratchet {
    /// The rule's name, and the file's.
    pub(super) name: &'static str,
    pub(super) better: Better,
    /// Whether a number may move from one key to another that is there already, as code does
    /// between crates. A key may always be renamed or split.
    pub(super) moves: bool,
    /// What to do when a number got worse.
    pub(super) remedy: &'static str,
    /// Only what is over the limit, if there is one, and no zeros.
    pub(super) measure: fn(&House) -> anyhow::Result<Numbers>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Better {
    Less,
    More,
}

impl Ratchet {
    pub(super) fn check(&self, house: &House) -> anyhow::Result<Vec<Broken>> {
        self.judge(house, &(self.measure)(house)?, &|_| String::new())
    }

    /// Compares numbers that were measured already. `explain` adds to the message about a number
    /// that got worse.
    pub(super) fn judge(
        &self,
        house: &House,
        measured: &Numbers,
        explain: &dyn Fn(&str) -> String,
    ) -> anyhow::Result<Vec<Broken>> {
        Ok(self.broken(&read(&self.recorded(house))?, measured, explain))
    }

    /// Records the measured numbers if none got worse; true if they are recorded now. Without a
    /// file, it records all of them.
    pub(super) fn write(&self, house: &House) -> anyhow::Result<bool> {
        let (recorded, measured) = (read(&self.recorded(house))?, (self.measure)(house)?);
        if recorded == measured {
            return Ok(true);
        }
        let is_new = recorded.is_empty();
        if !is_new && !self.may_replace(&recorded, &measured) {
            let path = self.path();
            println!("{path}: not written, as numbers got worse; edit it, or delete it first");
            for one in self.broken(&recorded, &measured, &|_| String::new()) {
                println!("       {}: {}", one.place, one.what);
            }
            return Ok(false);
        }
        let way = if self.better == Better::Less { "smaller" } else { "larger" };
        let mut text = format!(
            "# Numbers that only get {way}. `./x check --write {}` records them.\n",
            self.name
        );
        for (key, number) in measured {
            let _ = writeln!(text, "{key} {number}");
        }
        let path = house.root.join(self.path());
        std::fs::create_dir_all(path.parent().unwrap_or(&house.root))?;
        std::fs::write(&path, text).with_context(|| self.path())?;
        println!("wrote {}", self.path());
        Ok(true)
    }

    fn path(&self) -> String {
        format!("xtask/ratchets/{}.txt", self.name)
    }

    /// The file as it is now; empty if there is none.
    fn recorded(&self, house: &House) -> String {
        std::fs::read_to_string(house.root.join(self.path())).unwrap_or_default()
    }

    fn is_worse(&self, new: usize, old: usize) -> bool {
        match self.better {
            Better::Less => new > old,
            Better::More => new < old,
        }
    }

    pub(super) fn broken(
        &self,
        recorded: &Numbers,
        measured: &Numbers,
        explain: &dyn Fn(&str) -> String,
    ) -> Vec<Broken> {
        let keys: BTreeSet<&String> = recorded.keys().chain(measured.keys()).collect();
        let (path, name, remedy) = (self.path(), self.name, self.remedy);
        let write = format!("./x check --write {name}");
        let what = |key: &String| match (recorded.get(key), measured.get(key)) {
            (Some(old), Some(new)) if self.is_worse(*new, *old) => {
                let limit = if self.better == Better::Less { "over" } else { "under" };
                let why = explain(key);
                Some(format!(
                    "{new}, {limit} the {old} in {path}; {remedy}. If it has to be, write there: \
                     {key} {new}{why}"
                ))
            }
            (None, Some(new)) if self.better == Better::Less => {
                let why = explain(key);
                Some(format!(
                    "{new}, and {path} has no line for it; {remedy}. If it was there under another \
                     name, run {write}, or write there: {key} {new}{why}"
                ))
            }
            (Some(old), Some(new)) if old != new => Some(format!(
                "{new}, better than the {old} in {path}; run {write}, or write there: {key} {new}"
            )),
            (None, Some(new)) => Some(format!(
                "{new}, and {path} has no line for it; run {write}, or write there: {key} {new}"
            )),
            (Some(old), None) if self.better == Better::More => Some(format!(
                "none, under the {old} in {path}; {remedy}. If it is gone, or has another name, run \
                 {write}, or take its line out: {key} {old}"
            )),
            (Some(old), None) => Some(format!(
                "is gone or within the limit; run {write}, or take its line out of {path}: {key} \
                 {old}"
            )),
            _ => None,
        };
        keys.into_iter().filter_map(|key| Some(of(key, what(key)?))).collect()
    }

    /// Whether nothing got worse, apart from numbers that moved to other keys.
    fn may_replace(&self, recorded: &Numbers, measured: &Numbers) -> bool {
        let total = |numbers: &Numbers| numbers.values().sum::<usize>();
        let worse = recorded
            .iter()
            .any(|(key, old)| measured.get(key).is_some_and(|new| self.is_worse(*new, *old)));
        (self.moves || !worse) && !self.is_worse(total(measured), total(recorded))
    }
}

fn read(text: &str) -> anyhow::Result<Numbers> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let number = |line: &str| {
        let (key, number) = line.rsplit_once(' ')?;
        Some((key.to_owned(), number.parse().ok()?))
    };
    lines
        .map(|line| number(line).with_context(|| format!("{line:?} is not `key number`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LESS: Ratchet = Ratchet {
        name: "a",
        better: Better::Less,
        moves: false,
        remedy: "split it",
        measure: |_| Ok(Numbers::new()),
    };
    const MORE: Ratchet = Ratchet { better: Better::More, moves: true, ..LESS };

    fn of_text(text: &str) -> Numbers {
        read(text).unwrap()
    }

    fn whats(ratchet: &Ratchet, recorded: &str, measured: &str) -> Vec<String> {
        let explain = |key: &str| format!("\nabout {key}");
        let broken = ratchet.broken(&of_text(recorded), &of_text(measured), &explain);
        broken.into_iter().map(|one| format!("{}: {}", one.place, one.what)).collect()
    }

    // A number that got worse is reported with the remedy, with the line to write if it must be,
    // and with what the rule adds.
    #[test]
    fn worse_numbers_are_found() {
        let less = whats(&LESS, "x 2\nsame 3\n", "x 3\nsame 3\nnew one 4\n");
        assert!(
            less[0].starts_with("new one: 4, and xtask/ratchets/a.txt has no line for it; split")
        );
        assert!(less[0].ends_with("write there: new one 4\nabout new one"), "{less:?}");
        assert!(less[1].starts_with("x: 3, over the 2 in xtask/ratchets/a.txt; split it."));
        assert!(less[1].ends_with("write there: x 3\nabout x"), "{less:?}");
        assert!(whats(&MORE, "x 2\n", "x 1\n")[0].starts_with("x: 1, under the 2"));
        assert!(whats(&MORE, "x 2\n", "")[0].starts_with("x: none, under the 2"));
    }

    // A better number is recorded at once; a line that is no longer needed is taken out.
    #[test]
    fn better_numbers_are_recorded() {
        let less = whats(&LESS, "gone 3\nx 3\n", "x 2\n");
        assert!(less[0].starts_with("gone: is gone or within the limit"), "{less:?}");
        assert!(less[1].starts_with("x: 2, better than the 3"), "{less:?}");
        assert!(less[1].ends_with("write there: x 2"), "{less:?}");
        assert!(whats(&MORE, "", "x 2\n")[0].starts_with("x: 2, and xtask/ratchets/a.txt has no"));
    }

    // Numbers are replaced when keys were renamed or split, or when they moved and may. They are
    // not when the total got worse.
    #[test]
    fn only_numbers_that_did_not_get_worse_are_replaced() {
        let may = |ratchet: &Ratchet, old, new| ratchet.may_replace(&of_text(old), &of_text(new));
        assert!(may(&LESS, "wire 5\n", "config 3\nprotocol 2\n"));
        assert!(!may(&LESS, "wire 5\n", "config 3\nprotocol 3\n"));
        assert!(!may(&LESS, "a 5\nb 5\n", "a 1\nb 6\n"));
        assert!(may(&MORE, "a 5\nb 5\n", "a 4\nb 6\n"));
        assert!(!may(&MORE, "a 5\nb 5\n", "a 4\nb 5\n"));
    }

    // A line without a number is an error that shows it.
    #[test]
    fn a_line_without_a_number_is_an_error() {
        assert_eq!(of_text("# a 1\n\ngateway remote 2\n"), [("gateway remote".into(), 2)].into());
        assert!(read("a\n").unwrap_err().to_string().contains("\"a\" is not"));
    }
}
