//! Commands in the documents exist, with their flags.
//!
//! The rule compares with the programs themselves: `./x help` for the script, `meridian help`,
//! `meridian-lab help` and each command's own help for the two programs, clap for xtask itself.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Broken, Rule, at, of};
use crate::cmd::{cmd, stdout_of};
use crate::house::{File, House};
use crate::md;

pub(crate) const RULE: Rule = Rule {
    name: "commands",
    holds: "commands in the documents exist, with their flags",
    run: |house| run(house),
};

/// The commands of `./x` that hand their arguments to `meridian` under the same name.
const PASSED_ON: [&str; 3] = ["demo", "up", "bench"];

/// The commands that the programs' own help omits, since they are rarely needed; documents may show them.
const HIDDEN: [&str; 1] = ["wan"];

/// The help of every command by name, including its subcommands' help.
type Helps = BTreeMap<String, String>;

/// The commands of each program.
struct Known {
    x: Helps,
    meridian: Helps,
    lab: Helps,
}

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    if !house.build()? {
        return Ok(vec![of("workspace", "does not build, so its commands can't be asked")]);
    }
    let script = stdout_of(cmd(&house.root, "./x", &["help"]))?;
    let meridian = helps_of(house, &house.meridian())?;
    let lab = helps_of(house, &house.meridian_lab())?;
    let mut x: Helps = names_of_x(&script).map(|name| (name.to_owned(), String::new())).collect();
    for name in PASSED_ON {
        x.insert(name.to_owned(), meridian.get(name).cloned().unwrap_or_default());
    }
    x.extend(crate::helps());
    let pages = house.files.iter().filter(|file| file.path.ends_with(".md"));
    let known = Known { x, meridian, lab };
    Ok(pages.flat_map(|page| broken(page, &known)).collect())
}

fn helps_of(house: &House, program: &Path) -> anyhow::Result<Helps> {
    let ask = |args: &[&str]| stdout_of(cmd(&house.root, program, args));
    let mut helps = Helps::new();
    let everyday = ask(&["--help"])?;
    for name in names_of_clap(&everyday).chain(HIDDEN) {
        let mut help = ask(&[name, "--help"])?;
        let below: Vec<String> = names_of_clap(&help).map(str::to_owned).collect();
        for inner in below.iter().filter(|inner| *inner != "help") {
            help.push_str(&ask(&[name, inner, "--help"])?);
        }
        helps.insert(name.to_owned(), help);
    }
    Ok(helps)
}

/// `  ./x NAME ...` in the script's help.
fn names_of_x(help: &str) -> impl Iterator<Item = &str> {
    help.lines().filter_map(|line| line.strip_prefix("  ./x ")?.split(' ').next())
}

/// The list under "Commands:" as clap prints it.
pub(super) fn names_of_clap(help: &str) -> impl Iterator<Item = &str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        line.split(' ').next()
    });
    names.filter(|name| *name != "help")
}

fn broken(page: &File, known: &Known) -> Vec<Broken> {
    let mut found = Vec::new();
    for (number, code) in md::code(page.text.as_deref().unwrap_or_default()) {
        let code = code.strip_prefix("$ ").unwrap_or(code);
        let code = code.split(" #").next().unwrap_or(code);
        let what = match code.split_once(' ') {
            Some(("./x", rest)) => shown(rest, known),
            Some(("meridian", rest)) => shown_of("meridian", rest, &known.meridian),
            Some(("meridian-lab", rest)) => shown_of("meridian-lab", rest, &known.lab),
            _ => None,
        };
        found.extend(what.map(|what| at(&page.path, number, what)));
    }
    found
}

/// `./x run up ...` shows a command of meridian.
fn shown(rest: &str, known: &Known) -> Option<String> {
    match rest.split_once(' ') {
        Some(("run", rest)) => shown_of("./x run", rest, &known.meridian),
        _ => shown_of("./x", rest, &known.x),
    }
}

fn shown_of(program: &str, rest: &str, helps: &Helps) -> Option<String> {
    let mut words = rest.split_whitespace();
    // A capital or an ellipsis stands for any command.
    let name = words.next().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let Some(help) = helps.get(name) else {
        let known = helps.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
        return Some(format!("{program} has no command {name}; it has: {known}"));
    };
    let flags = words.map(|word| word.split('=').next().unwrap_or(word).trim_matches(['[', ']']));
    let is_there =
        |flag: &str| help.split_whitespace().any(|word| word.trim_matches(['[', ']', ',']) == flag);
    let unknown = flags.filter(|word| word.starts_with("--")).find(|flag| !is_there(flag))?;
    Some(format!("{program} {name} has no flag {unknown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Vec<Broken> {
        let up = ("up".to_owned(), "Options:\n      --for <TIME>\n  -h, --help".to_owned());
        let helps = Helps::from([up]);
        let mut x = helps.clone();
        x.insert("run".to_owned(), String::new());
        let known = Known { x, meridian: helps.clone(), lab: helps };
        broken(&File::of("README.md", text), &known)
    }

    // A renamed command must not remain in any document.
    #[test]
    fn an_unknown_command_is_found() {
        assert_eq!(judged("`./x up` and `meridian up`"), []);
        assert!(judged("```\n$ ./x start\n```")[0].what.starts_with("./x has no command start"));
        assert!(judged("`./x run start`")[0].what.starts_with("./x run has no command start"));
        assert!(judged("`meridian start`")[0].what.starts_with("meridian has no command start"));
        assert_eq!(judged("`meridian-lab up --for 15s`"), []);
        assert!(judged("`meridian-lab start`")[0].what.starts_with("meridian-lab has no command"));
    }

    // The same for a flag, in both of its forms.
    #[test]
    fn an_unknown_flag_is_found() {
        assert_eq!(judged("`./x up --for 15s` `meridian up --for=15s`  # --not a flag"), []);
        assert_eq!(judged("`meridian up --time 15s`")[0].what, "meridian up has no flag --time");
    }

    // The lists are read as the two programs print them.
    #[test]
    fn reads_both_helps() {
        let names: Vec<_> = names_of_x("Text.\n\n  ./x up [ARGS]  a\n  ./x help  b\n").collect();
        assert_eq!(names, ["up", "help"]);
        let help =
            "About\n\nCommands:\n  up    Runs\n          more\n  help  Prints\n\nOptions:\n  -h";
        assert_eq!(names_of_clap(help).collect::<Vec<_>>(), ["up"]);
    }
}
