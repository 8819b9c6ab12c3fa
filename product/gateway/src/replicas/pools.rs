//! Facts about a replica of a pool, which other replicas do not need: its version, and for some
//! protocols the ids of its engines.

use meridian_protocol::engines::{self, Engine};
use meridian_protocol::legs::{self, Rank};

use crate::fault::AttemptError;
use crate::replicas::discovery::page;
use crate::replicas::member::Member;
use crate::replicas::questions::Questions;

/// The facts.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) version: Option<String>,
    pub(super) ranks: Vec<Rank>,
}

/// Reads the facts of a replica with this engine; nothing if it takes whole requests.
pub(super) async fn read(
    questions: &Questions,
    member: &Member,
    engine: Engine,
) -> Result<Facts, AttemptError> {
    if member.spec.role.is_both() {
        return Ok(Facts::default());
    }
    let version = version(questions, member, engine).await;
    let ranks = ranks(questions, member, engine).await?;
    Ok(Facts { version, ranks })
}

async fn version(questions: &Questions, member: &Member, engine: Engine) -> Option<String> {
    let page = page(questions, member, engine.version?).await;
    let found = page.ok().and_then(|page| engines::version(&page));
    // A page that is late for once does not change it.
    found.or_else(|| member.found().version)
}

/// The engines of a prefill replica, for a protocol that names them.
async fn ranks(
    questions: &Questions,
    member: &Member,
    engine: Engine,
) -> Result<Vec<Rank>, AttemptError> {
    let protocol = member.transfer_of(Some(engine)).filter(|protocol| protocol.names_engine);
    let server = protocol.filter(|_| member.is_prefill()).and_then(|p| member.bootstrap(p));
    let Some((host, port)) = server else { return Ok(Vec::new()) };
    let authority = match host.contains(':') {
        true => format!("[{host}]:{port}").parse(),
        false => format!("{host}:{port}").parse(),
    };
    let authority = authority
        .map_err(|_| AttemptError::replica(format!("bootstrap: `{host}:{port}` is no address")))?;
    let page = questions.page(member, &authority, "/query").await?;
    legs::ranks(&page.body).map_err(|error| AttemptError::replica(error.to_string()))
}
