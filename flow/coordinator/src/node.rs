//! The connection of one node: lines of JSON both ways.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use meridian_messages::{LONGEST, Port, ToCoordinator, ToNode, VERSION};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::batches::NodeId;
use crate::driver::Event;

/// Time for a node to introduce itself, and to read what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Verdicts that wait for a node to read them.
const QUEUE: usize = 256;

/// Serves a node until its connection ends.
pub(crate) async fn serve(
    number: NodeId,
    stream: TcpStream,
    address: SocketAddr,
    events: mpsc::Sender<Event>,
) {
    // Verdicts are short and urgent. Without it they are only later.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let mut lines = Lines(BufReader::new(reader));
    let (answers, outbox) = mpsc::channel(QUEUE);
    let writing = tokio::spawn(write(writer, outbox));
    match timeout(PATIENCE, lines.hello()).await {
        Ok(Ok((node, ports))) => {
            tracing::info!(node, %address, ports = ports.len(), "a node has joined");
            let _ = answers.send(ToNode::Welcome { version: VERSION }).await;
            if events.send(Event::Joined(number, ports, answers)).await.is_ok() {
                let error = lines.pass_on(number, &events).await;
                let why = error.map(|error| error.to_string());
                tracing::info!(node, %address, why, "a node has left");
                let _ = events.send(Event::Left(number)).await;
            }
        }
        Ok(Err(why)) => {
            tracing::warn!(%address, why, "a connection is refused");
            let _ = answers.send(ToNode::Refused { why }).await;
            drop(answers);
        }
        Err(_) => {
            tracing::debug!(%address, "no hello came");
            drop(answers);
        }
    }
    // It ends once all answers are written and no sender is left.
    let _ = writing.await;
}

async fn write(mut writer: OwnedWriteHalf, mut outbox: mpsc::Receiver<ToNode>) {
    while let Some(message) = outbox.recv().await {
        let Ok(mut line) = serde_json::to_vec(&message) else { continue };
        line.push(b'\n');
        if !matches!(timeout(PATIENCE, writer.write_all(&line)).await, Ok(Ok(()))) {
            return;
        }
    }
}

struct Lines(BufReader<OwnedReadHalf>);

impl Lines {
    /// The first message, or why the node is refused.
    async fn hello(&mut self) -> std::result::Result<(String, Vec<Port>), String> {
        match self.next().await {
            Ok(Some(ToCoordinator::Hello { version: VERSION, node, ports })) => Ok((node, ports)),
            Ok(Some(ToCoordinator::Hello { version, .. })) => Err(format!(
                "version is {version} and must be {VERSION}: install the same release on all hosts"
            )),
            Ok(Some(_)) => Err("the first message must be hello".to_owned()),
            Ok(None) => Err("the connection ended".to_owned()),
            Err(error) => Err(format!("not a message of a flow gate: {error}")),
        }
    }

    /// Passes messages on until the connection ends, or a line is no message.
    async fn pass_on(&mut self, number: NodeId, events: &mpsc::Sender<Event>) -> Option<Error> {
        loop {
            match self.next().await {
                Ok(Some(message)) => events.send(Event::Said(number, message)).await.ok()?,
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    async fn next(&mut self) -> Result<Option<ToCoordinator>> {
        let mut line = Vec::new();
        (&mut self.0).take(LONGEST as u64).read_until(b'\n', &mut line).await?;
        match line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            Some(_) if line.len() >= LONGEST => Err(Error::new(
                ErrorKind::InvalidData,
                format!("a line is longer than {LONGEST} bytes"),
            )),
            // The connection broke within a line.
            Some(_) => Ok(None),
        }
    }
}
