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
    for (i, piece) in pieces.iter().enumerate() {
        out.push_str(if i == 0 { "{\"role\":\"" } else { ",{\"role\":\"" });
        out.push_str(match piece.role() {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        });
        out.push_str("\",\"content\":");
        match piece {
            Piece::Text(segment) => {
                out.push('"');
                write_text(&mut out, segment.id, segment.bytes);
                out.push('"');
            }
            Piece::Reply(reply) => out.push_str(reply),
        }
        out.push('}');
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
    use meridian_workload::{Generator, ProgramKey, Sessions};

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
}
