//! The connection to a cluster's API server.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::Query;

/// Longest time without a byte of an answer.
const SILENCE: Duration = Duration::from_secs(75);

/// A client, by the file of the query, kubectl's file if there is one, or the pod's service account. Its default
/// namespace is the pod's own, or that of the file.
pub(crate) async fn client(query: &Query) -> Result<Client, String> {
    let mut config = match &query.kubeconfig {
        Some(path) => {
            let shown = path.display();
            let file = Kubeconfig::read_from(path);
            let file = file.map_err(|error| format!("kubeconfig: {shown}: {error}"))?;
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            config.map_err(|error| format!("kubeconfig: {shown}: {error}"))?
        }
        None => Config::infer().await.map_err(|error| {
            format!(
                "found no cluster: {error}; run the gateway in a pod with a service account, or name a file in `kubeconfig`"
            )
        })?,
    };
    // A server that accepts a connection and answers nothing is one that does not answer. Watches are
    // shorter.
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(|error| format!("cannot connect to the API server: {error}"))
}
