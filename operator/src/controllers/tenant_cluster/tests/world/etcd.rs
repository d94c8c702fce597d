//! Members of the simulated tenant cluster's etcd, and what they say.
//!
//! Invariant: what was said is remembered as the operator does, until it dies.

use std::net::IpAddr;

use super::World;
use crate::controllers::tenant_cluster::observed::{Etcd, EtcdListing, Observed};
use crate::etcd_space::looks::LastSaid;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

impl World {
    pub(super) fn ask_etcd(
        &mut self,
        members: &[(String, IpAddr)],
        list: bool,
        observed: &mut Observed,
    ) {
        let of = |(name, _): &(String, _)| (name.clone(), Ok(self.member(name)));
        let answers = members.iter().map(of).collect();
        let said = |(name, _): &(String, _)| (name.clone(), LastSaid::from(&self.member(name)));
        let said: Vec<_> = members.iter().map(said).collect();
        self.etcd_said.extend(said);
        observed.etcd_said.clone_from(&self.etcd_said);
        observed.etcd = Etcd::Asked(answers);
        observed.etcd_listing = list.then(EtcdListing::default);
    }

    /// What a member of etcd says.
    pub(in super::super) fn member(&self, name: &str) -> MemberStatus {
        MemberStatus {
            cluster_id: self.etcd_cluster(),
            member_id: format!("6{}", name.rsplit('-').next().unwrap()),
            leader: Some(format!("6{}", self.leads)),
            alarms: self.alarms.clone(),
            no_space: self
                .alarms
                .iter()
                .filter(|alarm| **alarm == Alarm::NoSpace)
                .map(|_| "1".to_owned())
                .collect(),
            size: if self.dense.contains(name) {
                self.bytes.1
            } else {
                self.bytes.0
            },
            size_in_use: self.bytes.1,
            quota: self.bytes.2,
            applied: self.applied,
            ..MemberStatus::default()
        }
    }
}
