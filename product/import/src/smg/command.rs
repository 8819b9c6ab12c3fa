//! Finds command lines: in a shell script, in a systemd unit, and in YAML of Docker Compose or
//! Kubernetes.

use serde_json::Value;

use super::super::source;
use super::words::Variables;

/// The programs, as files and as Python modules.
const PROGRAMS: [&str; 10] = [
    "smg",
    "amg",
    "sglang-router",
    "vllm-router",
    "smg.launch_router",
    "smg.launch_server",
    "sglang_router.launch_router",
    "sglang_router.launch_server",
    "vllm_router.launch_router",
    "sglang-router-rs",
];
/// Flags that only a router has.
const ROUTER_FLAGS: [&str; 5] = [
    "--worker-urls",
    "--service-discovery",
    "--pd-disaggregation",
    "--prefill",
    "--discovery-provider",
];
/// The deepest nesting of YAML that is searched.
const DEEPEST: usize = 32;

/// A command line.
pub(super) struct CommandLine(Vec<String>);

impl CommandLine {
    /// The words after the program's name.
    pub(super) fn words(&self) -> &[String] {
        let program = self.0.iter().position(|word| is_program(word));
        &self.0[program.map_or(0, |at| at + 1)..]
    }

    /// Whether it starts a router.
    pub(super) fn is_router(&self) -> bool {
        let flag = |word: &String| word.starts_with("--");
        let of_router = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            ROUTER_FLAGS.contains(&name.replace("--router-", "--").as_str())
        };
        let named = self.0.iter().any(|word| is_program(word));
        (named && self.0.iter().any(flag)) || self.0.iter().any(of_router)
    }

    /// Whether the program is vllm-router, whose defaults differ.
    pub(super) fn is_vllm(&self) -> bool {
        self.0.iter().any(|word| word.contains("vllm-router") || word.contains("vllm_router"))
    }
}

fn is_program(word: &str) -> bool {
    PROGRAMS.contains(&word.rsplit('/').next().unwrap_or(word))
}

/// All command lines of a file.
pub(super) fn lines(text: &str) -> anyhow::Result<Vec<CommandLine>> {
    let is_unit = text.lines().any(|line| line.trim_start().starts_with("ExecStart="));
    let is_yaml = text.lines().any(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        ["command:", "args:", "entrypoint:"].iter().any(|key| line.starts_with(key))
    });
    match (is_unit, is_yaml) {
        (true, _) => Ok(unit(text)),
        (_, true) => yaml(text),
        _ => Ok(script(text)),
    }
}

/// Joins each line that ends with a backslash with the next one.
fn joined(text: &str) -> String {
    text.replace("\r\n", "\n").replace("\\\n", " ")
}

fn script(text: &str) -> Vec<CommandLine> {
    let mut variables = Variables::default();
    let mut lines = Vec::new();
    for line in joined(text).lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') || variables.take(line) {
            continue;
        }
        lines.extend(variables.words(line).map(CommandLine));
    }
    lines
}

fn unit(text: &str) -> Vec<CommandLine> {
    let (mut variables, text) = (Variables::default(), joined(text));
    let value = |key: &'static str| {
        text.lines().filter_map(move |line| line.trim().strip_prefix(key).map(str::trim))
    };
    for line in value("Environment=").flat_map(|line| shlex::split(line).unwrap_or_default()) {
        if let Some((name, value)) = line.split_once('=') {
            let value = shlex::try_quote(value).unwrap_or_default();
            variables.take(&format!("{name}={value}"));
        }
    }
    let commands =
        value("ExecStart=").map(|line| line.trim_start_matches(['-', '@', ':', '+', '!']));
    commands.filter_map(|line| variables.words(line).map(CommandLine)).collect()
}

fn yaml(text: &str) -> anyhow::Result<Vec<CommandLine>> {
    let mut lines = Vec::new();
    // A file for Kubernetes may contain several documents.
    for document in text.split("\n---") {
        if document.trim().is_empty() || document.lines().all(|line| line.starts_with('#')) {
            continue;
        }
        search(&source::yaml(document)?, 0, &mut lines);
    }
    Ok(lines)
}

fn search(value: &Value, depth: usize, lines: &mut Vec<CommandLine>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Array(list) => list.iter().for_each(|value| search(value, depth + 1, lines)),
        Value::Object(map) => {
            let variables = environment(map);
            let parts = ["entrypoint", "command", "args"].iter().filter_map(|key| map.get(*key));
            let words: Vec<String> = parts.flat_map(|part| words(part, &variables)).collect();
            if !words.is_empty() {
                lines.push(CommandLine(words));
            }
            map.values().for_each(|value| search(value, depth + 1, lines));
        }
        _ => {}
    }
}

/// `environment` of Compose, as a map or a list, and `env` of Kubernetes.
fn environment(map: &serde_json::Map<String, Value>) -> Variables {
    let mut variables = Variables::default();
    let mut take = |name: &str, value: &str| {
        let value = shlex::try_quote(value).unwrap_or_default().into_owned();
        variables.take(&format!("{name}={value}"));
    };
    match map.get("environment").or_else(|| map.get("env")) {
        Some(Value::Object(pairs)) => {
            for (name, value) in pairs {
                value.as_str().into_iter().for_each(|value| take(name, value));
            }
        }
        Some(Value::Array(list)) => {
            for entry in list {
                let pair = entry.as_str().and_then(|entry| entry.split_once('='));
                let field = |name: &str| entry.get(name).and_then(Value::as_str);
                let pair = pair.or_else(|| field("name").zip(field("value")));
                pair.into_iter().for_each(|(name, value)| take(name, value));
            }
        }
        _ => {}
    }
    variables
}

/// The words of a command that is a list or a line. The script after a shell's `-c` is read too.
fn words(part: &Value, variables: &Variables) -> Vec<String> {
    match part {
        Value::String(line) => variables.words(&joined(line)).unwrap_or_default(),
        Value::Array(list) => list
            .iter()
            .filter_map(|word| match word {
                Value::String(word) => Some(word.clone()),
                Value::Number(n) => Some(n.to_string()),
                _ => None,
            })
            .flat_map(|word| match word.contains(char::is_whitespace) && word.contains("--") {
                true => variables.words(&joined(&word)).unwrap_or_default(),
                false => vec![variables.value(&word)],
            })
            .collect(),
        _ => Vec::new(),
    }
}
