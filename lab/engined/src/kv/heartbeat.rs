//! Heartbeats: while a decode leg waits, it renews the lease of its blocks.

use super::call::ask;
use super::network::Stream;
use super::wire::Op;
use super::{Remote, Shared};
use std::io::Result;

impl Shared {
    /// Renews the lease until dropped. A failure is left to the transfer, which comes next and
    /// reports it.
    pub(super) async fn keep(&self, remote: &Remote) -> ! {
        let every = self.heartbeat();
        let mut connection = None;
        loop {
            tokio::time::sleep(every).await;
            let renewal = self.renew(remote, &mut connection);
            if !matches!(tokio::time::timeout(every, renewal).await, Ok(Ok(()))) {
                connection = None;
            }
        }
    }

    async fn renew(&self, remote: &Remote, connection: &mut Option<Box<dyn Stream>>) -> Result<()> {
        let stream = match connection {
            Some(stream) => stream,
            None => {
                let stream = self.network.connect(&remote.host, remote.port).await?;
                connection.insert(stream)
            }
        };
        ask(&mut **stream, (remote, &self.name), Op::Renew).await.map(drop)
    }
}
