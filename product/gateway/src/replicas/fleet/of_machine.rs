//! What the machine's driver needs to know of the replicas, and says about them.

use http::uri::Authority;
use meridian_base::ReplicaId;

use super::Fleet;
use crate::facts::name::ReplicaName;
use crate::machine::driver;

impl driver::Replicas for Fleet {
    fn down(&self, id: ReplicaId) {
        if let Some(member) = self.get(id) {
            tracing::warn!(replica = %member.name, url = %member.spec.url, "replica down");
            member.life.ends();
            member.goes_down();
        }
    }

    fn up(&self, id: ReplicaId) {
        if let Some(member) = self.get(id) {
            tracing::info!(replica = %member.name, url = %member.spec.url, "replica up again");
            member.life.begins();
            member.comes_up();
        }
    }

    fn name(&self, id: ReplicaId) -> Option<ReplicaName> {
        self.get(id).map(|member| member.name.clone())
    }

    fn authority(&self, id: ReplicaId) -> Option<Authority> {
        self.get(id).map(|member| member.authority.clone())
    }
}
