//! `docs/engines.md` agrees with the binary about every engine.
//!
//! `./x docs` generates the page from `meridian engines --verbose`, so an engine's line in the
//! table is its documentation too.

use super::Rule;
use super::made::MadePage;

pub(crate) const RULE: Rule = Rule {
    name: "engines",
    holds: "docs/engines.md is what the binary says",
    run: |house| PAGE.check(house),
};

pub(super) const PAGE: MadePage =
    MadePage { path: "docs/engines.md", args: ["engines", "--verbose"], render: page };

const HEAD: &str = "# Engines

The inference engines that a gateway knows. `engine: auto`, the default, asks a new replica for its
`/metrics`, and where that tells nothing for the pages below that only one engine has. A replica that
no page identifies counts as `none`. A gateway polls the load page of each replica; where it has none,
or it fails, the replica counts as alive as long as its sign of life answers.

No client may send the private fields and headers: the gateway
[removes them](gateway.md#fields-that-only-engines-send-each-other), also inside members that the
engine merges into a request.

The pages of `trtllm` are not recorded, because its server needs a GPU. Names and paths are those of
[NVIDIA/TensorRT-LLM](https://github.com/NVIDIA/TensorRT-LLM)@050f80de: `tensorrt_llm/metrics/collector.py`
and `tensorrt_llm/serve/openai_server.py`.

This page is made by `./x docs` from `meridian engines --verbose`.
";

/// Makes the page from unindented names and the indented facts under them; the first fact is the
/// summary.
fn page(verbose: &str) -> anyhow::Result<String> {
    let mut page = String::from(HEAD);
    let mut named = false;
    for line in verbose.lines() {
        let Some(fact) = line.strip_prefix("    ") else {
            page += &format!("\n## `{line}`\n\n");
            named = true;
            continue;
        };
        page += &if std::mem::take(&mut named) {
            format!("{fact}.\n\n| what | value |\n| --- | --- |\n")
        } else {
            let (what, value) = fact
                .split_once(": ")
                .ok_or_else(|| anyhow::anyhow!("meridian engines: no value in {fact:?}"))?;
            format!("| {what} | {value} |\n")
        };
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every fact that the binary prints appears on the page.
    #[test]
    fn the_page_holds_every_fact() {
        let verbose =
            "one\n    Any: other\n    load: `/metrics`\ntwo\n    vTwo 3\n    load: `/x`\n";
        let table = "| what | value |\n| --- | --- |\n";
        let wanted = format!(
            "\n## `one`\n\nAny: other.\n\n{table}| load | `/metrics` |\n\
             \n## `two`\n\nvTwo 3.\n\n{table}| load | `/x` |\n"
        );
        assert_eq!(page(verbose).unwrap().strip_prefix(HEAD), Some(wanted.as_str()));
    }
}
