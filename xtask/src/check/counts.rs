//! Configuration keys, commands and flags only get fewer.
//!
//! Each is something that an operator reads about, sets wrong and has to be migrated. Their numbers
//! come from the binaries: `meridian config keys`, and the help of every command. A flag counts once
//! for each command that has it; `--help` and `--version` do not count.

use std::path::Path;

use super::Rule;
use super::commands::names_of_clap;
use super::ratchet::{Better, Numbers, Ratchet};
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "counts",
    holds: "no more configuration keys, commands or flags",
    run: |house| {
        let numbers = measured(house)?;
        let shown: Vec<_> = numbers.iter().map(|(key, number)| format!("{key} {number}")).collect();
        println!("       {}", shown.join(", "));
        RATCHET.judge(house, &numbers, &|_| String::new())
    },
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::Less,
    moves: false,
    remedy: "do without it, or name the rise and its reason in the commit",
    measure: measured,
};

const BINARIES: [&str; 2] = ["meridian", "meridian-lab"];

fn measured(house: &House) -> anyhow::Result<Numbers> {
    anyhow::ensure!(house.build()?, "the workspace does not build, so the binaries can't be asked");
    let meridian = house.meridian();
    let printed = stdout_of(cmd(&house.root, &meridian, &["config", "keys"]))?;
    let mut numbers = Numbers::from([("configuration keys".to_owned(), keys(&printed))]);
    for name in BINARIES {
        let ask = |args: &[&str]| asked(&house.root, &meridian.with_file_name(name), args);
        let (commands, flags) = walk(&ask, &[])?;
        numbers.insert(format!("commands of {name}"), commands);
        numbers.insert(format!("flags of {name}"), flags);
    }
    Ok(numbers)
}

fn asked(root: &Path, program: &Path, args: &[&str]) -> anyhow::Result<String> {
    stdout_of(cmd(root, program, args))
}

/// The unindented lines.
fn keys(printed: &str) -> usize {
    printed.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).count()
}

/// The commands that have none below them, and the flags of all, from the help of `path`.
fn walk(
    ask: &dyn Fn(&[&str]) -> anyhow::Result<String>,
    path: &[&str],
) -> anyhow::Result<(usize, usize)> {
    let help = ask(&[path, &["--help"]].concat())?;
    let (mut commands, mut flags_of_all) = (0, flags(&help));
    for name in names_of_clap(&help) {
        let (below, flags) = walk(ask, &[path, &[name]].concat())?;
        commands += below;
        flags_of_all += flags;
    }
    Ok((commands.max(1), flags_of_all))
}

/// The options of a help page as clap prints them: `  -f, --file <FILE>`, `      --file <FILE>`.
fn flags(help: &str) -> usize {
    let options = help.lines().filter(|line| {
        let option = line.trim_start();
        option.starts_with('-') && line.len() - option.len() <= 6
    });
    let is_standard = |line: &&str| {
        line.split_whitespace().take(2).any(|word| ["--help", "--version"].contains(&word))
    };
    options.filter(|line| !is_standard(line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Commands at the ends of the tree count, and flags at each of them. Explanations are no flags.
    #[test]
    fn the_tree_is_counted() {
        let ask = |args: &[&str]| {
            let commands = "Commands:\n  a     A\n  b     B\n  help  Prints\n\n";
            let options = "Options:\n  -f, --file <FILE>\n          --not a flag\n      --json  As \
                           JSON\n  -h, --help  Prints\n";
            Ok(match args {
                ["--help"] | ["b", "--help"] => commands.to_owned(),
                ["a", "--help"] | ["b", "a" | "b", "--help"] => options.to_owned(),
                _ => anyhow::bail!("{args:?}"),
            })
        };
        assert_eq!(walk(&ask, &[]).unwrap(), (3, 6));
    }

    // Each key has facts under it, which are indented.
    #[test]
    fn keys_are_counted() {
        assert_eq!(keys("a\n    default: 1\nb.c\n    default: none\n"), 2);
    }

    // A new flag is reported with the line that admits it.
    #[test]
    fn a_rise_is_found() {
        let numbers = |number| Numbers::from([("flags of meridian".to_owned(), number)]);
        let found = RATCHET.broken(&numbers(3), &numbers(4), &|_| String::new());
        assert!(found[0].what.contains("name the rise and its reason in the commit"), "{found:?}");
        assert!(found[0].what.ends_with("flags of meridian 4"), "{found:?}");
    }
}
