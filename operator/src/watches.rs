//! Watches on the management cluster that make objects of ours be reconciled again.
//!
//! | Module | What it watches |
//! |---|---|
//! | [`wakes`] | by which requests wake tenant clusters that sleep, in the operator's own namespace |
//! | [`backup_checks`] | what checks BackupTargets, in the operator's own namespace |
//! | [`credentials`] | Secrets that ProviderConfigs name, one by one |
//! | [`kept`] | all objects of some kinds, for who keeps a little of each |
//! | [`owned`] | everything that was applied for TenantClusters |
//! | [`secrets`] | Secrets of tenant namespaces, one namespace at a time |
//! | [`virtual_machines`] | virtual machines of Machines, one namespace at a time |
//!
//! Invariant: metadata only, but for why pods do not run; the reconcile reads bodies itself, so a late or doubled event costs a
//! reconcile and changes nothing.

pub mod backup_checks;
pub mod credentials;
pub mod kept;
pub mod owned;
pub mod secrets;
pub mod virtual_machines;
pub mod wakes;
