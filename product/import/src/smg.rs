//! smg, sglang-router and vllm-router: three programs with nearly the same flags.
//!
//! The flags are those of `--help` of smg 1.13.0, sglang-router 0.3.2 and vllm-router 0.1.17. A flag
//! that is not in the table becomes a note without its value.

mod command;
mod convert;
mod flags;
mod given;
mod policy;
mod words;

use anyhow::Context as _;

use super::draft::Draft;
use super::note::Found;
use super::source::Source;
use command::CommandLine;
use given::Given;

/// Reads the first command line of a router in the file.
pub(super) fn read(source: &Source, draft: &mut Draft) -> anyhow::Result<()> {
    let lines = command::lines(&source.text)?;
    let routers: Vec<&CommandLine> = lines.iter().filter(|line| line.is_router()).collect();
    let line = routers.first().context(
        "no command line of smg, sglang-router or vllm-router is here; name the file that starts it",
    )?;
    if routers.len() > 1 {
        let found = Found::new("command", &format!("{} of {}", 2, routers.len()), &source.name);
        let remedy = "import the others from files of their own";
        draft.note(&found, "the first of several routers is converted", remedy);
    }
    let given = Given::of(line.words(), line.is_vllm());
    for name in &given.unset {
        let found = Found::new("variable", name, &source.name);
        draft.note(
            &found,
            "its value is not in the file",
            "write the value there and import again",
        );
    }
    convert::listen(&given, draft);
    policy::policy(&given, draft);
    for (flag, values) in &given.flags {
        flags::TABLE.apply((flag, given.shown(flag), ""), draft, |convert, found, draft| {
            convert(&given, values, found, draft);
        });
    }
    Ok(())
}
