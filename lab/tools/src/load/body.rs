//! Bodies of requests: a prompt as JSON, written by hand because this is on the hot path.

use bytes::Bytes;
use meridian_workload::{Piece, Role, Walk, write_text};

use super::Options;

/// A reply as it appears in the next prompt: a JSON string, including quotes and escapes.
pub(super) type Reply = String;

/// Converts an answer's text for use in later prompts.
pub(super) fn as_reply(text: &str) -> Reply {
    serde_json::to_string(text).expect("a string is always JSON")
}

/// The body of the chat completion for `node`.
pub(super) fn chat(options: &Options, model: &str, walk: &Walk<Reply>, node: usize) -> Bytes {
    let pieces = walk.prompt(node);
    let mut out = String::with_capacity(size(&pieces) + 256);
    out.push_str("{\"model\":");
    out.push_str(model);
    out.push_str(",\"messages\":[");
    // The blocks of a recorded prompt are parts of one message.
    let merges = options.recorded.is_some();
    let mut before = None;
    for piece in &pieces {
        let role = piece.role();
        if merges && before == Some(role) {
            // Opens the message again.
            out.truncate(out.len() - "\"}".len());
        } else {
            begin(&mut out, before.is_none(), role, piece);
        }
        match piece {
            Piece::Text(segment) => {
                write_text(&mut out, segment.id, segment.bytes);
                out.push('"');
            }
            Piece::Reply(reply) => out.push_str(reply),
        }
        out.push('}');
        before = Some(role);
    }
    out.push_str("],\"max_tokens\":");
    out.push_str(&walk.program().nodes[node].max_tokens.to_string());
    if options.ignore_eos {
        out.push_str(",\"ignore_eos\":true");
    }
    if options.stream {
        out.push_str(",\"stream\":true");
        if options.include_usage {
            out.push_str(",\"stream_options\":{\"include_usage\":true}");
        }
    }
    out.push('}');
    Bytes::from(out)
}

/// The start of a message, up to its text. A reply is a string with quotes of its own.
fn begin(out: &mut String, first: bool, role: Role, piece: &Piece<'_, Reply>) {
    out.push_str(if first { "{\"role\":\"" } else { ",{\"role\":\"" });
    out.push_str(match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    });
    out.push_str("\",\"content\":");
    if let Piece::Text(_) = piece {
        out.push('"');
    }
}

fn size(pieces: &[Piece<'_, Reply>]) -> usize {
    let each = |p: &Piece<'_, Reply>| match p {
        Piece::Text(segment) => segment.bytes as usize,
        Piece::Reply(reply) => reply.len(),
    };
    pieces.iter().map(|p| each(p) + 40).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_workload::{Generator, Program, ProgramKey, Segment, Sessions};
    use std::sync::Arc;

    use crate::load::Recorded;

    // The body is JSON with the program's contents, and a reply returns in it unchanged.
    #[test]
    fn a_reply_returns_unharmed() {
        let key = ProgramKey { seed: 1, region: 0, client: 0, ordinal: 0 };
        let mut walk = Walk::new(Sessions::default().program(key));
        let first = walk.take().expect("a turn");
        walk.answered(first, as_reply("a \"quote\"\nand é"));
        let second = walk.take().expect("a turn");
        let options = Options { ignore_eos: true, ..Options::default() };
        let body = chat(&options, "\"m\"", &walk, second);
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(json["model"], "m");
        assert_eq!(json["messages"][0]["role"], "system");
        assert_eq!(json["messages"][0]["content"].as_str().map(str::len), Some(6144));
        assert_eq!(json["messages"][2]["content"], "a \"quote\"\nand é");
        assert_eq!(json["messages"][2]["role"], "assistant");
        assert_eq!(json["messages"][3]["role"], "user");
        assert_eq!(json["max_tokens"], 64);
        assert_eq!(json["stream_options"]["include_usage"], true);
        assert_eq!(json["ignore_eos"], true);
    }

    // The blocks of a recorded prompt are one message, whose text is that of the blocks in a row.
    #[test]
    fn blocks_are_one_message() {
        let key = ProgramKey { seed: 1, region: 0, client: 0, ordinal: 0 };
        let block = |id, bytes| Segment { role: Role::User, id, bytes };
        let program = Program::path(key, vec![(vec![block(1, 70), block(2, 30)], 5)]);
        let mut walk = Walk::new(program);
        let node = walk.take().expect("a request");
        let recorded = Some(Arc::new(Recorded::new(Vec::new())));
        let body = chat(&Options { recorded, ..Options::default() }, "\"m\"", &walk, node);
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let messages = json["messages"].as_array().expect("a list");
        let mut text = String::new();
        write_text(&mut text, 1, 70);
        write_text(&mut text, 2, 30);
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["content"], text);
    }
}
