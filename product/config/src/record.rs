//! The files that a gateway writes about its requests: the access log and the journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Size;

/// The place of an access log on the standard output.
const STDOUT: &str = "stdout";
/// The smallest file that is rotated: the gateway writes lines in batches of up to this size.
const LEAST_SIZE: Size = Size::kib(64);
/// Tokens of a prompt for which the journal has one id. The least are those of one block of a policy's
/// prefix index.
const BLOCK_TOKENS: std::ops::RangeInclusive<u32> = 16..=512;
/// Most rotated files to keep: each rotation renames all of them.
const MOST_KEPT: u32 = 1000;

/// The access log: one line for each request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// A file, or `stdout`.
    pub to: String,
    /// The form of a line.
    #[serde(default)]
    pub format: LogFormat,
    /// When to start a new file; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<Rotate>,
}

/// The form of an access log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// `name=value` pairs, with quotes where a value needs them.
    Logfmt,
}

/// The journal: the requests as a trace that can be replayed, with hashes instead of prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// A file.
    pub to: String,
    /// When to start a new file; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<Rotate>,
    /// Tokens of a prompt for which a line has one id. Fewer show more of what prompts share, in longer
    /// lines.
    #[serde(default = "block_tokens")]
    pub block_tokens: u32,
}

fn block_tokens() -> u32 {
    assert!(!BLOCK_TOKENS.is_empty(), "the default is within its limits");
    *BLOCK_TOKENS.end()
}

/// When the gateway starts a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// Size at which a new file is started.
    pub size: Size,
    /// Earlier files to keep: `NAME.1` is the newest.
    #[serde(default = "five")]
    pub keep: u32,
}

fn five() -> u32 {
    const KEEP: u32 = 5;
    const { assert!(KEEP <= MOST_KEPT, "the default is within its limit") };
    KEEP
}

impl AccessLog {
    /// Whether the lines go to the standard output.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.to == STDOUT
    }

    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            !self.to.is_empty(),
            "access_log.to: is empty; name a file, or write `stdout`".to_owned(),
        );
        check(
            !self.is_stdout() || self.rotate.is_none(),
            "access_log.rotate: `stdout` is not a file; remove `rotate`, or name a file in `to`"
                .to_owned(),
        );
        check_rotate("access_log", self.rotate, check);
    }
}

impl Journal {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(!self.to.is_empty(), "journal.to: is empty; name a file".to_owned());
        check(
            self.to != STDOUT,
            "journal.to: `stdout` is for the access log only; name a file, as in `./stdout`"
                .to_owned(),
        );
        check_rotate("journal", self.rotate, check);
        let (tokens, least, most) = (self.block_tokens, BLOCK_TOKENS.start(), BLOCK_TOKENS.end());
        check(
            BLOCK_TOKENS.contains(&tokens),
            format!("journal.block_tokens: {tokens} is out of range; use {least} to {most}"),
        );
    }
}

/// Checks both sections.
pub(super) fn check(
    access_log: Option<&AccessLog>,
    journal: Option<&Journal>,
    check: &mut impl FnMut(bool, String),
) {
    if let Some(log) = access_log {
        log.check(check);
    }
    if let Some(journal) = journal {
        journal.check(check);
        let same = access_log.is_some_and(|log| log.to == journal.to && !log.to.is_empty());
        check(
            !same,
            format!("journal.to: `{}` is the file of `access_log`; use another one", journal.to),
        );
    }
}

fn check_rotate(section: &str, rotate: Option<Rotate>, check: &mut impl FnMut(bool, String)) {
    let Some(Rotate { size, keep }) = rotate else { return };
    check(
        size >= LEAST_SIZE,
        format!("{section}.rotate.size: {} bytes is too small; use 64KiB or more", size.0),
    );
    check(
        (1..=MOST_KEPT).contains(&keep),
        format!("{section}.rotate.keep: {keep} is out of range; use 1 to {MOST_KEPT}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, Gateway};

    fn read(yaml: &str) -> Result<Gateway, ConfigError> {
        Gateway::read(&format!("version: 1\n{yaml}\n"))
    }

    // Both sections in the form of the documentation; the printed form reads back as the same.
    #[test]
    fn sections() {
        let config = read(
            "access_log: {to: /var/log/a.log, format: logfmt, rotate: {size: 100MB, keep: 3}}\n\
             journal: {to: j.jsonl, rotate: {size: 1GB}}",
        )
        .unwrap();
        let (log, journal) = (config.access_log.clone().unwrap(), config.journal.clone().unwrap());
        assert_eq!((log.format, log.is_stdout()), (LogFormat::Logfmt, false));
        assert_eq!(log.rotate, Some(Rotate { size: Size(100_000_000), keep: 3 }));
        assert_eq!(journal.rotate.map(|rotate| rotate.keep), Some(5));
        assert_eq!(journal.block_tokens, 512);
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
        let stdout = read("access_log: {to: stdout}").unwrap().access_log.unwrap();
        assert_eq!((stdout.is_stdout(), stdout.format), (true, LogFormat::Json));
    }

    // Without the sections nothing is recorded, and the printed form does not have them.
    #[test]
    fn absent() {
        let config = read("").unwrap();
        assert_eq!((&config.access_log, &config.journal), (&None, &None));
        assert!(!config.print().unwrap().contains("journal"));
    }

    // Each mistake is reported with its field, its value and the remedy.
    #[test]
    fn mistakes() {
        for (yaml, says) in [
            ("access_log: {to: ''}", "access_log.to: is empty; name a file"),
            (
                "access_log: {to: stdout, rotate: {size: 1MiB}}",
                "access_log.rotate: `stdout` is not a file; remove `rotate`",
            ),
            (
                "access_log: {to: a, rotate: {size: 1KiB}}",
                "access_log.rotate.size: 1024 bytes is too small; use 64KiB",
            ),
            (
                "journal: {to: a, rotate: {size: 1MiB, keep: 0}}",
                "journal.rotate.keep: 0 is out of range; use 1 to 1000",
            ),
            (
                "journal: {to: a, block_tokens: 8}",
                "journal.block_tokens: 8 is out of range; use 16 to 512",
            ),
            ("journal: {to: ''}", "journal.to: is empty; name a file"),
            ("journal: {to: stdout}", "journal.to: `stdout` is for the access log only"),
            (
                "access_log: {to: a}\njournal: {to: a}",
                "journal.to: `a` is the file of `access_log`; use another one",
            ),
            ("access_log: {to: a, format: xml}", "access_log.format"),
            ("journal: {to: a, fromat: json}", "fromat"),
        ] {
            let error = read(yaml).expect_err(yaml).to_string();
            assert!(error.contains(says), "{says} is missing in {error}");
        }
    }
}
