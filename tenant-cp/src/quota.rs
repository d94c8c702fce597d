//! Quotas: what tenant clusters and node pools take, and whether a TenantQuota lets them.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`takes`] | what a TenantCluster and a NodePool take |
//! | [`exceeded`] | the one comparison with a quota, and its sentence |
//! | [`admit`] | admission: nobody grows beyond a quota |
//! | [`grants`] | the leader: what admission let in while it could not see all does not start |
//!
//! What counts is what is asked for, not what runs: it is known before anything is made, and does not
//! change by itself. Requests of cores, because a core that is used up is shared by requests; limits of
//! memory, because memory that is used up is taken from others. What a tenant makes inside (volumes, load
//! balancers of its own, KubeVirt's overhead) does not count.
//!
//! Invariant: admission and the leader compare by the same function; what one lets in with a full view
//! the other lets start. Nothing is ever said against what asks for no more than before.

pub mod admit;
pub mod exceeded;
pub mod grants;
pub mod takes;
#[cfg(test)]
mod tests;
