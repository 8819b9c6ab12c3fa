//! The probe's lines and its proof of the token.
//!
//! A responder starts each connection with its version and a random number. The peer answers with
//! the connection's role and the HMAC of both under the token, so the token itself is never sent.
//! Lines have a limit, and all of a line must arrive in time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::PATIENCE;
use crate::{Error, Result};

/// The first word of a connection, with the version.
const HELLO: &str = "meridian-probe-1";
/// The longest line of an order.
pub(super) const LINE: usize = 512;
/// The longest line of a report: the bytes of a minute's steps.
pub(super) const REPORT: usize = 64 * 1024;
/// The shortest token.
const SHORTEST: usize = 16;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The caller's orders.
    Order,
    /// A stream of data from another responder.
    Data,
    /// Small messages that come back.
    Echo,
}

const ROLES: [(Role, &str); 3] =
    [(Role::Order, "order"), (Role::Data, "data"), (Role::Echo, "echo")];

/// The secret that the caller and all responders share. It has no `Debug`, so that it is not logged.
#[derive(Clone)]
pub struct Token {
    key: hmac::Key,
    is_empty: bool,
}

impl Token {
    /// A token; empty for responders on loopback addresses.
    ///
    /// # Errors
    ///
    /// If it is short.
    pub fn new(text: &str) -> Result<Token> {
        let text = text.trim();
        if !text.is_empty() && text.len() < SHORTEST {
            return Err(Error::Setting {
                field: "token",
                value: format!("of {} characters", text.len()),
                remedy: format!("use {SHORTEST} or more, as from `openssl rand -hex 16`"),
            });
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes());
        Ok(Token { key, is_empty: text.is_empty() })
    }

    /// Whether everyone knows it.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// A random token and its text, for responders that the caller starts.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn random() -> Result<(Token, String)> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Missing {
            what: "a source of random numbers".to_owned(),
            remedy: "give a token in MERIDIAN_PROBE_TOKEN".to_owned(),
        })?;
        let text = hex(&bytes);
        Ok((Token::new(&text)?, text))
    }

    fn proof(&self, role: &str, nonce: &str) -> String {
        let text = format!("{HELLO} {nonce} {role}");
        hex(hmac::sign(&self.key, text.as_bytes()).as_ref())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The responder's side of the first two lines; the peer's role if it knows the token.
pub(super) fn greet(stream: &mut TcpStream, token: &Token) -> io::Result<Role> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("no random numbers"))?;
    let nonce = hex(&nonce);
    write_line(stream, &format!("{HELLO} {nonce}"))?;
    let line = read_line(stream, LINE, PATIENCE)?;
    let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "no proof of the token");
    let (name, proof) = line.split_once(' ').ok_or_else(refused)?;
    let (role, name) = ROLES.into_iter().find(|(_, one)| *one == name).ok_or_else(refused)?;
    let text = format!("{HELLO} {nonce} {name}");
    let proof = unhex(proof).ok_or_else(refused)?;
    hmac::verify(&token.key, text.as_bytes(), &proof).map_err(|_| refused())?;
    Ok(role)
}

/// The other side of the first two lines. Whether the proof was accepted shows in the first answer.
pub(super) fn introduce(stream: &mut TcpStream, token: &Token, role: Role) -> io::Result<()> {
    let line = read_line(stream, LINE, PATIENCE)?;
    let nonce = line.strip_prefix(HELLO).map(str::trim).ok_or_else(|| {
        let what = format!("it is another service or version, which says `{}`", shown(&line));
        io::Error::new(io::ErrorKind::InvalidData, what)
    })?;
    let name = ROLES.iter().find(|(one, _)| *one == role).map_or("order", |(_, name)| *name);
    write_line(stream, &format!("{name} {}", token.proof(name, nonce)))
}

/// The start of a line of another program, without control characters.
fn shown(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Writes a line.
pub(super) fn write_line(stream: &mut TcpStream, line: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Reads a line of at most `most` bytes, all of it within `limit`, and no byte behind it.
pub(super) fn read_line(
    stream: &mut TcpStream,
    most: usize,
    limit: Duration,
) -> io::Result<String> {
    let end = Instant::now() + limit;
    let mut line = Vec::new();
    // Byte by byte, as what follows may be data: lines are few and short.
    let mut byte = [0];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() == most => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(line).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is no text"))
}
