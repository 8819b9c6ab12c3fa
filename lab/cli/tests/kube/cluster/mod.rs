//! A cluster without nodes: a real Kubernetes API server and its etcd on this machine.
//!
//! There are no controllers and no kubelets, so tests write what those would: EndpointSlices, the status of
//! pods, Leases. Access rules (RBAC), admission, watches and the schemas of documents are Kubernetes' own.
//!
//! ```ignore
//! let mut cluster = Cluster::start().await;
//! cluster.namespace("serving").await;
//! cluster.create("/api/v1/namespaces/serving/serviceaccounts", &account).await;
//! let token = cluster.account_token("serving", "meridian").await;
//! let kubeconfig = cluster.kubeconfig("meridian", &token, "serving");
//! cluster.kill().await;         // or `stop` and `go_on`
//! cluster.restart().await;      // with its data, at the same port
//! ```

#![allow(dead_code, reason = "each test uses its part of it")]

pub(crate) mod programs;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use meridian_fleet::etcd::Etcd;
use meridian_fleet::{Answer, Client, Fleet, Process, Program, Result, free_port};
use serde_json::{Value, json};

/// The limit of a start, far longer than it takes.
const LIMIT: Duration = Duration::from_secs(120);
/// The token of the user who may do everything.
const ADMIN: &str = "an-admin-of-this-cluster";
const FAILED: &str = "the API server";

/// An API server with its etcd. Both are killed when it is dropped.
pub(crate) struct Cluster {
    apiserver: Process,
    etcd: Etcd,
    // Dropped last: the processes above write into its folder.
    fleet: Fleet,
    program: PathBuf,
    port: u16,
    client: Client,
}

impl Cluster {
    /// Starts a cluster with nothing in it, and waits until it answers.
    pub(crate) async fn start() -> Cluster {
        let program = programs::apiserver().await;
        // It runs no program of ours.
        let fleet = must(Fleet::new(PathBuf::new()));
        let etcd = must(fleet.etcd(1).await);
        let port = must(free_port());
        write_files(fleet.dir());
        let apiserver = begin(&fleet, &etcd, &program, port).await;
        let client = client(&fleet, &apiserver).await;
        let cluster = Cluster { apiserver, etcd, fleet, program, port, client };
        cluster.until_ready().await;
        cluster
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The file with the authority of its certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.fleet.dir().join(CA)
    }

    /// A folder for files of the test.
    pub(crate) fn dir(&self) -> &Path {
        self.fleet.dir()
    }

    /// A configuration of kubectl for the user who may do everything.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin", ADMIN, "default")
    }

    /// The same for the bearer of a token, with its usual namespace.
    pub(crate) fn kubeconfig(&self, name: &str, token: &str, namespace: &str) -> PathBuf {
        let path = self.fleet.dir().join(format!("{name}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "cluster",
                "cluster": {"server": self.url(), "certificate-authority": self.ca()},
            }],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{
                "name": name,
                "context": {"cluster": "cluster", "user": name, "namespace": namespace},
            }],
            "current-context": name,
        });
        std::fs::write(&path, config.to_string()).expect("writes");
        path
    }

    /// A token of a service account, as a pod's: the API server issues it, and RBAC decides about it.
    pub(crate) async fn account_token(&self, namespace: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let body =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let made = self.create(&path, &body).await;
        made["status"]["token"].as_str().expect("it has a token").to_owned()
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &body).await;
    }

    /// Creates an object under the path of its kind; returns it as stored.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Value {
        self.expect(Method::POST, path, Some(body)).await
    }

    /// Merges a change into an object; returns it as stored.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Value {
        self.expect(Method::PATCH, path, Some(body)).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.expect(Method::DELETE, path, None).await
    }

    /// An object, or a list of them.
    pub(crate) async fn get(&self, path: &str) -> Value {
        self.expect(Method::GET, path, None).await
    }

    /// A request of the user who may do everything, which the server has to accept.
    async fn expect(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let answer = must(self.ask(ADMIN, method.clone(), path, body).await);
        let text = String::from_utf8_lossy(&answer.body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {text}", answer.status);
        answer.value()
    }

    /// A request of the bearer of a token, whatever its answer; a PATCH merges.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.url());
        let token = format!("Bearer {token}");
        let is_patch = method == Method::PATCH;
        let kind = if is_patch { "application/merge-patch+json" } else { "application/json" };
        let headers = [("authorization", token.as_str()), ("content-type", kind)];
        let body = body.map(Value::to_string).unwrap_or_default();
        self.client.send(method, &url, body.into(), &headers).await?.whole().await
    }

    /// Kills the API server, as a crash would.
    pub(crate) async fn kill(&mut self) {
        must(self.apiserver.kill().await);
    }

    /// Suspends the API server: connections stay open, and it answers nothing.
    pub(crate) fn stop(&mut self) {
        self.apiserver.stop();
    }

    /// Resumes it.
    pub(crate) fn go_on(&mut self) {
        self.apiserver.go_on();
    }

    /// Starts the killed API server again, with the data of before and at the same port.
    pub(crate) async fn restart(&mut self) {
        self.apiserver = begin(&self.fleet, &self.etcd, &self.program, self.port).await;
        self.until_ready().await;
    }

    /// Waits until it serves, and has made its own objects.
    async fn until_ready(&self) {
        let start = Instant::now();
        for path in ["/readyz", "/api/v1/namespaces/default/services/kubernetes"] {
            while !self.ask(ADMIN, Method::GET, path, None).await.is_ok_and(|it| it.status == 200) {
                assert!(start.elapsed() < LIMIT, "{FAILED}: {path}\n{}", self.apiserver.log_tail());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The certificate that the server makes for itself, followed by that of the authority.
const CA: &str = "kubernetes/apiserver.crt";
const TOKENS: &str = "tokens.csv";
const ACCOUNTS: [&str; 2] = ["accounts.key", "accounts.pub"];

fn write_files(dir: &Path) {
    let tokens = format!("{ADMIN},admin,admin,\"system:masters\"\n");
    let key = rcgen::KeyPair::generate().expect("makes a key");
    let files =
        [(TOKENS, tokens), (ACCOUNTS[0], key.serialize_pem()), (ACCOUNTS[1], key.public_key_pem())];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("writes");
    }
}

async fn begin(fleet: &Fleet, etcd: &Etcd, program: &Path, port: u16) -> Process {
    let file = |name: &str| fleet.dir().join(name).display().to_string();
    let flags = [
        ("etcd-servers", etcd.endpoints().join(",")),
        ("bind-address", "127.0.0.1".to_owned()),
        ("advertise-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("cert-dir", file("kubernetes")),
        ("token-auth-file", file(TOKENS)),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-signing-key-file", file(ACCOUNTS[0])),
        ("service-account-key-file", file(ACCOUNTS[1])),
        ("service-cluster-ip-range", "127.1.0.0/24".to_owned()),
        ("authorization-mode", "RBAC".to_owned()),
        // An Endpoints object of its own would need an address other than loopback.
        ("endpoint-reconciler-type", "none".to_owned()),
        // It wants each pod's account, which a controller would make.
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
    ];
    let flags = flags.map(|(name, value)| format!("--{name}={value}"));
    must(fleet.start(Program::new("kube-apiserver", program).args(flags)).await)
}

/// A client that trusts the server, as soon as that has its certificate.
async fn client(fleet: &Fleet, apiserver: &Process) -> Client {
    let (start, ca) = (Instant::now(), fleet.dir().join(CA));
    loop {
        if let Ok(client) = Client::trusting(&ca) {
            return client;
        }
        assert!(start.elapsed() < LIMIT, "{FAILED}: no certificate\n{}", apiserver.log_tail());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn must<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
