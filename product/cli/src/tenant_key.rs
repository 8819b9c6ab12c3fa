//! `meridian tenant-key`: the hash of a tenant's API key, for the configuration.
//!
//! The key is read from stdin, so no process list and no shell history shows it.

use std::io::{BufRead, Read};

use anyhow::bail;
use meridian_config::KeyHash;

/// Make the hash of a tenant's API key, for `tenants` in a gateway's configuration
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make a new key, and print it before its hash; otherwise the key is read from stdin
    #[arg(long)]
    new: bool,
}

/// Shortest key. The hash is fast, so a shorter key could be found by trial.
const LEAST: usize = 20;
/// Longest key that fits into a header.
const MOST: usize = 1024;
const _: () = assert!(LEAST < MOST, "a key can have a valid length");

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.new {
        let key = meridian_gateway::new_key()?;
        println!("key  {key}\nhash {}", KeyHash::of(key.as_bytes()));
        return Ok(());
    }
    println!("{}", hash(std::io::stdin().lock())?);
    Ok(())
}

fn hash(input: impl BufRead) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(MOST as u64 + 2).read_to_string(&mut text)?;
    let key = text.trim_end_matches(['\r', '\n']);
    if key.len() < LEAST {
        bail!(
            "stdin: the key has {} characters, and one under {LEAST} could be found by trying; use `meridian tenant-key --new`",
            key.len()
        );
    }
    if key.len() > MOST || !key.bytes().all(|b| b.is_ascii_graphic()) {
        bail!(
            "stdin: is not a key; give one line of at most {MOST} printable characters without spaces"
        );
    }
    Ok(KeyHash::of(key.as_bytes()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The newline is not part of a key. A key that could be guessed or cannot be sent is refused,
    // and not shown.
    #[test]
    fn keys_are_read() {
        let key = "0123456789abcdefghij";
        let hashed = hash(format!("{key}\n").as_bytes()).expect("is a key");
        assert_eq!(hashed, hash(key.as_bytes()).expect("is a key"));
        assert!(hashed.starts_with("sha256:") && hashed.len() == 71);
        for (bad, part) in [
            ("hunter2\n", "has 7 characters"),
            ("0123456789 abcdefghij\n", "is not a key"),
            ("0123456789abcdefghij\nk2\n", "is not a key"),
        ] {
            let error = hash(bad.as_bytes()).expect_err("is none").to_string();
            assert!(error.contains(part) && !error.contains(bad.trim()), "{error}");
        }
        assert!(hash("k".repeat(MOST + 1).as_bytes()).is_err());
    }
}
