//! `docs/calls.md` lists every call of OpenAI's and Anthropic's APIs and every route of the engines,
//! beside the gateway's own answer to it. The lists are in `calls/`, each with its source.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use meridian_protocol::openai::{Endpoint, remedy};

/// A method and a path of a list.
#[derive(Clone, Copy, PartialEq)]
struct Call {
    method: &'static str,
    path: &'static str,
}

/// The routes of an engine.
struct Engine {
    name: &'static str,
    calls: Vec<Call>,
}

/// What happens to a call.
#[derive(PartialEq)]
enum Answer {
    Served(&'static str),
    /// 405 with these methods.
    Method(&'static str),
    /// 404 with this remedy.
    Unknown(&'static str),
}

const HEAD: &str = "\
# Calls

Every call of OpenAI's and Anthropic's APIs, and every route of three engines, with what the gateway does. Look here
to find out whether a client's call works, and which of your engines has it. [API](api.md) explains the served ones.

";
const MARK: &str = "<!-- made by REWRITE=1 cargo test -p meridian-protocol --test calls -->\n";
const END: &str = "<!-- end of the made part -->\n";

/// The health checks, which are no calls to replicas.
const OWN: [&str; 2] = ["/health", "/ready"];

/// The remedy of paths that `paths` in the configuration opens.
fn opened_by_paths() -> &'static str {
    remedy("/a-path-of-an-engine")
}

fn read(list: &'static str) -> Vec<Call> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (method, path) = line.split_once(' ').expect("a method and a path");
            Call { method, path }
        })
        .collect()
}

fn engines() -> [Engine; 3] {
    [
        Engine { name: "vLLM 0.32", calls: read(include_str!("calls/vllm.txt")) },
        Engine { name: "SGLang 0.5.23", calls: read(include_str!("calls/sglang.txt")) },
        Engine { name: "llama.cpp", calls: read(include_str!("calls/llamacpp.txt")) },
    ]
}

impl Call {
    fn answer(self) -> Answer {
        if OWN.contains(&self.path) {
            return Answer::Served("answered by the gateway");
        }
        let endpoint = Endpoint::of(self.path);
        match endpoint.methods(self.path) {
            None => Answer::Unknown(remedy(self.path)),
            Some(allowed) if allowed.split(", ").any(|one| one == self.method) => {
                Answer::Served(done(endpoint))
            }
            Some(allowed) => Answer::Method(allowed),
        }
    }

    /// The same call, whatever the placeholders are named.
    fn is(self, other: Call) -> bool {
        let parts = |path: &'static str| {
            path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part })
        };
        self.method == other.method && parts(self.path).eq(parts(other.path))
    }

    /// The path down to the objects that it is about, below which no call is served:
    /// `/v1/organization`, `/v1/messages/batches`.
    fn family(self, calls: &[Call]) -> &'static str {
        let served = |start: &str| {
            let mut below = calls.iter().filter(|call| call.path.starts_with(start));
            below.any(|call| matches!(call.answer(), Answer::Served(_)))
        };
        let ends = self.path.match_indices('/').map(|(at, _)| &self.path[..at]);
        let mut starts = ends.chain([self.path]).filter(|start| !matches!(*start, "" | "/v1"));
        starts.find(|start| !served(start)).unwrap_or(self.path)
    }
}

/// What the gateway does with a call, and where the state of the call is.
fn done(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::ChatCompletions | Endpoint::Completions | Endpoint::Messages => {
            "routed by prefix; no state"
        }
        Endpoint::Embeddings => "routed by prefix and load; no state",
        Endpoint::Responses => "routed by prefix; a stored response stays at its replica",
        Endpoint::CountTokens | Endpoint::Tokenize | Endpoint::Stateless(_) => {
            "passed to a replica of the model; no state"
        }
        Endpoint::StoredResponse => "passed to the replica that stored the response",
        Endpoint::Models => "answered from the lists of all replicas and peers",
        Endpoint::Other => unreachable!("an endpoint with methods"),
    }
}

/// The served calls of a list, with the engines that have each.
fn served(calls: &[Call], engines: &[Engine]) -> String {
    let names: Vec<&str> = engines.iter().map(|engine| engine.name).collect();
    let mut table = format!("| call | gateway | {} |\n", names.join(" | "));
    table += &format!("| --- | --- |{}\n", " --- |".repeat(engines.len()));
    for call in calls {
        let Answer::Served(what) = call.answer() else { continue };
        write!(table, "| `{} {}` | {what} |", call.method, call.path).expect("writes");
        for engine in engines {
            let has = engine.calls.iter().any(|one| one.is(*call));
            table += if has { " yes |" } else { " - |" };
        }
        table.push('\n');
    }
    table
}

/// The refused calls of a list by what the refusal says, families of calls together.
fn refused(calls: &[Call]) -> String {
    let mut groups: Vec<(String, BTreeMap<String, usize>)> = Vec::new();
    for call in calls {
        let (says, name) = match call.answer() {
            Answer::Served(_) => continue,
            Answer::Method(allow) => {
                (format!("405, `Allow: {allow}`"), format!("{} {}", call.method, call.path))
            }
            Answer::Unknown(remedy) => (format!("404: {remedy}"), call.family(calls).to_owned()),
        };
        let at = groups.iter().position(|(known, _)| *known == says).unwrap_or_else(|| {
            groups.push((says, BTreeMap::new()));
            groups.len() - 1
        });
        *groups[at].1.entry(name).or_default() += 1;
    }
    let mut table = "| calls | answer |\n| --- | --- |\n".to_owned();
    for (says, names) in groups {
        let names = names.into_iter().map(|(name, count)| match count {
            1 => format!("`{name}`"),
            _ => format!("`{name}` ({count})"),
        });
        let names: Vec<String> = names.collect();
        writeln!(table, "| {} | {says} |", names.join(", ")).expect("writes");
    }
    table
}

/// The routes of engines that are in neither API, each once.
fn others(engines: &[Engine], apis: &[&[Call]]) -> Vec<Call> {
    let mut found: Vec<Call> = Vec::new();
    for call in engines.iter().flat_map(|engine| &engine.calls) {
        let known = apis.iter().any(|calls| calls.iter().any(|one| one.is(*call)));
        if !known && !found.contains(call) {
            found.push(*call);
        }
    }
    found.sort_by_key(|call| (call.path, call.method));
    found
}

fn page() -> String {
    let engines = engines();
    let openai = read(include_str!("calls/openai.txt"));
    let anthropic = read(include_str!("calls/anthropic.txt"));
    let others = others(&engines, &[&openai, &anthropic]);
    let mut page = format!("{HEAD}{MARK}");
    for (title, calls) in [
        ("OpenAI's API", &openai),
        ("Anthropic's API", &anthropic),
        ("Other routes of engines", &others),
    ] {
        let (served, refused) = (served(calls, &engines), refused(calls));
        write!(
            page,
            "\n## {title}\n\n{served}\nRefused, with the number of calls below a path:\n\n{refused}"
        )
        .expect("writes");
    }
    page + "\n" + END
}

// After a change of the endpoints or of a list, run this test with REWRITE=1 to write the page again.
#[test]
fn the_page_is_what_the_code_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/calls.md");
    let made = page();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &made).expect("writes");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "docs/calls.md is out of date; run this test with REWRITE=1");
}

// The refusal of a call that a client's SDK has says what to do instead. Only a path that may be an
// engine's own leads to `paths`.
#[test]
fn every_call_of_the_apis_is_known() {
    let lists = [include_str!("calls/openai.txt"), include_str!("calls/anthropic.txt")];
    let unknown = lists.into_iter().flat_map(read);
    let unknown = unknown.filter(|call| call.answer() == Answer::Unknown(opened_by_paths()));
    let unknown: Vec<&str> = unknown.map(|call| call.path).collect();
    assert_eq!(unknown, [""; 0]);
}
