//! The cases of the race.

use std::path::Path;

use anyhow::{Context, bail};
use meridian_workload::write_text;

use crate::mock;

/// The body of a request, which also tells the mock how to answer.
pub(super) struct Body {
    /// Its file.
    pub(super) file: &'static str,
    /// Heading in the tables.
    pub(super) title: &'static str,
    /// Length of the prompt.
    prompt_bytes: u32,
    /// Tokens of the answer.
    pub(super) tokens: usize,
    /// Whether the answer is a stream.
    pub(super) stream: bool,
    /// Whether the mock writes the head of a stream by itself, and each event too.
    apart: bool,
}

const PLAIN: Body = Body {
    file: "plain.json",
    title: "plain",
    prompt_bytes: 64,
    tokens: mock::TOKENS,
    stream: false,
    apart: false,
};
const SSE: Body = Body { file: "sse.json", title: "SSE", stream: true, ..PLAIN };
const LONG: Body = Body { file: "64k.json", title: "64 KB SSE", prompt_bytes: 64 << 10, ..SSE };
const APART: Body = Body { file: "apart.json", title: "SSE apart", apart: true, ..SSE };
const MANY: Body =
    Body { file: "200.json", title: "SSE 200 tokens", tokens: mock::MANY_TOKENS, ..SSE };

/// All bodies.
pub(super) static BODIES: [Body; 5] = [PLAIN, SSE, LONG, APART, MANY];

/// One case: a body and a number of connections.
pub(super) struct Case {
    /// Name in the results and on the command line.
    pub(super) name: &'static str,
    pub(super) body: Body,
    /// Connections, each with one request at a time.
    pub(super) connections: u32,
    /// Whether it belongs to the usual set, and not only to the full one.
    usual: bool,
}

impl Case {
    /// Heading in a table of all cases.
    pub(super) fn title(&self) -> String {
        format!("{} c={}", self.body.title, self.connections)
    }
}

const fn usual(name: &'static str, body: Body, connections: u32) -> Case {
    Case { name, body, connections, usual: true }
}

const fn full(name: &'static str, body: Body, connections: u32) -> Case {
    Case { name, body, connections, usual: false }
}

/// All cases. One connection shows a gateway's added latency, 32 its CPU cost, 512 what it costs to
/// keep many sockets.
pub(super) static CASES: [Case; 15] = [
    usual("plain_c1", PLAIN, 1),
    usual("plain_c32", PLAIN, 32),
    full("plain_c512", PLAIN, 512),
    usual("sse_c1", SSE, 1),
    usual("sse_c32", SSE, 32),
    usual("sse_c512", SSE, 512),
    full("64k_c1", LONG, 1),
    usual("64k_c32", LONG, 32),
    full("64k_c512", LONG, 512),
    usual("apart_c1", APART, 1),
    usual("apart_c32", APART, 32),
    full("apart_c512", APART, 512),
    full("200_c1", MANY, 1),
    usual("200_c32", MANY, 32),
    full("200_c512", MANY, 512),
];

/// The cases named in `asked`, in the order of the table; without names the usual set, or all.
pub(super) fn select(asked: &[String], all: bool) -> anyhow::Result<Vec<&'static Case>> {
    if let Some(unknown) = asked.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("case {unknown:?} is unknown: use some of {}", names.join(", "));
    }
    let wanted = |case: &&Case| match asked {
        [] => all || case.usual,
        asked => asked.iter().any(|name| name == case.name),
    };
    Ok(CASES.iter().filter(wanted).collect())
}

/// Writes all bodies into `dir`.
pub(super) fn write_bodies(dir: &Path) -> anyhow::Result<()> {
    for body in &BODIES {
        let path = dir.join(body.file);
        std::fs::write(&path, body.json())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

impl Body {
    fn json(&self) -> String {
        let mut text = String::new();
        if self.apart {
            text = format!("{} ", mock::APART);
        }
        write_text(&mut text, u64::from(self.prompt_bytes), self.prompt_bytes);
        let message = serde_json::json!({"role": "user", "content": text});
        serde_json::json!({
            "model": "mock", "messages": [message], "max_tokens": self.tokens,
            "stream": self.stream,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str], all: bool) -> anyhow::Result<Vec<&'static str>> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        Ok(select(&asked, all)?.iter().map(|case| case.name).collect())
    }

    // Every name is there once. Without names the usual cases run, all on request, and named ones in
    // the order of the table; an unknown name is an error that lists the known ones.
    #[test]
    fn cases_are_selected() {
        let all = names(&[], true).unwrap();
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), CASES.len());
        let usual = names(&[], false).unwrap();
        assert!(usual.len() < all.len() && usual.contains(&"apart_c1"), "{usual:?}");
        let some = names(&["200_c512", "plain_c1"], false).unwrap();
        assert_eq!(some, ["plain_c1", "200_c512"]);
        let error = names(&["plain"], true).unwrap_err().to_string();
        assert!(error.starts_with("case \"plain\" is unknown: use some of plain_c1, "), "{error}");
    }

    // A body asks for as many tokens as its answer has, and only one asks for separate writes.
    #[test]
    fn bodies_ask_for_their_answers() {
        for body in &BODIES {
            let json: serde_json::Value = serde_json::from_str(&body.json()).unwrap();
            assert_eq!(json["max_tokens"], body.tokens);
            assert_eq!(json["stream"], body.stream);
            let prompt = json["messages"][0]["content"].as_str().unwrap();
            assert_eq!(prompt.starts_with(mock::APART), body.title == "SSE apart");
        }
    }
}
