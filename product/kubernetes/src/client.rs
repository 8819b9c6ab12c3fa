//! The connection to a cluster's API server.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::Query;

/// A client, by the file of the query, the pod's service account, or kubectl's file. Its default
/// namespace is the pod's own, or that of the file.
pub(crate) async fn client(query: &Query) -> Result<Client, String> {
    let config = match &query.kubeconfig {
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
    Client::try_from(config).map_err(|error| format!("cannot connect to the API server: {error}"))
}
