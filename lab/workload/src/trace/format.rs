//! The trace formats, and how to detect them.

use super::journal;

/// A format of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Mooncake's JSON lines.
    Mooncake,
    /// The JSON lines of the Qwen-Bailian traces.
    Qwen,
    /// The CSV of the Azure LLM inference traces.
    Azure,
    /// Meridian's own JSON lines.
    Journal,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::Mooncake, Format::Qwen, Format::Azure, Format::Journal];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Mooncake => "mooncake",
            Format::Qwen => "qwen",
            Format::Azure => "azure",
            Format::Journal => "journal",
        }
    }

    /// Its contents, in one line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Format::Mooncake => "JSON lines: time in ms, lengths, prefix ids of 512 tokens",
            Format::Qwen => "JSON lines: time in s, lengths, chats and turns, ids of 16 tokens",
            Format::Azure => "CSV: time of day and lengths; nothing is shared",
            Format::Journal => "JSON lines: Mooncake's, with region, tenant, session and outcome",
        }
    }

    /// The format called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a file that starts with `line`.
    #[must_use]
    pub fn of_first_line(line: &str) -> Option<Format> {
        let line = line.trim_start_matches('\u{feff}').trim_start();
        let has = |key: &str| line.contains(&format!("\"{key}\""));
        match line {
            _ if line.starts_with("TIMESTAMP,") => Some(Format::Azure),
            _ if !line.starts_with('{') => None,
            _ if has(journal::HEADER) => Some(Format::Journal),
            _ if has("chat_id") => Some(Format::Qwen),
            _ if has("input_length") => Some(Format::Mooncake),
            _ => None,
        }
    }

    /// The tokens of a block, if the format defines them.
    #[must_use]
    pub fn block_tokens(self) -> Option<u32> {
        match self {
            Format::Mooncake => Some(512),
            Format::Qwen => Some(16),
            Format::Azure | Format::Journal => None,
        }
    }
}
